package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/disk"
)

// Runtime is a folder of native libraries that was checked: openvino/libs, openvino_tokenizers/lib, tvm_ffi/lib, xgrammar.
type Runtime struct {
	Dir     string // absolute
	Version string // OpenVINO's, such as "2026.4.1"
}

// Find returns the runtime of this system. With a setting (the user's runtime_dir) it looks there and nowhere else; without,
// in runtime/<os>-<arch> below the folder beside the program and then below the user's data folder. An empty name is not
// looked at. What is found was checked against the lock: whole, unchanged, of the right version, nothing added.
//
// Every error is an *llm.Error of code CodeUnavailable, one sentence with the next step as its hint.
func Find(setting, beside, userData string) (Runtime, error) {
	target, err := Here()
	if err != nil {
		return Runtime{}, err
	}
	return target.Find(setting, beside, userData)
}

// Find is Find for the runtime of a given system.
func (t Target) Find(setting, beside, userData string) (Runtime, error) {
	if setting != "" {
		return t.findSetting(setting)
	}
	var looked []string
	var first error
	for _, parent := range []string{beside, userData} {
		if parent == "" {
			continue
		}
		dir, err := filepath.Abs(filepath.Join(parent, "runtime", t.Name))
		if err != nil {
			return Runtime{}, llm.Errorf(llm.CodeUnavailable, "find the native runtime: %w", err)
		}
		looked = append(looked, dir)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err = t.Check(dir); err == nil {
			return Runtime{Dir: dir, Version: t.Version}, nil
		}
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return Runtime{}, first
	}
	return Runtime{}, llm.Errorf(llm.CodeUnavailable, "the native runtime (OpenVINO %s) is missing: looked in %s",
		t.Version, strings.Join(looked, " and ")).
		WithHint("run `make setup` in the source folder or install Signalbox again")
}

func (t Target) findSetting(setting string) (Runtime, error) {
	dir, err := filepath.Abs(setting)
	if err != nil {
		return Runtime{}, llm.Errorf(llm.CodeUnavailable, "find the native runtime: %w", err)
	}
	if _, err := os.Stat(dir); err != nil {
		return Runtime{}, llm.Errorf(llm.CodeUnavailable, "the native runtime is missing: the setting runtime_dir names %s: %w", dir, err).
			WithHint("correct the setting runtime_dir, or empty it to use the runtime that came with the program")
	}
	if err := onlyOurs(dir, t.folders()); err != nil {
		return Runtime{}, llm.Errorf(llm.CodeUnavailable, "the native runtime in %s is not used: %w", dir, err).
			WithHint("take the right to write away from other users, or empty the setting runtime_dir")
	}
	if err := t.Check(dir); err != nil {
		return Runtime{}, err
	}
	return Runtime{Dir: dir, Version: t.Version}, nil
}

// Check tells whether dir holds this runtime. A file is read again only when its size or time has changed since it was last
// found to be right, so that a start costs some 20 file stats.
func (t Target) Check(dir string) error {
	return t.verify(dir, readMarker(dir))
}

// Verify is Check that reads every file.
func (t Target) Verify(dir string) error {
	known := readMarker(dir)
	known.Files = nil
	return t.verify(dir, known)
}

func (t Target) verify(dir string, known marker) error {
	if known.Version != "" && (known.Version != t.Version || known.Target != t.Name) {
		return t.wrongVersion(dir, fmt.Sprintf("%s for %s", known.Version, known.Target))
	}
	now := marker{Version: t.Version, Target: t.Name, Files: map[string]stamp{}}
	changed := false
	for _, wheel := range t.Wheels {
		for _, file := range wheel.Files {
			seen, err := look(dir, file)
			if errors.Is(err, fs.ErrNotExist) {
				if other := otherVersion(dir, file.Path); other != "" {
					return t.wrongVersion(dir, "another one (it has "+other+")")
				}
			}
			if err == nil && known.Files[file.Path] != seen {
				changed = true
				err = hashes(dir, file)
			}
			if err != nil {
				return t.damaged(dir, err)
			}
			now.Files[file.Path] = seen
		}
	}
	if err := t.nothingAdded(dir); err != nil {
		return t.damaged(dir, err)
	}
	if changed {
		_ = now.write(dir) // a folder that cannot be written to is read in full at each start: slower, not wrong
	}
	return nil
}

