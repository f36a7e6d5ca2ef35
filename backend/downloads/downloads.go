// Package downloads brings models into the library: New makes a Manager, Pull takes part in the download of a model until it
// is there, and List, Start, Pause, Resume and Cancel are for the window and the command line.
//
// Callers that want the same model share one download; it stops when the last of them leaves, unless the window started
// it. What has come stays in the library's folder for partial files, where nothing counts as a model, and a later download
// goes on from there, also after the process was killed. A model appears in the library whole, with every byte checked.
package downloads

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"signalbox/backend/hub"
	"signalbox/backend/llm"
	"signalbox/backend/machine"
	"signalbox/backend/models"
	"signalbox/internal/disk"
)

// Options are what a Manager is made of.
type Options struct {
	Library *models.Library
	Hub     func() (*hub.Client, error) // as the settings want it now
	Table   func() models.Table         // nil: the one that came with the program
	Memory  func() int64                // bytes that this computer has; 0: unknown; nil: machine.TotalMemory
	Space   func(dir string) (free, total int64, err error)
	Runtime func() string // "2026.4.1"; nil or "": unknown
	Changed func()        // the list has changed; nil: nobody asks
	Log     *slog.Logger
}

// States of a download.
const (
	Checking    = "checking"
	Downloading = "downloading"
	Verifying   = "verifying"
	Paused      = "paused"
	Failed      = "failed"
	Done        = "done"
)

// Download is one line of the list.
type Download struct {
	ID        string    `json:"id"`
	Model     string    `json:"model"`
	Source    string    `json:"source"` // "OpenVINO/Qwen3-8B-int4-cw-ov", with "@revision"
	Commit    string    `json:"commit,omitempty"`
	State     string    `json:"state"`
	Total     int64     `json:"total"`
	Completed int64     `json:"completed"`
	Rate      int64     `json:"bytes_per_second"`
	Error     string    `json:"error,omitempty"`
	Warnings  []string  `json:"warnings,omitempty"`
	Files     []File    `json:"files"`
	StartedAt time.Time `json:"started_at"`
	Waiting   int       `json:"waiting"` // clients that wait for it
}

// File is one file of a download. Digest is empty until it is known: the hub declares it for large files alone.
type File struct {
	Name      string `json:"name"`
	Digest    string `json:"digest,omitempty"` // "sha256:..."
	Total     int64  `json:"total"`
	Completed int64  `json:"completed"`
}

// Manager has the downloads. Its methods may be called from several goroutines at once.
type Manager struct {
	o    Options
	work sync.WaitGroup

	mu     sync.Mutex
	list   map[string]*download // by id; guarded by mu
	closed bool                 // guarded by mu
}

// New makes a Manager with the downloads that an earlier process left. Nothing runs before Start, Resume or Pull.
func New(o Options) *Manager {
	if o.Table == nil {
		o.Table = models.Builtin
	}
	if o.Memory == nil {
		o.Memory = machine.TotalMemory
	}
	if o.Space == nil {
		o.Space = models.Space
	}
	if o.Runtime == nil {
		o.Runtime = func() string { return "" }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Manager{o: o, list: map[string]*download{}}
	for _, kept := range m.kept() {
		m.list[kept.ID] = m.revive(kept)
	}
	return m
}

// record is what is kept of a download on disk.
type record struct {
	ID        string           `json:"id"`
	Reference models.Reference `json:"reference"`
	Snapshot  hub.Snapshot     `json:"snapshot"`
	State     string           `json:"state"`
	Error     string           `json:"error,omitempty"`
	Detached  bool             `json:"detached"` // the window wants it: it goes on by itself
	Started   time.Time        `json:"started"`
}

const recordFile = "download.json"

func (m *Manager) dir(id string) string {
	return filepath.Join(m.o.Library.Own(), models.PartialDir, id)
}

// kept reads the records. A folder's name is its id, whatever the record says.
func (m *Manager) kept() (list []record) {
	entries, err := os.ReadDir(filepath.Join(m.o.Library.Own(), models.PartialDir))
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		var r record
		text, err := os.ReadFile(filepath.Join(m.dir(entry.Name()), recordFile))
		if err != nil || json.Unmarshal(text, &r) != nil || models.FolderOf(r.Reference.String()) != entry.Name() {
			continue
		}
		r.ID = entry.Name()
		list = append(list, r)
	}
	return list
}

// Start goes on with the downloads that the window had started and that an earlier process did not finish.
func (m *Manager) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.list {
		if d.record.Detached && (d.record.State == Checking || d.record.State == Downloading || d.record.State == Verifying) {
			m.runLocked(d)
		}
	}
}

// Close stops what runs and waits for it. What the window started goes on after the next Start.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	for _, d := range m.list {
		if d.cancel != nil {
			d.cancel(errClosing)
		}
	}
	m.mu.Unlock()
	m.work.Wait()
}

// Why a download stops before its end.
var (
	errClosing = llm.Errorf(llm.CodeStopped, "Signalbox is quitting: the download goes on after its next start")
	errPaused  = llm.Errorf(llm.CodeCancelled, "the download was paused")
	errDropped = llm.Errorf(llm.CodeCancelled, "the download was cancelled")
	errLeft    = llm.Errorf(llm.CodeCancelled, "nobody waits for the download any more")
)

// List is all downloads, newest first.
func (m *Manager) List() []Download {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []Download{}
	for _, d := range m.list {
		list = append(list, d.view())
	}
	slices.SortFunc(list, func(a, b Download) int { return b.StartedAt.Compare(a.StartedAt) })
	return list
}

// Busy tells whether a download runs.
func (m *Manager) Busy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.list {
		if d.cancel != nil {
			return true
		}
	}
	return false
}

