package models

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"signalbox/backend/llm"
	"signalbox/internal/disk"
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
		if called(name, folders) != nil {
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
		var err error
		if m.Files, err = l.copyFolder(ctx, f, temp, progress); err != nil {
			return err
		}
	}
	if err := errors.Join(writeManifest(temp, m), syncTree(temp)); err != nil {
		return err
	}
	return disk.Rename(temp, final)
}

// poolingDir says how embeddings are pooled.
const poolingDir = "1_Pooling"

// copyFolder copies what belongs to a model, and gives the files as they came: Verify compares with these.
func (l *Library) copyFolder(ctx context.Context, f folder, to string, progress func(done, total int64)) (records []FileRecord, err error) {
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
	if free, _, err := l.space(to); err == nil && free < total+Reserve {
		return nil, NoSpace(total, free)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700); err != nil {
			return nil, err
		}
		h, size := sha256.New(), int64(0)
		err := copyFile(ctx, filepath.Join(f.dir, name), filepath.Join(to, name), func(p []byte) {
			h.Write(p)
			size += int64(len(p))
			done += int64(len(p))
			progress(min(done, total), total)
		})
		if err != nil {
			return nil, err
		}
		records = append(records, FileRecord{filepath.ToSlash(name), size, hex.EncodeToString(h.Sum(nil))})
	}
	return records, nil
}

var hole [1 << 20]byte

// copyFile copies and syncs, and looks at ctx between pieces. Where there is nothing but zeros it leaves a hole: a file that is
// being fetched in ranges has some, and takes no more room in the copy.
func copyFile(ctx context.Context, from, to string, wrote func(p []byte)) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	buf, size := make([]byte, len(hole)), int64(0)
	for err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var n int
		if n, err = in.Read(buf); n > 0 {
			if !bytes.Equal(buf[:n], hole[:n]) {
				if _, werr := out.WriteAt(buf[:n], size); werr != nil {
					err = werr
					break
				}
			}
			size += int64(n)
			wrote(buf[:n])
		}
	}
	if errors.Is(err, io.EOF) {
		err = out.Truncate(size) // it may end with a hole
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// Install takes a folder with the checked files of a model from the library's own PartialDir into the library, in place of
// an earlier one of that name. Its files are on disk when its manifest is.
func (l *Library) Install(staging string, i Installed) error {
	m := manifest{Name: i.Name, Source: i.Source, Revision: i.Revision, License: i.License, Files: i.Files}
	if err := errors.Join(writeManifest(staging, m), syncTree(staging)); err != nil {
		return err
	}
	return l.change(func(folders []folder) error {
		final := l.newHome(i.Name)
		if old := called(i.Name, folders); old != nil && !old.readOnly {
			final = old.home
			if err := l.toTrash(final); err != nil {
				return llm.Errorf(llm.CodeUnavailable, "replace %s: %w", i.Name, err).WithHint("it may be in use: stop it and pull again")
			}
		}
		return disk.Rename(staging, final)
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
	f := l.match(name, folders)
	if f == nil || f.manifest.Base != "" || f.dir != f.home {
		return "", i, false
	}
	return f.dir, Installed{f.name, f.manifest.Source, f.manifest.Revision, f.manifest.License, slices.Clone(f.manifest.Files)}, true
}

// Verified is what Verify found.
type Verified struct {
	Files    int      `json:"files"`    // that were read
	Recorded bool     `json:"recorded"` // they were compared with how they came; else they were only read, as an engine does
	Wrong    []string `json:"wrong"`    // names of files that are missing or are not as they came
	Problem  string   `json:"problem"`  // a sentence: why the model cannot be used; empty: it can
	Source   string   `json:"source"`   // what Repair would fetch it from; empty: it came from no hub
}

// OK tells whether all is well.
func (v Verified) OK() bool { return len(v.Wrong) == 0 && v.Problem == "" }

// Verify reads all of a model's files and compares them with how they came, as far as that is known.
func (l *Library) Verify(ctx context.Context, name string, progress func(done, total int64)) (v Verified, err error) {
	v.Wrong = []string{}
	folders, err := l.scan()
	if err != nil {
		return v, err
	}
	f, err := l.find(name, folders)
	if err != nil {
		return v, err
	}
	if base := baseOf(*f, folders); f.manifest.Base != "" && base != nil {
		f = base
	}
	if f.dir == f.home {
		v.Source = f.manifest.Source
	}
	g, damage := f.graph()
	if v.Problem = cmp.Or(damage, f.cutShort(g)); f.away {
		return v, nil
	}
	records := f.records()
	var done, total int64
	for _, record := range records {
		total += record.Size
	}
	for _, record := range records {
		sum, err := hashAll(ctx, filepath.Join(f.dir, filepath.FromSlash(record.Name)), func(n int) {
			done += int64(n)
			progress(min(done, total), total)
		})
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		if v.Files++; err != nil || record.SHA256 != "" && sum != record.SHA256 {
			v.Wrong = append(v.Wrong, record.Name)
		}
	}
	v.Recorded = len(f.manifest.Files) > 0
	return v, nil
}

// records are the files of a model as they came; where that was not written down, those that are there.
func (f folder) records() []FileRecord {
	list := slices.DeleteFunc(slices.Clone(f.manifest.Files), func(r FileRecord) bool { return !filepath.IsLocal(filepath.FromSlash(r.Name)) })
	if len(list) > 0 {
		return list
	}
	for _, file := range f.files {
		if file.name != manifestFile {
			list = append(list, FileRecord{Name: file.name, Size: file.size})
		}
	}
	return list
}

// hashAll is the SHA-256 of a file, which takes a while: it looks at ctx and tells of bytes.
func hashAll(ctx context.Context, path string, read func(n int)) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := in.Read(buf)
		h.Write(buf[:n])
		read(n)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}
