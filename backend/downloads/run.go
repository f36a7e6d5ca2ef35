package downloads

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"signalbox/backend/hub"
	"signalbox/backend/llm"
	"signalbox/backend/models"
)

const (
	filesDir    = "files"
	filesAtOnce = 3
	graphFile   = "openvino_model.xml"
)

// download is one model on its way. Everything is guarded by m.mu.
type download struct {
	m        *Manager
	record   record
	files    []progress
	warnings []string
	waiting  int
	foreign  bool // its folder may be another process's
	err      error
	cancel   context.CancelCauseFunc // nil while it does not run
	ended    chan struct{}           // closed when its work has ended
	changed  chan struct{}           // closed and made anew at each change
	began    time.Time
	had      int64 // bytes when it began
}

// progress is a file with how far it is.
type progress struct {
	File
	file hub.File
}

// signal wakes those who wait.
func (d *download) signal() {
	close(d.changed)
	d.changed = make(chan struct{})
	d.m.o.Changed()
}

func (d *download) set(change func()) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	change()
	d.signal()
}

func (d *download) completed() (sum int64) {
	for _, f := range d.files {
		sum += f.Completed
	}
	return sum
}

// nothing tells whether no byte has come.
func (d *download) nothing() bool { return d.completed() == 0 }

func (d *download) view() Download {
	v := Download{
		ID: d.record.ID, Model: d.record.Reference.Name, Source: d.record.Reference.String(), Commit: d.record.Snapshot.Commit,
		State: d.record.State, Completed: d.completed(), Error: d.record.Error, Warnings: slices.Clone(d.warnings), Files: []File{},
		StartedAt: d.record.Started, Waiting: d.waiting,
	}
	for _, f := range d.files {
		v.Total += f.Total
		v.Files = append(v.Files, f.File)
	}
	if took := time.Since(d.began); d.cancel != nil && took > time.Second {
		v.Rate = int64(float64(v.Completed-d.had) / took.Seconds())
	}
	return v
}

// setFiles takes over what is to be fetched. What is known of the same file stays.
func (d *download) setFiles(s hub.Snapshot) {
	old := d.files
	d.files = nil
	for _, f := range s.Files {
		p := progress{File{Name: f.Name, Total: f.Size}, f}
		if f.SHA256 != "" {
			p.Digest = "sha256:" + f.SHA256
		}
		if i := slices.IndexFunc(old, func(o progress) bool { return o.file == f }); i >= 0 {
			p.File = old[i].File
		}
		d.files = append(d.files, p)
	}
}

// run does the work, from the hub's answer to the model in the library.
func (d *download) run(ctx context.Context) error {
	m := d.m
	client, err := m.o.Hub()
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := client.Snapshot(ctx, d.record.Reference.Repo, d.record.Reference.Revision)
	if err != nil {
		return m.instead(s, err)
	}
	if records, ok := d.installed(ctx, s); ok {
		d.set(func() { d.setFiles(s); d.finishAll(records) })
		return nil
	}
	staging := filepath.Join(m.dir(d.record.ID), filesDir)
	if err := os.MkdirAll(staging, 0o700); err != nil {
		return err
	}
	d.set(func() { d.foreign = true })
	lock := flock.New(filepath.Join(m.dir(d.record.ID), "lock"))
	if mine, err := lock.TryLock(); err != nil || !mine {
		return llm.Errorf(llm.CodeUnavailable, "another Signalbox is fetching %s into this folder", d.record.Reference.Name)
	}
	defer lock.Unlock() //nolint:errcheck // it ends with the file
	d.set(func() { d.foreign = false })
	d.set(func() { d.record.Snapshot = s; d.setFiles(s) })
	if err := d.preflight(s); err != nil {
		return err
	}
	if err := m.saveLocked(d); err != nil {
		return err
	}
	sums, err := d.fetchAll(ctx, client, s, staging)
	if err != nil {
		return err
	}
	return d.install(ctx, s, staging, sums)
}

func (m *Manager) saveLocked(d *download) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.save(d)
}

// installed tells whether the library has this commit, whole.
func (d *download) installed(ctx context.Context, s hub.Snapshot) ([]models.FileRecord, bool) {
	dir, i, ok := d.m.o.Library.Installation(d.record.Reference.Name)
	if !ok || i.Revision != s.Commit || i.Source != s.Repo {
		return nil, false
	}
	model, err := d.m.o.Library.Find(d.record.Reference.Name)
	if err != nil || model.Damaged != "" {
		return nil, false
	}
	for _, f := range s.Files {
		at := slices.IndexFunc(i.Files, func(r models.FileRecord) bool { return r.Name == f.Name })
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f.Name)))
		if at < 0 || err != nil || info.Size() != f.Size || f.SHA256 != "" && f.SHA256 != i.Files[at].SHA256 {
			return nil, false
		}
	}
	found, err := d.m.o.Library.Verify(ctx, d.record.Reference.Name, func(int64, int64) {})
	return i.Files, err == nil && found.OK()
}

