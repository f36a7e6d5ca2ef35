//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"
)

// Full reports whether an error says that there is no room: on the disk, or for this user.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// SyncDir makes the names in a folder last. A file system that has no such thing is taken at its word.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
