// Package compiled is the folder of compiled models. Compiling one takes a minute on an NPU, so the runtime keeps what came out
// of it, and here is what the runtime does not do: each way of compiling a model has a folder of its own with a note of what it was
// made from, damage is found before it can give a wrong answer, and what takes space can be listed and removed.
//
//	folder, err := compiled.Open(dir).Take(key)  // folder.Dir is the runtime's CACHE_DIR
//	... compile ...
//	err = folder.Seal()                          // it may be used the next time
//
// Whatever goes wrong here costs time, never the answer: without a folder a model is compiled without a cache.
package compiled

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/internal/disk"
)

// Key is all that a compiled model depends on.
type Key struct {
	Model      string            `json:"model"`   // canonical name
	Digest     string            `json:"digest"`  // of its files
	Device     string            `json:"device"`  // "NPU", "GPU.0", "CPU", as the runtime calls it
	Driver     string            `json:"driver"`  // empty: not known, or it has none
	Runtime    string            `json:"runtime"` // version
	Properties map[string]string `json:"properties"`
}

// about is the note beside the blobs.
type about struct {
	Key
	At    time.Time        `json:"at"`    // when it was compiled
	Files map[string]check `json:"files"` // nil: not sealed
}

// check tells a damaged blob. A checksum of the fast kind is enough: disks are careless, not malicious, and whoever may write
// here may change the program too.
type check struct {
	Size int64  `json:"size"`
	CRC  uint32 `json:"crc32c"`
}

const noteFile = "about.json"

// Cache is the folder of all of them. The zero value is no cache.
type Cache struct{ dir string }

// Open names the folder; it need not exist yet.
func Open(dir string) Cache { return Cache{dir} }

// Folder is where one way of compiling a model is kept.
type Folder struct {
	Dir string // what the runtime is given
	// Ready says that a compiled model is in it, whole.
	Ready bool
	// Again is why a model that was compiled here before must be compiled once more, a clause: "its driver changed (1.2, now
	// 1.3)". Empty: it need not, or it was never compiled.
	Again string

	key Key
}

// Take finds or makes the folder of a key. What can never be used again, of the same model on the same device, goes. A damaged
// one is emptied.
func (c Cache) Take(key Key) (Folder, error) {
	f := Folder{Dir: filepath.Join(c.dir, key.name()), key: key}
	f.Again = c.retire(key)
	note, err := readNote(f.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !exists(f.Dir):
	case err != nil, note.Files == nil: // the process that compiled ended in the middle of it
		f.clear()
	case note.damaged(f.Dir):
		f.clear()
		f.Again = "what was kept of it is damaged"
	default:
		f.Ready = true
		now := time.Now()
		_ = os.Chtimes(filepath.Join(f.Dir, noteFile), now, now) // for Prune, the last use
		return f, nil
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return Folder{}, fmt.Errorf("make a folder for the compiled %s: %w", key.Model, err)
	}
	return f, nil
}

// Seal notes what the folder holds, so that it is used from now on. With an error, for want of space say, the folder is
// empty again.
func (f Folder) Seal() error {
	if f.Ready {
		return nil
	}
	note := about{Key: f.key, At: time.Now().UTC(), Files: map[string]check{}}
	err := eachBlob(f.Dir, func(name string) error {
		sum, err := sumOf(filepath.Join(f.Dir, name))
		note.Files[name] = sum
		return err
	})
	if err == nil && len(note.Files) == 0 { // the runtime kept nothing
		return os.RemoveAll(f.Dir)
	}
	if err == nil {
		err = writeNote(f.Dir, note)
	}
	if err != nil {
		f.clear()
		return fmt.Errorf("keep the compiled %s: %w", f.key.Model, err)
	}
	return nil
}

// Drop removes the folder: what is in it did not work.
func (f Folder) Drop() { _ = os.RemoveAll(f.Dir) }

func (f Folder) clear() {
	_ = os.RemoveAll(f.Dir)
	_ = os.MkdirAll(f.Dir, 0o700)
}

// name is a folder's name: readable at the front, exact at the end.
func (k Key) name() string {
	text, _ := json.Marshal(k) // maps are sorted; strings always marshal
	sum := sha256.Sum256(text)
	return strings.ToLower(k.Device) + "-" + hex.EncodeToString(sum[:8])
}

// retire removes folders of the same model on the same device, compiled with the same properties, that another driver, runtime or
// other files made useless. It says which of these changed.
func (c Cache) retire(key Key) (why string) {
	for _, e := range c.entries() {
		if e.Model != key.Model || e.Device != key.Device || !samePlan(e.Properties, key.Properties) {
			continue
		}
		if changed := e.Changed(key.Digest, key.Driver, key.Runtime); changed != "" {
			why = changed
			_ = os.RemoveAll(e.dir)
		}
	}
	return why
}

