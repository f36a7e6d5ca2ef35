// Package dirs says where Signalbox keeps its files.
package dirs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/adrg/xdg"
)

// Dirs are the folders of one user's Signalbox. All are made with mode 0700 by Make.
type Dirs struct {
	Config string // settings.json, hub-tokens.json
	Data   string // models/, runtime/, journal.db, cards.json, known.json
	State  string // the lock and what it says of its owner, the window's size, logs/
	Cache  string // compiled/
}

// Find returns the folders: all under SIGNALBOX_HOME where that is set, else the system's usual ones.
func Find() (Dirs, error) {
	if home := os.Getenv("SIGNALBOX_HOME"); home != "" {
		abs, err := filepath.Abs(home)
		if err != nil {
			return Dirs{}, fmt.Errorf("SIGNALBOX_HOME %q: %w", home, err)
		}
		return Dirs{Config: abs, Data: abs, State: abs, Cache: filepath.Join(abs, "cache")}, nil
	}
	// Without a home xdg answers folders at the root of the disk, such as /.config.
	if _, err := os.UserHomeDir(); err != nil {
		return Dirs{}, fmt.Errorf("find the home folder: %w; set SIGNALBOX_HOME to the folder that Signalbox may use", err)
	}
	const name = "signalbox"
	return Dirs{
		Config: filepath.Join(xdg.ConfigHome, name),
		Data:   filepath.Join(xdg.DataHome, name),
		State:  filepath.Join(xdg.StateHome, name),
		Cache:  filepath.Join(xdg.CacheHome, name),
	}, nil
}

// Make creates the folders, readable by this user alone.
func (d Dirs) Make() error {
	for _, dir := range []string{d.Config, d.Data, d.State, d.Cache, d.Logs(), d.Models()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the folder %s: %w", dir, err)
		}
	}
	return nil
}

func (d Dirs) Settings() string { return filepath.Join(d.Config, "settings.json") }
func (d Dirs) Models() string   { return filepath.Join(d.Data, "models") }
func (d Dirs) Journal() string  { return filepath.Join(d.Data, "journal.db") }
func (d Dirs) Logs() string     { return filepath.Join(d.State, "logs") }

// Compiled is where compiled models are kept.
func (d Dirs) Compiled() string { return filepath.Join(d.Cache, "compiled") }

// Runtime is the user's own copy of the native libraries.
func (d Dirs) Runtime() string { return filepath.Join(d.Data, "runtime", Platform()) }

// Platform names the native libraries' folder: "linux-amd64", "windows-amd64".
func Platform() string { return runtime.GOOS + "-" + runtime.GOARCH }

// Beside is a path next to the executable, where a release keeps its runtime and starter models.
func Beside(elem ...string) string {
	exe, err := os.Executable()
	if err != nil {
		return "" // no /proc: nothing is beside us
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return filepath.Join(append([]string{filepath.Dir(exe)}, elem...)...)
}
