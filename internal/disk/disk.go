// Package disk writes files so that a power cut leaves the old one or the new one, and knows when a disk is full.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Write replaces path with data, or makes it, readable by this user alone (0600). The folder must exist. Whoever reads it
// meanwhile sees the old file or the new one, whole, and so does the next start after a power cut. An error leaves the old one.
func Write(path string, data []byte) error { return WriteMode(path, data, 0o600) }

// WriteMode is Write for a file that others may read.
func WriteMode(path string, data []byte, mode fs.FileMode) error {
	if err := write(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, bare(err))
	}
	return nil
}

func write(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when the rename worked
	_, err = f.Write(data)
	if err == nil && mode != 0o600 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return Rename(f.Name(), path)
}

// Rename gives a file or a folder its place for good: it is there after a power cut, too. What is in it must have been synced.
func Rename(from, to string) error {
	if err := Patiently(func() error { return os.Rename(from, to) }); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// bare leaves out what the system says of the temporary file: it is gone, and nobody asked for it.
func bare(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}

// Patiently does something to a file until it works. Windows refuses to open, replace or remove a file while another process
// does, which takes that one microseconds.
func Patiently(do func() error) (err error) {
	for range 50 {
		err = do()
		if err == nil || errors.Is(err, fs.ErrNotExist) || runtime.GOOS != "windows" {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return err
}
