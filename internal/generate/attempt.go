package generate

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/disk"
)

// attempt is one load of a model with its attention paged. Should it end the process, which nothing in C catches, then the note that it
// leaves in the folder of compiled models counts that, and the model is loaded without once it has happened too often. A load that
// comes to any end, also an error, leaves no note.
type attempt struct {
	path  string // of the note; empty: there is no folder for it
	model string
	fails int // attempts before this one that did not end

	mu    sync.Mutex
	began time.Time // zero: not yet, or no more; guarded by mu
}

// maxAttempts is how many may remain without an end: one may be a power cut, or a process that was killed.
const maxAttempts = 2

// note is what is in the file.
type note struct {
	Model    string `json:"model"`
	Attempts int    `json:"attempts"`
}

// attempt finds out what happened to earlier attempts with the same files, runtime and driver.
func (r *Runner) attempt(ref llm.ModelRef, version string) *attempt {
	a := &attempt{model: ref.Name}
	if r.options.CacheDir == "" {
		return a
	}
	text, _ := json.Marshal([]string{ref.Name, ref.Dir, ref.Digest, version, r.options.Device, r.options.Driver}) // strings always marshal
	sum := sha256.Sum256(text)
	a.path = filepath.Join(r.options.CacheDir, fmt.Sprintf("%s%x", notePrefix, sum[:8]))
	if old, err := readNote(a.path); err == nil {
		a.fails = old.Attempts
	}
	return a
}

const notePrefix = "paging-"

func readNote(path string) (n note, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	return n, err
}

// refused tells why there must be no more attempts; nil: there may.
func (a *attempt) refused() error {
	if a.fails < maxAttempts {
		return nil
	}
	return fmt.Errorf("%d loads with it ended the process before they were done; signalbox doctor tells how to try again", a.fails)
}

// begin leaves the note. An error costs no answer: only nobody would know what ended the process.
func (a *attempt) begin() error {
	if a.path == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = time.Now()
	if err := os.MkdirAll(filepath.Dir(a.path), 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(note{a.model, a.fails + 1})
	if err != nil {
		return err
	}
	return disk.Write(a.path, text)
}

// end takes the note away.
func (a *attempt) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.began.IsZero() {
		_ = os.Remove(a.path)
		a.began = time.Time{}
	}
}

// hung is how long an attempt takes that is counted also when the process is asked to end meanwhile: it was probably why.
const hung = time.Minute

// leave is for a process that ends by somebody's wish in the middle of the attempt, which is not to blame then.
func (a *attempt) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began.IsZero() || time.Since(a.began) >= hung {
		return
	}
	if a.fails == 0 {
		_ = os.Remove(a.path)
	} else if text, err := json.Marshal(note{a.model, a.fails}); err == nil {
		_ = disk.Write(a.path, text)
	}
}

// attempts are those under way. The zero value is empty.
type attempts struct {
	mu  sync.Mutex
	all map[*attempt]struct{} // guarded by mu
}

// begin adds a, which may never begin itself, until end is called.
func (s *attempts) begin(a *attempt) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*attempt]struct{}{}
	}
	s.all[a] = struct{}{}
	return func() {
		a.end()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, a)
	}
}

func (s *attempts) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.all {
		a.leave()
	}
}

// NotPaged is a model that is loaded without its attention paged, since that ended the process too often.
type NotPaged struct {
	Model string
	File  string // while it is there
}

// ListNotPaged finds them in the folder of compiled models.
func ListNotPaged(cacheDir string) (list []NotPaged) {
	files, _ := filepath.Glob(filepath.Join(cacheDir, notePrefix+"*")) // only a wrong pattern is an error
	for _, file := range files {
		if n, err := readNote(file); err == nil && n.Attempts >= maxAttempts {
			list = append(list, NotPaged{n.Model, file})
		}
	}
	return list
}
