package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// onlyOurs returns an error when someone else could change what is loaded from dir or from one of the folders below it. Files
// are not looked at one by one: they take their rights from their folder, and their content is compared with the lock.
func onlyOurs(dir string, folders []string) error {
	paths := []string{dir}
	for _, folder := range folders {
		full := filepath.Join(dir, filepath.FromSlash(folder))
		if _, err := os.Stat(full); errors.Is(err, fs.ErrNotExist) {
			continue // Check says what is missing, and better
		}
		paths = append(paths, full)
	}
	for _, path := range paths {
		rights, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			return fmt.Errorf("who may change %s is not known: %w", path, err)
		}
		if who := widelyWritable(rights.String()); who != "" {
			return fmt.Errorf("other users (%s) can change %s", who, path)
		}
	}
	return nil
}
