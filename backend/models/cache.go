package models

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/disk"
)

// cacheFormat is part of each signature: raise it when examine finds out more than before.
const cacheFormat = "4"

// cache keeps what was worked out about each folder, in memory and in a file. The file may go at any time.
type cache struct {
	path string // empty: memory alone

	mu      sync.Mutex
	loaded  bool              // guarded by mu
	changed bool              // since the file was written; guarded by mu
	known   map[string]cached // by folder; guarded by mu
	trouble string            // what was wrong with the file, a sentence; guarded by mu
}

type cached struct {
	Signature string `json:"signature"` // of the files that Model was worked out from
	Model     Model  `json:"model"`
}

func newCache(path string) *cache { return &cache{path: path, known: map[string]cached{}} }

func (c *cache) get(f folder) (Model, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	k, ok := c.known[f.home]
	if !ok || k.Signature != f.signature() {
		return Model{}, false
	}
	m := k.Model
	m.Parameters, m.Capabilities = slices.Clone(m.Parameters), slices.Clone(m.Capabilities)
	return m, true
}

// load reads the file once. One that cannot be read is an empty one; a damaged one is put aside, so that it can be looked at.
func (c *cache) load() {
	if c.loaded || c.path == "" {
		return
	}
	c.loaded = true
	text, err := readFile(c.path, 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var known map[string]cached
	read := err == nil
	if read {
		err = json.Unmarshal(text, &known)
	}
	if err == nil && known != nil {
		c.known = known
		return
	}
	aside := ""
	if read && os.Rename(c.path, c.path+".damaged") == nil {
		aside = " It was put aside as " + filepath.Base(c.path) + ".damaged."
	}
	c.trouble = fmt.Sprintf("What was worked out about the models (%s) cannot be read (%v).%s It is worked out again from the models' files, which takes a moment once; the models themselves are not touched.",
		c.path, cmp.Or(err, errors.New("it is empty")), aside)
}

// problem is what was wrong with the file; "" when nothing was.
func (c *cache) problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	return c.trouble
}

func (c *cache) put(f folder, m Model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[f.home] = cached{Signature: f.signature(), Model: m}
	c.changed = true
}

// save writes the file if anything has changed, and forgets folders that have gone. A user's folder that cannot be written
// is no error: the cache then lasts as long as the process.
func (c *cache) save(folders []folder) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for dir := range c.known {
		if !slices.ContainsFunc(folders, func(f folder) bool { return f.home == dir }) {
			delete(c.known, dir)
			c.changed = true
		}
	}
	if !c.changed || c.path == "" {
		return nil
	}
	text, err := json.MarshalIndent(c.known, "", " ")
	if err != nil {
		return fmt.Errorf("keep what is known about the models: %w", err)
	}
	c.changed = false
	replaceFile(c.path, text) //nolint:errcheck // see above
	return nil
}

// replaceFile writes a file whole or not at all, readable by this user alone.
func replaceFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return disk.Write(path, text)
}

// signature changes when any file of the folder does.
func (f folder) signature() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q %s %s", cacheFormat, f.dir, f.manifest.Name, f.manifest.Revision)
	for _, file := range f.files {
		fmt.Fprintf(&b, "\n%q %d %d", file.name, file.size, file.modified.UnixNano())
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

// digest is over names and contents of the files; the manifest, which is ours, stays out. Files are sorted by name.
func (f folder) digest() (string, error) {
	all := sha256.New()
	for _, file := range f.files {
		if file.name == manifestFile {
			continue
		}
		sum, err := hashFile(filepath.Join(f.dir, file.name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%x %q\n", sum, file.name)
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

func hashFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// readFile reads a whole file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return text, nil
}
