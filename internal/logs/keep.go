package logs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kept is how many texts of one name stay.
const kept = 10

// Keep puts a text that is too long for the log into a file of its own beside it, and tells where. The newest ten of a name stay.
func Keep(dir, name, text string) (path string, err error) {
	path = filepath.Join(dir, fmt.Sprintf("%s-%s.txt", name, time.Now().UTC().Format("20060102-150405.000000")))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	files, err := os.ReadDir(dir) // sorted by name: by time
	if err != nil {
		return path, nil
	}
	base := filepath.Base(path)
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool {
		return len(f.Name()) != len(base) || !strings.HasPrefix(f.Name(), name+"-")
	})
	for _, f := range files[:max(0, len(files)-kept)] {
		_ = os.Remove(filepath.Join(dir, f.Name()))
	}
	return path, nil
}
