package downloads

import (
	"context"
	"path/filepath"
	"time"

	"signalbox/backend/llm"
	"signalbox/backend/models"
)

// Event is one step of a pull, as clients are told. Digest and Total are set for files.
type Event struct {
	Status    string
	Digest    string
	Total     int64
	Completed int64
}

// often is how often those who wait are told.
const often = 60 * time.Millisecond

// Pull takes part in the download of a model, and starts it if need be, until the model is in the library. tell gets what
// happens, in order, on the caller's goroutine; when it fails, or ctx is done, the caller has left. A download that nobody
// waits for any more stops, unless the window started it.
func (m *Manager) Pull(ctx context.Context, name string, tell func(Event) error) error {
	ref, err := m.o.Table().ParseReference(name)
	if model, there := m.local(name, err); there {
		return m.tellLocal(model, tell)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	d, err := m.getLocked(ref)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	d.waiting++
	m.runLocked(d)
	m.mu.Unlock()
	defer m.leave(d)
	return d.follow(ctx, tell)
}

// local is a model that is here and comes from no hub: it came with Signalbox, or was imported or created. Pulling it is
// asking for what is there.
func (m *Manager) local(name string, unknown error) (models.Model, bool) {
	if unknown == nil || !models.ValidName(name) {
		return models.Model{}, false
	}
	model, err := m.o.Library.Find(name)
	return model, err == nil && model.Damaged == ""
}

func (m *Manager) tellLocal(model models.Model, tell func(Event) error) error {
	if err := tell(Event{Status: "pulling manifest"}); err != nil {
		return err
	}
	for _, name := range []string{graphFile, "openvino_model.bin"} {
		size, sum, err := hashed(filepath.Join(model.Dir, name))
		if err != nil {
			return err
		}
		for _, done := range []int64{0, size} {
			if err := tell(Event{"pulling " + name, "sha256:" + sum, size, done}); err != nil {
				return err
			}
		}
	}
	return ending(tell)
}

func ending(tell func(Event) error) error {
	for _, status := range []string{"verifying sha256 digest", "writing manifest", "success"} {
		if err := tell(Event{Status: status}); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) leave(d *download) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.waiting--; d.waiting == 0 && !d.record.Detached && d.cancel != nil {
		d.cancel(errLeft)
	}
}

// follow tells how the download goes until its end.
func (d *download) follow(ctx context.Context, tell func(Event) error) error {
	if err := tell(Event{Status: "pulling manifest"}); err != nil {
		return err
	}
	told := map[string]int64{}
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		files, ended, err := d.now()
		if terr := tellFiles(files, told, tell); terr != nil {
			return terr
		}
		if ended && err != nil {
			return err
		}
		if ended {
			return ending(tell)
		}
		select {
		case <-ctx.Done():
			return llm.Errorf(llm.CodeOf(context.Cause(ctx)), "%w", context.Cause(ctx))
		case <-tick.C:
		case <-d.end():
		}
	}
}

func (d *download) end() <-chan struct{} {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return d.ended
}

func (d *download) now() (files []File, ended bool, err error) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	for _, f := range d.files {
		files = append(files, f.File)
	}
	return files, d.cancel == nil, d.err
}

// tellFiles tells what has changed. A file is first told with nothing of it there, and only once its digest is known.
func tellFiles(files []File, told map[string]int64, tell func(Event) error) error {
	for _, f := range files {
		last, known := told[f.Name]
		if f.Digest == "" {
			continue
		}
		if !known {
			if err := tell(Event{"pulling " + f.Name, f.Digest, f.Total, 0}); err != nil {
				return err
			}
			told[f.Name] = 0
		}
		if f.Completed > last {
			if err := tell(Event{"pulling " + f.Name, f.Digest, f.Total, f.Completed}); err != nil {
				return err
			}
			told[f.Name] = f.Completed
		}
	}
	return nil
}
