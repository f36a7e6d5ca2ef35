//go:build !windows

package models

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Space is what a file system has: free for this user, and in all.
func Space(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}

// onDisk is what a file takes: one that is being fetched in ranges has holes.
func onDisk(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return min(info.Size(), s.Blocks*512)
	}
	return info.Size()
}

// ownFile refuses a file that somebody else could have written. One that is not there is nobody's.
func ownFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm()&0o022 != 0 || ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not read: others can write it (`chmod go-w` keeps them out)", path)
	}
	return nil
}