func samePlan(a, b map[string]string) bool {
	one, _ := json.Marshal(a)
	other, _ := json.Marshal(b)
	return string(one) == string(other)
}

// Entry is one folder, for people.
type Entry struct {
	Model   string    `json:"model"`
	Digest  string    `json:"-"`
	Device  string    `json:"device"`
	Driver  string    `json:"driver,omitempty"`
	Runtime string    `json:"runtime"`
	Bytes   int64     `json:"bytes"`
	At      time.Time `json:"compiled_at"`
	Used    time.Time `json:"used_at"`

	Properties map[string]string `json:"-"`
	dir        string
}

// Changed is why it is of no use for a model of that digest with that driver and runtime, a clause; empty: it is.
func (e Entry) Changed(digest, driver, runtime string) string {
	switch {
	case e.Driver != driver:
		return "its driver changed (" + cmp.Or(e.Driver, "not known") + ", now " + cmp.Or(driver, "not known") + ")"
	case e.Runtime != runtime:
		return "the runtime changed (" + e.Runtime + ", now " + runtime + ")"
	case e.Digest != digest:
		return "the model's files changed"
	}
	return ""
}

// List is all that is kept, the largest first.
func (c Cache) List() []Entry {
	list := c.entries()
	slices.SortStableFunc(list, func(a, b Entry) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list
}

func (c Cache) entries() []Entry {
	list := []Entry{}
	if c.dir == "" {
		return list
	}
	found, err := os.ReadDir(c.dir)
	if err != nil {
		return list
	}
	for _, d := range found {
		dir := filepath.Join(c.dir, d.Name())
		note, err := readNote(dir)
		if err != nil || note.Files == nil {
			continue
		}
		e := Entry{Model: note.Model, Digest: note.Digest, Device: note.Device, Driver: note.Driver, Runtime: note.Runtime,
			Properties: note.Properties, At: note.At, Used: note.At, dir: dir}
		if info, err := os.Stat(filepath.Join(dir, noteFile)); err == nil {
			e.Used = info.ModTime()
		}
		for _, file := range note.Files {
			e.Bytes += file.Size
		}
		list = append(list, e)
	}
	return list
}

// abandoned is how long a folder without a note stays: a compile may be under way in it.
const abandoned = time.Hour

// Prune removes what want does not want, what nobody wrote a note for, and then the longest unused until the rest takes at
// most that many bytes. It returns how many bytes went.
func (c Cache) Prune(most int64, want func(Entry) bool) (freed int64) {
	list := c.entries()
	slices.SortFunc(list, func(a, b Entry) int { return b.Used.Compare(a.Used) })
	total := int64(0)
	known := map[string]bool{}
	for _, e := range list {
		known[filepath.Base(e.dir)] = true
		if total += e.Bytes; total > most || !want(e) {
			total -= e.Bytes
			if os.RemoveAll(e.dir) == nil {
				freed += e.Bytes
			}
		}
	}
	found, _ := os.ReadDir(c.dir)
	for _, d := range found {
		info, err := d.Info()
		if err == nil && !known[d.Name()] && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(filepath.Join(c.dir, d.Name()))
		}
	}
	return freed
}

func (a about) damaged(dir string) bool {
	for name, want := range a.Files {
		if name != filepath.Base(name) {
			return true
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Size() != want.Size {
			return true
		}
	}
	for name, want := range a.Files {
		if got, err := sumOf(filepath.Join(dir, name)); err != nil || got != want {
			return true
		}
	}
	extra := false
	err := eachBlob(dir, func(name string) error {
		_, known := a.Files[name]
		extra = extra || !known
		return nil
	})
	return extra || err != nil
}

func eachBlob(dir string, do func(name string) error) error {
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range found {
		if d.Name() == noteFile || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".about-") {
			continue
		}
		if err := do(d.Name()); err != nil {
			return err
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(path string) (check, error) {
	f, err := os.Open(path)
	if err != nil {
		return check{}, err
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	n, err := io.CopyBuffer(sum, f, make([]byte, 1<<20))
	return check{n, sum.Sum32()}, err
}

func readNote(dir string) (a about, err error) {
	text, err := os.ReadFile(filepath.Join(dir, noteFile))
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(text, &a)
}

// writeNote leaves the whole note or none.
func writeNote(dir string, a about) error {
	text, err := json.MarshalIndent(a, "", " ")
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(dir, noteFile), append(text, '\n'))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
