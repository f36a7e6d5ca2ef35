package instance

import (
	"io/fs"
	"os"
)

// MakeReadOnly makes removing fail as on a disk that cannot be written to, until the function it returns is called.
func MakeReadOnly() (undo func()) {
	removeFile = func(path string) error { return &fs.PathError{Op: "remove", Path: path, Err: readOnly} }
	return func() { removeFile = os.Remove }
}
