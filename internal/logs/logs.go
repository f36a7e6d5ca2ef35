// Package logs writes the program's log: to standard error and to a file that is kept small. Prompts and answers are never
// logged.
package logs

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

const maxSize = 4 << 20 // bytes of one log file; one older file is kept

// Open returns a logger that writes to console and to signalbox.log in dir. A file that cannot be written is no error: the
// console is enough to run. Close ends it.
func Open(dir string, console io.Writer) (*slog.Logger, io.Closer) {
	f := &file{path: filepath.Join(dir, "signalbox.log")}
	return slog.New(slog.NewTextHandler(io.MultiWriter(quiet{f}, quiet{console}), nil)), f
}

// quiet hides a writer's errors: a closed terminal (serve | head) or a full disk must not end the log's other half.
type quiet struct{ w io.Writer }

func (q quiet) Write(p []byte) (int, error) {
	_, _ = q.w.Write(p)
	return len(p), nil
}

// file is a log file that starts anew when it is full, keeping the last full one beside it.
type file struct {
	path string
	mu   sync.Mutex
	f    *os.File // nil until the first write and after Close
	size int64
}

func (l *file) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil && l.size+int64(len(p)) > maxSize {
		l.f.Close()
		l.f = nil
		_ = os.Rename(l.path, l.path+".1")
	}
	if l.f == nil {
		f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, fmt.Errorf("open the log file: %w", err)
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return 0, err
		}
		l.f, l.size = f, info.Size()
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *file) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
