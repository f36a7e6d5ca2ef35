package models

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Library is a set of folders that hold models. Its methods may be called from several goroutines at once.
type Library struct {
	place atomic.Pointer[place]
	table atomic.Pointer[func() Table] // see SetTable; nil: Builtin
	locks sync.Map                     // by folder: one inspection of a folder at a time
	space func(dir string) (free, total int64, err error)

	manifests manifests

	changing sync.Mutex        // one change at a time
	inUse    func(string) bool // see SetInUse; guarded by changing
}

// Open makes a library over the folders. The first is the user's own, and also keeps what was worked out about the models;
// the others are read-only. Nothing is read yet, and a folder need not exist.
func Open(dirs ...string) *Library {
	l := &Library{space: Space}
	l.Reopen(dirs...)
	return l
}

// place is where the models are.
type place struct {
	dirs  []string
	cache *cache
}

// Reopen puts the library over other folders, as Open does.
func (l *Library) Reopen(dirs ...string) {
	p := &place{dirs: slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == "" })}
	path := ""
	if len(p.dirs) > 0 {
		path = filepath.Join(p.dirs[0], ".library.json")
	}
	p.cache = newCache(path)
	l.place.Store(p)
}

// Trouble is a sentence for people about what the library keeps for itself: that it was damaged, and what was done. "" means
// that all is well.
func (l *Library) Trouble() string { return l.cache().problem() }

// SetTable tells the library how to get the list of well-known models, whose short names find what is installed of them.
func (l *Library) SetTable(table func() Table) { l.table.Store(&table) }

func (l *Library) wellKnown() Table {
	if table := l.table.Load(); table != nil {
		return (*table)()
	}
	return Builtin()
}

func (l *Library) dirs() []string { return l.place.Load().dirs }

func (l *Library) cache() *cache { return l.place.Load().cache }

// folder is a folder that has something of a model.
type folder struct {
	home     string // where its manifest is
	dir      string // where its files are: home, or elsewhere for one that was imported by reference
	name     string // canonical
	manifest manifest
	files    []file // see measure; nil: they were not looked at
	readOnly bool
	listed   bool // it has its name, and was not deleted
	away     bool // its files are elsewhere, and that folder is not there
}

// file is a file of a model.
type file struct {
	name     string
	size     int64
	modified time.Time
}

// List returns the models, newest first. It fails only when a folder that is there cannot be read. What it finds out about
// a model is kept, so that only the first List after a change reads all of the files.
func (l *Library) List() ([]Model, error) {
	folders, err := l.scan()
	if err != nil {
		return nil, err
	}
	models := make([]Model, 0, len(folders))
	for _, f := range folders {
		if f.listed {
			models = append(models, l.inspect(f, folders))
		}
	}
	if err := l.cache().save(folders); err != nil {
		return nil, err
	}
	slices.SortStableFunc(models, func(a, b Model) int { return b.ModifiedAt.Compare(a.ModifiedAt) })
	return models, nil
}

// Find returns the model of that name: the canonical one, with or without ":latest", in any case of ASCII letters, or the
// name of the hub it came from. A well-known name ("qwen3:4b") also finds the model that it means under the name of the hub
// or of its folder ("Qwen3-4B-int4-ov"), and else the only one that differs in nothing but its quantization. The error is an *llm.Error: CodeInvalid for what can be no name, CodeModelNotFound with the
// nearest names as its hint. A damaged model is found; look at Damaged.
func (l *Library) Find(name string) (Model, error) {
	if !ValidName(name) {
		return Model{}, invalidName()
	}
	folders, err := l.glance()
	if err != nil {
		return Model{}, err
	}
	f := l.match(name, folders)
	if f == nil {
		known := make([]string, 0, len(folders))
		for _, f := range folders {
			if f.listed {
				known = append(known, f.name)
			}
		}
		return Model{}, notFound(name, known)
	}
	return l.inspect(*f, folders), nil
}

func (l *Library) match(name string, folders []folder) *folder {
	key := folded(name)
	for _, same := range []func(f folder) bool{
		func(f folder) bool { return f.listed && f.name == name },
		func(f folder) bool { return f.listed && folded(f.name) == key },
		func(f folder) bool { return f.listed && f.manifest.Source != "" && folded(f.manifest.Source) == key },
	} {
		if i := slices.IndexFunc(folders, same); i >= 0 {
			return &folders[i]
		}
	}
	known, ok := l.wellKnown().Find(name)
	if !ok {
		return nil
	}
	if i := slices.IndexFunc(folders, func(f folder) bool { return f.listed && known.is(f.name, f.manifest.Source) }); i >= 0 {
		return &folders[i]
	}
	var alike *folder
	for i, f := range folders {
		if !f.listed || withoutQuantization(f.manifest.Source) != withoutQuantization(known.Repo) && withoutQuantization(f.name) != withoutQuantization(known.Repo) {
			continue
		}
		if alike != nil {
			return nil // which of them is meant is for the caller to say
		}
		alike = &folders[i]
	}
	return alike
}