// Begin starts a download that nobody need wait for.
func (m *Manager) Begin(name string) (Download, error) {
	ref, err := m.o.Table().ParseReference(name)
	if err != nil {
		return Download{}, err
	}
	return m.begin(ref)
}

func (m *Manager) begin(ref models.Reference) (Download, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.getLocked(ref)
	if err != nil {
		return Download{}, err
	}
	d.record.Detached = true
	m.runLocked(d)
	return d.view(), nil
}

// Repair fetches again what is missing or damaged of a model that came from a hub, at the commit that it was fetched at, and
// leaves the files that are right where they are.
func (m *Manager) Repair(name string) (Download, error) {
	model, err := m.o.Library.Find(name)
	if err != nil {
		return Download{}, err
	}
	_, i, ok := m.o.Library.Installation(model.Name)
	switch {
	case !ok || i.Source == "":
		return Download{}, llm.Errorf(llm.CodeUnsupported, "%s was not fetched from a hub, so there is nothing to repair it from", model.Name).
			WithHint("delete it and import its folder again")
	case model.ReadOnly:
		return Download{}, llm.Errorf(llm.CodeForbidden, "%s came with Signalbox and is not changed", model.Name).WithHint("install Signalbox again")
	}
	return m.begin(models.Reference{Name: i.Name, Repo: i.Source, Revision: i.Revision})
}

// Pause stops a download and keeps what has come.
func (m *Manager) Pause(id string) error {
	return m.stop(id, errPaused, func(d *download) error {
		d.record.State, d.record.Detached = Paused, false
		return m.save(d)
	})
}

// Resume goes on with a download that was paused or has failed.
func (m *Manager) Resume(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.list[id]
	if d == nil {
		return errUnknown()
	}
	d.record.Detached = true
	m.runLocked(d)
	return nil
}

// Cancel stops a download and deletes what has come.
func (m *Manager) Cancel(id string) error {
	return m.stop(id, errDropped, func(d *download) error {
		delete(m.list, id)
		return os.RemoveAll(m.dir(id))
	})
}

func errUnknown() error { return llm.Errorf(llm.CodeModelNotFound, "there is no such download") }

// stop ends a download's work and then does the rest, which holds mu.
func (m *Manager) stop(id string, why error, then func(*download) error) error {
	m.mu.Lock()
	d := m.list[id]
	if d == nil {
		m.mu.Unlock()
		return errUnknown()
	}
	ended := d.ended
	if d.cancel != nil {
		d.cancel(why)
	}
	m.mu.Unlock()
	if ended != nil {
		<-ended
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.list[id] != d || d.cancel != nil {
		return nil // somebody else was quicker
	}
	defer m.o.Changed()
	return then(d)
}

// getLocked is the download of a reference, a new one if need be.
func (m *Manager) getLocked(ref models.Reference) (*download, error) {
	if m.closed {
		return nil, errClosing
	}
	id := models.FolderOf(ref.String())
	d := m.list[id]
	if d == nil || d.record.State == Done {
		d = m.revive(record{ID: id, Reference: ref, State: Paused, Started: time.Now()})
		m.list[id] = d
	}
	return d, nil
}

func (m *Manager) revive(r record) *download {
	d := &download{m: m, record: r, changed: make(chan struct{})}
	if running := r.State == Checking || r.State == Downloading || r.State == Verifying; running && !r.Detached {
		d.record.State = Paused
	}
	d.setFiles(r.Snapshot)
	for i, f := range d.files {
		d.files[i].Completed = hub.Kept(f.file, filepath.Join(m.dir(r.ID), filesDir, filepath.FromSlash(f.Name)))
	}
	return d
}

// runLocked starts a download's work, unless it is at it.
func (m *Manager) runLocked(d *download) {
	if d.cancel != nil || m.closed {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	d.cancel, d.ended, d.err, d.warnings = cancel, make(chan struct{}), nil, nil
	d.record.State, d.record.Error = Checking, ""
	d.began, d.had = time.Now(), d.completed()
	d.signal()
	m.work.Go(func() {
		err := d.run(ctx)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		m.finish(d, err)
		cancel(nil)
	})
}

func (m *Manager) finish(d *download, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.err, d.cancel = err, nil
	wanted := d.record.Detached
	switch {
	case err == nil:
		d.record.State, d.record.Detached = Done, false
	case errors.Is(err, errClosing) && d.record.Detached: // as it is: Start goes on
		err = nil
	case errors.Is(err, errClosing), errors.Is(err, errLeft), errors.Is(err, errPaused), errors.Is(err, errDropped):
		d.record.State, d.record.Detached = Paused, false
	default:
		d.record.State, d.record.Error, d.record.Detached = Failed, err.Error(), false
		m.o.Log.Warn("a download failed", "model", d.record.Reference.Name, "source", d.record.Reference.String(), "error", err)
	}
	if err := m.keep(d); err != nil {
		m.o.Log.Warn("keep the state of a download", "error", err)
	}
	if d.record.State == Failed && d.nothing() && !wanted {
		delete(m.list, d.record.ID)
	}
	close(d.ended)
	d.signal()
}

// keep leaves on disk what a later download goes on from.
func (m *Manager) keep(d *download) error {
	switch {
	case d.foreign: // not ours to touch
		return nil
	case d.record.State == Done, d.nothing(): // also when it never began: a name that the hub does not know
		return os.RemoveAll(m.dir(d.record.ID))
	}
	return m.save(d)
}

// save writes the record so that a power cut leaves the old or the new one.
func (m *Manager) save(d *download) error {
	dir := m.dir(d.record.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(d.record, "", " ")
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(dir, recordFile), text)
}
