package engine

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

const (
	tailSize       = 64 << 10
	linesPerSecond = 50 // that reach the log; a flood must not fill the disk
)

// fatal is how Go's runtime, which catches the signals of native faults too, begins its last words.
var fatal = regexp.MustCompile(`^(SIG[A-Z]+: .*|fatal error: .*|panic: .*|runtime: out of memory.*)`)

// stderr drains a child's error stream: it never makes the child wait, however much comes.
type stderr struct {
	log *slog.Logger

	mu    sync.Mutex
	tail  []byte // guarded by mu; the last bytes, up to twice tailSize
	last  string // guarded by mu; the last line that is not empty
	death string // guarded by mu; the first line of the runtime's last words

	second  time.Time // of the lines counted in lines
	lines   int
	omitted int
}

// drain reads until the stream ends.
func (s *stderr) drain(r io.Reader) {
	in := bufio.NewReaderSize(r, 64<<10)
	continued := false // the line began in an earlier slice
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			s.keep(line, continued)
		}
		continued = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !continued {
			return
		}
	}
}

func (s *stderr) keep(line []byte, continued bool) {
	s.mu.Lock()
	s.tail = append(s.tail, line...)
	if len(s.tail) > 2*tailSize {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-tailSize:]...)
	}
	text := string(trimLine(line))
	if !continued && text != "" {
		s.last = text
		if s.death == "" && fatal.MatchString(text) {
			s.death = text
		}
	}
	s.mu.Unlock()
	if !continued && text != "" {
		s.report(text)
	}
}

// report is called by drain only.
func (s *stderr) report(line string) {
	now := time.Now()
	if now.Sub(s.second) >= time.Second {
		if s.omitted > 0 {
			s.log.Warn("engine process: lines left out of the log", "lines", s.omitted)
		}
		s.second, s.lines, s.omitted = now, 0, 0
	}
	if s.lines++; s.lines > linesPerSecond {
		s.omitted++
		return
	}
	s.log.Debug("engine process", "stderr", line)
}

func trimLine(line []byte) []byte {
	const most = 2000
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line[:min(len(line), most)]
}

// words returns the last line, the first of the runtime's last words, and what came last in all.
func (s *stderr) words() (last, death, tail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.death, string(s.tail)
}
