package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"signalbox/backend/llm"
	"signalbox/internal/brief"
	"signalbox/internal/disk"
)

// Folders within the user's own that hold no models.
const (
	trashDir   = ".trash"   // what was deleted since the start
	PartialDir = ".partial" // what is being fetched
	blobsDir   = ".blobs"   // what clients sent
)

// SetInUse tells the library how to ask whether an engine has a model loaded, by its reference's name.
func (l *Library) SetInUse(inUse func(name string) bool) {
	l.changing.Lock()
	defer l.changing.Unlock()
	l.inUse = inUse
}

// Own is the user's own folder; "" when there is none.
func (l *Library) Own() string {
	if dirs := l.dirs(); len(dirs) > 0 {
		return dirs[0]
	}
	return ""
}

// change runs one change at a time, over all processes that share the folder, with a scan of how things are.
func (l *Library) change(do func(folders []folder) error) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if l.Own() == "" {
		return llm.Errorf(llm.CodeUnavailable, "there is no folder for models")
	}
	if err := os.MkdirAll(l.Own(), 0o700); err != nil {
		return fmt.Errorf("make the folder for models: %w", err)
	}
	lock := flock.New(filepath.Join(l.Own(), ".lock"))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("change the models in %s: %w", l.Own(), err)
	}
	defer lock.Unlock() //nolint:errcheck // it ends with the file
	folders, err := l.scan()
	if err != nil {
		return err
	}
	return do(folders)
}

// find is the listed folder of that name, with Ollama's texts when there is none.
func (l *Library) find(name string, folders []folder) (*folder, error) {
	if !ValidName(name) {
		return nil, llm.Errorf(llm.CodeInvalid, "name %q is invalid", brief.Text(name))
	}
	f := l.match(name, folders)
	if f == nil {
		var known []string
		for _, other := range folders {
			if other.listed {
				known = append(known, other.name)
			}
		}
		return nil, notFound(name, known)
	}
	return f, nil
}

// Delete takes a model out of the library. Files that variants share stay until the last of them goes; of a model that was
// imported by reference only our own note goes, never the folder. Until EmptyTrash it can be brought back by Restore. A
// model that is in use is not listed any more, and its files go at the first Sweep after it was unloaded.
func (l *Library) Delete(name string) error {
	return l.change(func(folders []folder) error {
		f, err := l.find(name, folders)
		if err != nil {
			return err
		}
		if f.readOnly {
			return llm.Errorf(llm.CodeForbidden, "%s came with Signalbox and cannot be deleted", f.name)
		}
		if variants := variantsOf(*f, folders); len(variants) > 0 {
			f.manifest.Name, f.manifest.Hidden = f.name, true
			return writeManifest(f.home, f.manifest)
		}
		if err := l.discard(*f); err != nil {
			return err
		}
		return l.releaseBase(*f, folders)
	})
}

// releaseBase lets go a model that was deleted before and was kept for this variant alone.
func (l *Library) releaseBase(f folder, folders []folder) error {
	if f.manifest.Base == "" {
		return nil
	}
	base := baseOf(f, folders)
	if base == nil || !base.manifest.Hidden || base.readOnly {
		return nil
	}
	others := slices.DeleteFunc(variantsOf(*base, folders), func(v folder) bool { return v.home == f.home })
	if len(others) > 0 {
		return nil
	}
	return l.discard(*base)
}

func variantsOf(base folder, folders []folder) (list []folder) {
	if base.manifest.Base != "" {
		return nil
	}
	for _, f := range folders {
		if f.manifest.Base == filepath.Base(base.home) && !f.manifest.Removing {
			list = append(list, f)
		}
	}
	return list
}

// discard moves a folder to the trash, or marks it when that is not possible while it is in use.
func (l *Library) discard(f folder) error {
	used := l.inUse != nil && f.manifest.Base == "" && l.inUse(f.name)
	if !used {
		err := l.toTrash(f.home)
		if err == nil || !errors.Is(err, fs.ErrPermission) {
			return err
		}
		// Windows: somebody still has a file of it open.
	}
	f.manifest.Name, f.manifest.Removing = f.name, true
	return writeManifest(f.home, f.manifest)
}