// called is the listed folder of exactly that name.
func called(name string, folders []folder) *folder {
	i := slices.IndexFunc(folders, func(f folder) bool { return f.listed && folded(f.name) == folded(name) })
	if i < 0 {
		return nil
	}
	return &folders[i]
}

// scan finds the folders that have something of a model, with their files. Each name is listed once.
func (l *Library) scan() ([]folder, error) {
	folders, err := l.glance()
	for i := range folders {
		folders[i].measure()
	}
	return folders, err
}

// glance is scan without a look at each file, for who wants to know one model: each request does.
func (l *Library) glance() ([]folder, error) {
	var folders []folder
	taken := map[string]bool{}
	for i, dir := range l.dirs() {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the models in %s: %w", dir, err)
		}
		for _, entry := range entries {
			f, ok := glance(filepath.Join(dir, entry.Name()), l.manifests.read)
			if !ok {
				continue
			}
			f.listed = !taken[folded(f.name)] && !f.manifest.Hidden && !f.manifest.Removing
			taken[folded(f.name)] = taken[folded(f.name)] || f.listed
			f.readOnly = i > 0
			folders = append(folders, f)
		}
	}
	return folders, nil
}

// look reads what a folder has: its files, and its manifest.
func look(dir string) (folder, bool) {
	f, ok := glance(dir, readManifest)
	f.measure()
	return f, ok
}

// glance tells whether a folder is a model's, and reads its manifest, which is often enough for that. Links are followed: the
// folder is the user's own.
func glance(dir string, read func(dir string) manifest) (folder, bool) {
	if strings.HasPrefix(filepath.Base(dir), ".") {
		return folder{}, false
	}
	f := folder{home: dir, dir: dir, manifest: read(dir)}
	if elsewhere := f.manifest.Reference; elsewhere != "" && localFolder(elsewhere) {
		f.dir = elsewhere
		info, err := os.Stat(f.dir)
		f.away = err != nil || !info.IsDir() // a drive that is not there now, a folder that was moved
	}
	f.name = f.manifest.Name
	if !ValidName(f.name) {
		f.name = nameOfFolder(filepath.Base(dir))
	}
	return f, f.manifest.Name != "" || f.away || slices.ContainsFunc(filesIn(f.dir), ofAModel)
}

// filesIn are the names of a folder's files.
func filesIn(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		file := entry.Type().IsRegular()
		if !file && !entry.IsDir() { // a link, or what the system does not tell
			info, err := os.Stat(filepath.Join(dir, entry.Name()))
			file = err == nil && info.Mode().IsRegular()
		}
		if file && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names
}

// measure looks at the files.
func (f *folder) measure() {
	f.files = []file{}
	for _, name := range filesIn(f.dir) {
		if info, err := os.Stat(filepath.Join(f.dir, name)); err == nil && info.Mode().IsRegular() {
			f.files = append(f.files, file{name, info.Size(), info.ModTime()})
		}
	}
}

// localFolder keeps a manifest from making Windows send the user's name and password's hash to another machine.
func localFolder(path string) bool {
	return filepath.IsAbs(path) && !strings.HasPrefix(filepath.VolumeName(path), `\\`) && !strings.HasPrefix(path, "//")
}

// ofAModel tells whether a file of that name makes its folder a model's, complete or not.
func ofAModel(name string) bool {
	return name == manifestFile || strings.HasPrefix(name, "openvino_") || filepath.Ext(name) == ".gguf" || filepath.Ext(name) == ".safetensors"
}

func (f folder) size(name string) (int64, bool) {
	i := slices.IndexFunc(f.files, func(other file) bool { return other.name == name })
	if i < 0 {
		return 0, false
	}
	return f.files[i].size, true
}

// inspect returns the folder's model: as it was worked out before, while no file has changed since.
func (l *Library) inspect(f folder, all []folder) Model {
	if f.manifest.Base != "" {
		return l.inspectVariant(f, all)
	}
	if f.files == nil {
		f.measure()
	}
	lock, _ := l.locks.LoadOrStore(f.home, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	m, known := l.cache().get(f)
	if !known {
		var err error
		if m, err = examine(f); err == nil {
			l.cache().put(f, m)
		}
	}
	m.Dir, m.ReadOnly, m.Imported = f.dir, f.readOnly, f.dir != f.home
	return m
}