func (t Target) damaged(dir string, err error) error {
	return llm.Errorf(llm.CodeUnavailable, "the native runtime in %s is damaged: %w", dir, err).
		WithHint("delete that folder, then run `make setup` in the source folder or install Signalbox again")
}

func (t Target) wrongVersion(dir, has string) error {
	return llm.Errorf(llm.CodeUnavailable, "the native runtime in %s is OpenVINO %s, not %s for %s", dir, has, t.Version, t.Name).
		WithHint("run `make setup` in the source folder or install Signalbox again")
}

// folders lists the folders that libraries are loaded from, with slashes.
func (t Target) folders() []string {
	var out []string
	seen := map[string]bool{}
	for _, wheel := range t.Wheels {
		for _, file := range wheel.Files {
			if folder := path.Dir(file.Path); isLibrary(file.Path) && !seen[folder] {
				seen[folder] = true
				out = append(out, folder)
			}
		}
	}
	return out
}

// nothingAdded refuses a library that the lock does not name: the loader looks for some by bare name, beside the others, and
// would run whatever has that name (tcm.dll, libirml.so.1).
func (t Target) nothingAdded(dir string) error {
	listed := map[string]bool{}
	for _, wheel := range t.Wheels {
		for _, file := range wheel.Files {
			listed[file.Path] = true
		}
	}
	for _, folder := range t.folders() {
		entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(folder)))
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if name := path.Join(folder, entry.Name()); isLibrary(name) && !listed[name] {
				return fmt.Errorf("%s does not belong there", name)
			}
		}
	}
	return nil
}

var library = regexp.MustCompile(`(?i)(\.dll|\.so(\.[0-9.]+)?)$`)

func isLibrary(name string) bool { return library.MatchString(name) }

var soVersion = regexp.MustCompile(`\.so\.[0-9]+$`)

// otherVersion returns the name of a library beside file that only differs by the version at its end, if there is one.
func otherVersion(dir, file string) string {
	stem := soVersion.ReplaceAllString(file, ".so.")
	if stem == file {
		return ""
	}
	entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(path.Dir(file))))
	if err != nil {
		return ""
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), path.Base(stem)) {
			return entry.Name()
		}
	}
	return ""
}

// stamp is what tells at little cost that a file is still the one that was read.
type stamp struct {
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

func look(dir string, file File) (stamp, error) {
	info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(file.Path)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return stamp{}, fmt.Errorf("%s is missing: %w", file.Path, fs.ErrNotExist)
	case err != nil:
		return stamp{}, err
	case !info.Mode().IsRegular():
		return stamp{}, fmt.Errorf("%s is not a plain file", file.Path)
	case info.Size() != file.Size:
		return stamp{}, fmt.Errorf("%s has %d bytes, not %d", file.Path, info.Size(), file.Size)
	}
	return stamp{Size: info.Size(), Modified: info.ModTime().UTC()}, nil
}

func hashes(dir string, file File) error {
	opened, err := os.Open(filepath.Join(dir, filepath.FromSlash(file.Path)))
	if err != nil {
		return err
	}
	defer opened.Close()
	sum, err := sha256Of(opened)
	if err == nil && sum != file.SHA256 {
		err = fmt.Errorf("%s has another content than the lock says (sha256 %s)", file.Path, sum)
	}
	return err
}

func sha256Of(r io.Reader) (string, error) {
	hash := sha256.New()
	_, err := io.Copy(hash, r)
	return hex.EncodeToString(hash.Sum(nil)), err
}

// marker is the note in a runtime folder about what it holds and when it was last read in full.
type marker struct {
	Version string           `json:"version"`
	Target  string           `json:"target"`
	Files   map[string]stamp `json:"files"`
}

const markerName = "signalbox-runtime.json"

// readMarker returns the folder's note, or an empty one: then everything is read.
func readMarker(dir string) marker {
	var m marker
	data, err := os.ReadFile(filepath.Join(dir, markerName))
	if err != nil || json.Unmarshal(data, &m) != nil {
		return marker{}
	}
	return m
}

func (m marker) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return disk.WriteMode(filepath.Join(dir, markerName), append(data, '\n'), 0o644)
}