// toTrash renames, which works with links too: a link itself goes, not what it leads to.
func (l *Library) toTrash(home string) error {
	trash := filepath.Join(l.Own(), trashDir)
	if err := os.MkdirAll(trash, 0o700); err != nil {
		return err
	}
	to := filepath.Join(trash, filepath.Base(home))
	if err := removeTree(to); err != nil {
		return err
	}
	return os.Rename(home, to)
}

// removeTree deletes a folder. A link goes by itself: RemoveAll never follows one.
func removeTree(path string) error { return os.RemoveAll(path) }

// Restore brings a deleted model back. Its name may have been taken since.
func (l *Library) Restore(name string) error {
	return l.change(func(folders []folder) error {
		if called(name, folders) != nil {
			return llm.Errorf(llm.CodeInvalid, "there is a model %q again: rename or delete it first", name)
		}
		for _, f := range folders {
			if folded(f.name) == folded(name) && (f.manifest.Hidden || f.manifest.Removing) && !f.readOnly {
				f.manifest.Hidden, f.manifest.Removing = false, false
				return writeManifest(f.home, f.manifest)
			}
		}
		entries, err := os.ReadDir(filepath.Join(l.Own(), trashDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, entry := range entries {
			f, ok := look(filepath.Join(l.Own(), trashDir, entry.Name()))
			if ok && folded(f.name) == folded(name) {
				return os.Rename(f.home, filepath.Join(l.Own(), entry.Name()))
			}
		}
		return llm.Errorf(llm.CodeModelNotFound, "no deleted model %q is left", name).
			WithHint("`signalbox df` lists what was deleted and can come back, until Signalbox ends")
	})
}

// Sweep frees models that were deleted while they were in use and are not any more.
func (l *Library) Sweep() error {
	return l.change(func(folders []folder) error {
		var errs []error
		for _, f := range folders {
			if f.manifest.Removing && !f.readOnly && (l.inUse == nil || !l.inUse(f.name)) {
				errs = append(errs, l.toTrash(f.home))
			}
		}
		return errors.Join(errs...)
	})
}

// EmptyTrash deletes for good what was deleted.
func (l *Library) EmptyTrash() error {
	if l.Own() == "" {
		return nil
	}
	return removeTree(filepath.Join(l.Own(), trashDir))
}

// Creation says how a variant differs from the model it is made of.
type Creation struct {
	Name       string
	From       string
	System     string
	Template   string
	License    string
	Parameters []Parameter
	Messages   []llm.Message
}

// Create makes a variant, which shares the other model's files. An earlier model of that name is replaced if it is a variant
// too, and refused if it has files of its own.
func (l *Library) Create(c Creation) error {
	if !ValidName(c.Name) {
		return invalidName()
	}
	if err := c.check(); err != nil {
		return err
	}
	return l.change(func(folders []folder) error {
		from, err := l.find(c.From, folders)
		if err != nil {
			return err
		}
		return l.put(c, *from, folders)
	})
}

func (l *Library) put(c Creation, from folder, folders []folder) error {
	v := from.manifest.variant // of a variant: what it says already
	if v.Base == "" {
		v = variant{Base: filepath.Base(from.home)}
	}
	v.Created = time.Now().UTC().Truncate(time.Second)
	override(&v.System, c.System)
	override(&v.Template, c.Template)
	override(&v.Text, c.License)
	if len(c.Messages) > 0 {
		v.Messages = c.Messages
	}
	v.Parameters = slices.Clone(v.Parameters)
	for _, p := range c.Parameters {
		v.Parameters = slices.DeleteFunc(v.Parameters, func(old Parameter) bool { return old.Name == p.Name })
		v.Parameters = append(v.Parameters, p)
	}
	home := l.newHome(c.Name)
	if old := called(c.Name, folders); old != nil {
		switch {
		case old.home == from.home && old.manifest.Base == "":
			return llm.Errorf(llm.CodeInvalid, "%q cannot be made from itself: choose another name", c.Name)
		case old.manifest.Base == "":
			return llm.Errorf(llm.CodeInvalid, "%q is a model with files of its own: choose another name, or delete it first", c.Name)
		}
		home = old.home
	}
	_, err := os.Lstat(home)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	err = writeManifest(home, manifest{Name: c.Name, Source: "", variant: v})
	if err != nil && fresh { // an empty folder is no model
		err = errors.Join(err, os.Remove(home))
	}
	return err
}

// newHome is a folder for a model of that name. The usual one may still hold a deleted model whose files variants share.
func (l *Library) newHome(name string) string {
	usual := filepath.Join(l.Own(), FolderOf(name))
	home := usual
	for i := 2; ; i++ {
		if _, err := os.Lstat(home); errors.Is(err, fs.ErrNotExist) {
			return home
		}
		home = fmt.Sprintf("%s-%d", usual, i)
	}
}

func override(to *string, from string) {
	if from != "" {
		*to = from
	}
}

// parameterTypes are the parameters that a variant may have: how each is written. Those that mean nothing here are kept and
// shown, as Ollama does.
var parameterTypes = map[string]string{
	"temperature": "number", "top_k": "integer", "top_p": "number", "min_p": "number", "typical_p": "number", "repeat_penalty": "number",
	"repeat_last_n": "integer", "presence_penalty": "number", "frequency_penalty": "number", "seed": "integer", "num_predict": "integer",
	"num_ctx": "integer", "stop": "texts", "num_keep": "integer", "num_batch": "integer", "num_gpu": "integer", "main_gpu": "integer",
	"num_thread": "integer", "mirostat": "integer", "mirostat_tau": "number", "mirostat_eta": "number", "tfs_z": "number",
	"penalize_newline": "flag", "use_mmap": "flag", "use_mlock": "flag", "numa": "flag", "low_vram": "flag", "draft_num_predict": "integer",
}

const longestText = 256 << 10

// check refuses what no model could have.
func (c Creation) check() error {
	for _, text := range []string{c.System, c.Template, c.License} {
		if len(text) > longestText {
			return llm.Errorf(llm.CodeInvalid, "a text has %d bytes, at most %d are possible", len(text), longestText)
		}
	}
	for _, p := range c.Parameters {
		if err := p.check(); err != nil {
			return err
		}
	}
	for _, m := range c.Messages {
		if m.Role != "system" && m.Role != "user" && m.Role != "assistant" {
			return llm.Errorf(llm.CodeInvalid, "message role must be system, user or assistant, not %.40q", m.Role)
		}
	}
	return nil
}

func (p Parameter) check() error {
	kind, known := parameterTypes[p.Name]
	ok := false
	var number json.Number
	switch kind {
	case "number":
		var f float64
		ok = json.Unmarshal(p.Value, &f) == nil
	case "integer":
		ok = json.Unmarshal(p.Value, &number) == nil && !strings.ContainsAny(string(p.Value), ".eE\"")
	case "flag":
		var b bool
		ok = json.Unmarshal(p.Value, &b) == nil
	case "texts":
		var one string
		var many []string
		ok = json.Unmarshal(p.Value, &one) == nil || json.Unmarshal(p.Value, &many) == nil
	}
	switch {
	case !known:
		return llm.Errorf(llm.CodeInvalid, "unknown parameter '%.60s'", p.Name)
	case !ok:
		return llm.Errorf(llm.CodeInvalid, "parameter %q has the value %.60s, which is no %s", p.Name, p.Value, kind)
	}
	return nil
}

// Copy gives a model another name, which shares its files.
func (l *Library) Copy(source, destination string) error {
	if !ValidName(source) {
		return llm.Errorf(llm.CodeInvalid, "source %q is invalid", brief.Text(source))
	}
	if !ValidName(destination) {
		return llm.Errorf(llm.CodeInvalid, "destination %q is invalid", brief.Text(destination))
	}
	return l.change(func(folders []folder) error {
		from := l.match(source, folders)
		if from == nil {
			return llm.Errorf(llm.CodeModelNotFound, "model %q not found", source)
		}
		if folded(from.name) == folded(destination) {
			return nil
		}
		return l.put(Creation{Name: destination}, *from, folders)
	})
}

// writeManifest replaces a folder's manifest so that a power cut leaves the old or the new one.
func writeManifest(dir string, m manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("describe the model %s: %w", m.Name, err)
	}
	return disk.Write(filepath.Join(dir, manifestFile), append(text, '\n'))
}