func (d *download) finishAll(records []models.FileRecord) {
	for i := range d.files {
		d.files[i].Completed = d.files[i].Total
		for _, r := range records {
			if r.Name == d.files[i].Name {
				d.files[i].Digest = "sha256:" + r.SHA256
			}
		}
	}
}

// fetchAll brings the files, the graph first: what it says decides whether the rest is worth fetching.
func (d *download) fetchAll(ctx context.Context, client *hub.Client, s hub.Snapshot, staging string) (map[string]string, error) {
	d.set(func() { d.record.State = Downloading })
	sums := map[string]string{}
	graph, _ := s.File(graphFile)
	sum, err := d.fetch(ctx, client, s, graph, staging)
	if err != nil {
		return nil, err
	}
	sums[graph.Name] = sum
	if err := d.judge(filepath.Join(staging, graphFile)); err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(s.Files), func(f hub.File) bool { return f.Name == graphFile })
	slices.SortStableFunc(rest, func(a, b hub.File) int { return cmp.Compare(a.Size, b.Size) }) // what can fail at once fails at once
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var first error
	turns := make(chan struct{}, filesAtOnce)
	var group sync.WaitGroup
	for _, f := range rest {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			if ctx.Err() != nil {
				return
			}
			sum, err := d.fetch(ctx, client, s, f, staging)
			mu.Lock()
			defer mu.Unlock()
			if sums[f.Name] = sum; err != nil && first == nil {
				first = err
				cancel(err)
			}
		})
	}
	group.Wait()
	if first == nil && ctx.Err() != nil {
		first = context.Cause(ctx)
	}
	return sums, first
}

// fetch brings one file, unless it is there from before: as it came then, or in the library.
func (d *download) fetch(ctx context.Context, client *hub.Client, s hub.Snapshot, f hub.File, staging string) (sum string, err error) {
	path := filepath.Join(staging, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	if sum, err = f.Check(path); err != nil {
		if sum = d.borrow(f, path); sum == "" {
			sum, err = client.Download(ctx, s, f, path+hub.PartialSuffix, func(done int64) { d.advance(f, done, "") })
			if err == nil {
				err = os.Rename(path+hub.PartialSuffix, path)
			}
			if err != nil {
				return "", err
			}
		}
	}
	d.advance(f, f.Size, "sha256:"+sum)
	return sum, nil
}

// borrow takes a file from an earlier or a damaged copy of the model, if it is the right one.
func (d *download) borrow(f hub.File, path string) string {
	dir, _, ok := d.m.o.Library.Installation(d.record.Reference.Name)
	if !ok {
		return ""
	}
	from := filepath.Join(dir, filepath.FromSlash(f.Name))
	sum, err := f.Check(from)
	if err != nil {
		return ""
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if os.Link(from, path) != nil {
		return ""
	}
	return sum
}

// advance notes progress, which never goes back.
func (d *download) advance(f hub.File, done int64, digest string) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	for i := range d.files {
		if p := &d.files[i]; p.Name == f.Name {
			p.Completed = max(p.Completed, done)
			p.Digest = cmp.Or(p.Digest, digest)
		}
	}
	// Those who wait look at their own pace: a signal for each piece would wake them ten thousand times a second.
}

func (d *download) install(ctx context.Context, s hub.Snapshot, staging string, sums map[string]string) error {
	d.set(func() { d.record.State = Verifying })
	i := models.Installed{Name: d.record.Reference.Name, Source: s.Repo, Revision: s.Commit, License: s.License}
	for _, f := range s.Files {
		i.Files = append(i.Files, models.FileRecord{Name: f.Name, Size: f.Size, SHA256: sums[f.Name]})
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := clean(staging, s); err != nil {
		return err
	}
	return d.m.o.Library.Install(staging, i)
}

// clean removes what does not belong to this commit: files of an earlier one.
func clean(staging string, s hub.Snapshot) error {
	return filepath.WalkDir(staging, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(staging, path)
		if err != nil {
			return err
		}
		if _, ok := s.File(filepath.ToSlash(rel)); !ok {
			return os.Remove(path)
		}
		return nil
	})
}
