package models

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"signalbox/backend/llm"
)

// Import adds a folder with an OpenVINO model: by reference, which leaves the files where they are, or as a copy. name may
// be empty: the folder's own then. The folder comes from the user's own hand, never from a network. progress gets bytes.
func (l *Library) Import(ctx context.Context, dir, name string, reference bool, progress func(done, total int64)) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if IsGGUF(dir) {
		return "", Builtin().RefuseGGUF(dir)
	}
	f, _ := look(dir)
	f.dir = dir // never where its manifest leads
	if f, err = reread(f); err != nil {
		return "", llm.Errorf(llm.CodeInvalid, "import %s: %w", dir, err)
	}
	if lacks := f.incomplete(); lacks != "" {
		return "", llm.Errorf(llm.CodeUnsupported, "%s has no model that Signalbox can run: %s", dir, lacks)
	}
	if _, err := readGraph(filepath.Join(dir, "openvino_model.xml")); err != nil {
		return "", llm.Errorf(llm.CodeUnsupported, "%s: openvino_model.xml cannot be read: %w", dir, err)
	}
	if name == "" {
		name = f.name
	}
	if !ValidName(name) {
		return "", invalidName()
	}
	if reference && !localFolder(dir) {
		return "", llm.Errorf(llm.CodeInvalid, "%s is on another computer: import it as a copy", dir)
	}
	m := f.manifest
	m.Name, m.variant, m.Hidden, m.Removing, m.Reference = name, variant{}, false, false, ""
	if reference {
		m.Reference = dir
	}
	return name, l.change(func(folders []folder) error {
		if match(name, folders) != nil {
			return llm.Errorf(llm.CodeInvalid, "there is a model %q already: choose another name", name)
		}
		return l.bring(ctx, f, m, progress)
	})
}

// reread lists the files that are really in f.dir.
func reread(f folder) (folder, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return f, err
	}
	f.files = nil
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join(f.dir, entry.Name()))
		if err == nil && info.Mode().IsRegular() {
			f.files = append(f.files, file{entry.Name(), info.Size(), info.ModTime()})
		}
	}
	return f, nil
}

// bring makes the folder in the library: whole, or not at all.
func (l *Library) bring(ctx context.Context, f folder, m manifest, progress func(done, total int64)) error {
	final := l.newHome(m.Name)
	temp := filepath.Join(l.Own(), PartialDir, "import-"+FolderOf(m.Name))
	if err := errors.Join(removeTree(temp), os.MkdirAll(temp, 0o700)); err != nil {
		return err
	}
	defer removeTree(temp) //nolint:errcheck // gone already when all went well; listed with the partial ones otherwise
	if m.Reference == "" {
		if err := copyFolder(ctx, f, temp, progress); err != nil {
			return err
		}
	}
	if err := writeManifest(temp, m); err != nil {
		return err
	}
	if err := os.Rename(temp, final); err != nil {
		return err
	}
	return syncDir(l.Own())
}

// poolingDir says how embeddings are pooled.
const poolingDir = "1_Pooling"

func copyFolder(ctx context.Context, f folder, to string, progress func(done, total int64)) error {
	var total, done int64
	names := []string{}
	for _, file := range f.files {
		if file.name != manifestFile {
			names, total = append(names, file.name), total+file.size
		}
	}
	if _, err := os.Stat(filepath.Join(f.dir, poolingDir, "config.json")); err == nil {
		names = append(names, filepath.Join(poolingDir, "config.json"))
	}
	if free, _, err := Space(to); err == nil && free < total+Reserve {
		return NoSpace(total, free)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700); err != nil {
			return err
		}
		err := copyFile(ctx, filepath.Join(f.dir, name), filepath.Join(to, name), func(n int) {
			done += int64(n)
			progress(min(done, total), total)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies and syncs, and looks at ctx between pieces.
func copyFile(ctx context.Context, from, to string, wrote func(n int)) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var n int
		if n, err = in.Read(buf); n > 0 {
			if _, werr := out.Write(buf[:n]); werr != nil {
				err = werr
				break
			}
			wrote(n)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// Install takes a folder with the checked files of a model from the library's own PartialDir into the library, in place of
// an earlier one of that name. Its files are on disk when its manifest is.
func (l *Library) Install(staging string, i Installed) error {
	m := manifest{Name: i.Name, Source: i.Source, Revision: i.Revision, License: i.License, Files: i.Files}
	if err := errors.Join(writeManifest(staging, m), syncDir(staging)); err != nil {
		return err
	}
	return l.change(func(folders []folder) error {
		final := l.newHome(i.Name)
		if old := match(i.Name, folders); old != nil && !old.readOnly && folded(old.name) == folded(i.Name) {
			final = old.home
			if err := l.toTrash(final); err != nil {
				return llm.Errorf(llm.CodeUnavailable, "replace %s: %w", i.Name, err).WithHint("it may be in use: stop it and pull again")
			}
		}
		if err := os.Rename(staging, final); err != nil {
			return err
		}
		return syncDir(l.Own())
	})
}

// Installed says what Install takes in.
type Installed struct {
	Name, Source, Revision, License string
	Files                           []FileRecord
}

// Installation is what is known of a model that was fetched: where it is and what it was made of.
func (l *Library) Installation(name string) (dir string, i Installed, ok bool) {
	folders, err := l.scan()
	if err != nil {
		return "", i, false
	}
	f := match(name, folders)
	if f == nil || f.manifest.Base != "" || f.dir != f.home {
		return "", i, false
	}
	return f.dir, Installed{f.name, f.manifest.Source, f.manifest.Revision, f.manifest.License, slices.Clone(f.manifest.Files)}, true
}

// Verify hashes a model's files and names those that are not as they came. Without a record of how they came it is their
// reading alone that is tried.
func (l *Library) Verify(ctx context.Context, name string) (wrong []string, err error) {
	folders, err := l.scan()
	if err != nil {
		return nil, err
	}
	f, err := find(name, folders)
	if err != nil {
		return nil, err
	}
	if base := baseOf(*f, folders); f.manifest.Base != "" && base != nil {
		f = base
	}
	for _, record := range f.manifest.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		path := filepath.Join(f.dir, filepath.FromSlash(record.Name))
		if !filepath.IsLocal(filepath.FromSlash(record.Name)) {
			continue
		}
		if sum, err := HashFile(path); err != nil || sum != record.SHA256 {
			wrong = append(wrong, record.Name)
		}
	}
	return wrong, nil
}
