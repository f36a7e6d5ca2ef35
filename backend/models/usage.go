package models

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"signalbox/backend/llm"
	"signalbox/internal/disk"
)

// Reserve is what stays free on the disk, whatever is fetched: a full disk breaks more than a download.
const Reserve = 1 << 30

// ErrNoSpace is in the errors of NoSpace.
var ErrNoSpace = errors.New("not enough space")

// NoSpace is the answer to what does not fit.
func NoSpace(need, free int64) error {
	e := llm.Errorf(llm.CodeUnavailable, "there is not enough space: %s are needed beside the %s that always stay free, and %s are free",
		humanize.Bytes(uint64(max(0, need))), humanize.Bytes(Reserve), humanize.Bytes(uint64(max(0, free)))).
		WithHint("`signalbox df` shows what can go")
	e.Cause = ErrNoSpace
	return e
}

// HashFile is the SHA-256 of a file, as 64 hex digits.
func HashFile(path string) (string, error) {
	sum, err := hashFile(path)
	return hex.EncodeToString(sum), err
}

// Usage is what takes space.
type Usage struct {
	Dir    string      `json:"dir"`
	Free   int64       `json:"free"`
	Total  int64       `json:"total"`
	Models []UsageItem `json:"models"`
	// Beside the models.
	Partial int64 `json:"partial"` // incomplete downloads
	Trash   int64 `json:"trash"`   // deleted, can be brought back until Signalbox ends
	Blobs   int64 `json:"blobs"`   // sent by clients, collected after a day
}

// UsageItem is one folder of a model.
type UsageItem struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	State string `json:"state"` // "ok", "damaged", "variant", "shared" (deleted, kept for variants), "removing", "came with Signalbox", "elsewhere", "away" (elsewhere, and not there), "deleted"
}

// Usage measures the library.
func (l *Library) Usage() (Usage, error) {
	u := Usage{Dir: l.Own(), Models: []UsageItem{}}
	var err error
	if u.Free, u.Total, err = l.space(existing(l.Own())); err != nil {
		return u, err
	}
	folders, err := l.scan()
	if err != nil {
		return u, err
	}
	for _, f := range folders {
		item := UsageItem{Name: f.name, State: "ok"}
		for _, file := range f.files {
			item.Bytes += file.size
		}
		switch {
		case f.manifest.Removing:
			item.State = "removing"
		case f.manifest.Hidden:
			item.State = "shared"
		case !f.listed:
			continue
		case f.manifest.Base != "":
			item.State, item.Bytes = "variant", 0
		case f.readOnly:
			item.State = "came with Signalbox"
		case f.away:
			item.State = "away"
		case f.dir != f.home:
			item.State, item.Bytes = "elsewhere", 0
		case f.incomplete() != "":
			item.State = "damaged"
		}
		u.Models = append(u.Models, item)
	}
	for _, entry := range l.trash() {
		u.Models = append(u.Models, UsageItem{entry.name, sizeOf(entry.home), "deleted"})
	}
	slices.SortStableFunc(u.Models, func(a, b UsageItem) int { return int(max(-1, min(1, b.Bytes-a.Bytes))) })
	u.Partial, u.Trash, u.Blobs = sizeOf(filepath.Join(l.Own(), PartialDir)), sizeOf(filepath.Join(l.Own(), trashDir)), sizeOf(l.BlobDir())
	return u, nil
}

func (l *Library) trash() (list []folder) {
	entries, err := os.ReadDir(filepath.Join(l.Own(), trashDir))
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if f, ok := look(filepath.Join(l.Own(), trashDir, entry.Name())); ok {
			list = append(list, f)
		}
	}
	return list
}

// BlobDir is where files go that clients send.
func (l *Library) BlobDir() string { return filepath.Join(l.Own(), blobsDir) }

// blobLife is how long a blob is kept that nothing was made of.
const blobLife = 24 * time.Hour

// CollectBlobs removes what clients sent and did not come back for.
func (l *Library) CollectBlobs() {
	entries, err := os.ReadDir(l.BlobDir())
	if err != nil {
		return
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > blobLife {
			_ = os.Remove(filepath.Join(l.BlobDir(), entry.Name())) // the next one tries again
		}
	}
}

// sizeOf is what is on disk below a folder. Links are not followed.
func sizeOf(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read counts nothing
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += onDisk(info)
		}
		return nil
	})
	return sum
}

// existing is the folder, or the nearest above it that there is.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// Move takes the user's own models, and what is being fetched, to another folder: it copies them, calls moved, in which the
// caller opens the library there, and then removes them here. When it fails or ctx ends before that, everything is as it was.
func (l *Library) Move(ctx context.Context, to string, progress func(done, total int64), moved func(to string) error) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(l.Own(), to); err == nil && filepath.IsLocal(rel) {
		return llm.Errorf(llm.CodeInvalid, "%s is within the folder that is to be moved", to)
	}
	return l.change(func(folders []folder) error {
		own := []string{filepath.Join(l.Own(), PartialDir)}
		for _, f := range folders {
			if !f.readOnly {
				own = append(own, f.home)
			}
		}
		made, err := l.copyAll(ctx, own, to, progress)
		for i := 0; err == nil && i < len(made); i++ { // what is removed here must be there after a power cut
			err = syncTree(made[i])
		}
		if err == nil {
			err = disk.SyncDir(to)
		}
		if err == nil {
			err = moved(to)
		}
		if err != nil {
			return errors.Join(err, removeAll(made))
		}
		return removeAll(own)
	})
}

// copyAll copies folders into another one, and tells which it made there.
func (l *Library) copyAll(ctx context.Context, folders []string, to string, progress func(done, total int64)) (made []string, err error) {
	var total, done int64
	for _, f := range folders {
		total += sizeOf(f)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	if free, _, err := l.space(to); err == nil && free < total+Reserve {
		return nil, NoSpace(total, free)
	}
	for _, f := range folders {
		if _, err := os.Lstat(f); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		target := filepath.Join(to, filepath.Base(f))
		if _, err := os.Lstat(target); err == nil {
			return made, llm.Errorf(llm.CodeInvalid, "%s is there already: choose an empty folder", target)
		}
		made = append(made, target)
		if err := copyTree(ctx, f, target, func(p []byte) { done += int64(len(p)); progress(min(done, total), total) }); err != nil {
			return made, err
		}
	}
	return made, nil
}

// syncTree makes the names in a folder last, and in those below it. Their contents were synced when they were written.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return disk.SyncDir(path)
	})
}

func removeAll(paths []string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, removeTree(path))
	}
	return errors.Join(errs...)
}

// copyTree copies a folder with its times. A link is made anew, and what it leads to stays where it is.
func copyTree(ctx context.Context, from, to string, wrote func(p []byte)) error {
	if target, err := os.Readlink(from); err == nil {
		return os.Symlink(target, to)
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if err := copyFile(ctx, path, target, wrote); err != nil {
			return err
		}
		if info, err := d.Info(); err == nil {
			_ = os.Chtimes(target, info.ModTime(), info.ModTime()) // so that nothing need be hashed again
		}
		return nil
	})
}
