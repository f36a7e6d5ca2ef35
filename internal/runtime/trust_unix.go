//go:build !windows

package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// onlyOurs returns an error when someone else could change what is loaded from dir or from one of the folders below it.
func onlyOurs(dir string, folders []string) error {
	for _, folder := range folders {
		full := filepath.Join(dir, filepath.FromSlash(folder))
		entries, err := os.ReadDir(full)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Check says what is missing, and better
		}
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if err := onlyOursAt(filepath.Join(full, entry.Name())); err != nil {
				return err
			}
		}
		for at := full; at != dir; at = filepath.Dir(at) {
			if err := onlyOursAt(at); err != nil {
				return err
			}
		}
	}
	if err := onlyOursAt(dir); err != nil {
		return err
	}
	// Whoever can rename a folder above can put another one in its place; in a sticky folder such as /tmp nobody can.
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("every user can change %s", at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func onlyOursAt(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("other users can change %s (mode %04o)", path, info.Mode().Perm())
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && owner.Uid != 0 && owner.Uid != uint32(os.Getuid()) {
		return fmt.Errorf("%s belongs to another user (uid %d)", path, owner.Uid)
	}
	return nil
}
