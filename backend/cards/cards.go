// Package cards keeps what was measured of each model on each device: whether it loads, its limits and speeds, whether known
// answers come out right, and why it is kept away where it is. Open reads the cards of earlier runs; Update changes one, and
// the file follows a moment later. A card holds for one basis: other files of the model, another driver or another runtime
// begin a new one.
package cards

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/disk"
)

// Basis is what a card was measured with.
type Basis struct {
	Digest  string `json:"digest"`  // of the model's files
	Driver  string `json:"driver"`  // of the device; empty: not known
	Runtime string `json:"runtime"` // "openvino/2026.4.1"
}

// Verdict says how known answers came out.
type Verdict string

const (
	Unknown Verdict = ""       // not asked yet
	Right   Verdict = "right"  // as they should
	Wrong   Verdict = "wrong"  // the model knows better on another device, or it was no language
	Unsure  Verdict = "unsure" // the model does not know the answers on any device
)

// Card is one model on one device. What is not known is zero.
type Card struct {
	Model  string `json:"model"`  // canonical name
	Device string `json:"device"` // llm.Device.ID
	Label  string `json:"label"`  // llm.Device.Label
	Basis

	Assumed      bool          `json:"assumed"` // nothing was measured: the limits are those of the model's config and of the settings
	Loads        bool          `json:"loads"`
	LoadError    string        `json:"load_error,omitempty"` // why it did not load the last time, a clause
	LoadFailedAt time.Time     `json:"load_failed_at,omitzero"`
	AskedLimit   int           `json:"asked_limit,omitempty"`  // the prompt limit that it was loaded with; NPU
	FailedLimit  int           `json:"failed_limit,omitempty"` // one that it did not load with; NPU
	PromptLimit  int           `json:"prompt_limit"`
	ContextLimit int           `json:"context_limit"`
	Bytes        int64         `json:"bytes"`
	Prefill      float64       `json:"prefill_tokens_per_second"`
	Decode       float64       `json:"decode_tokens_per_second"`
	Load         time.Duration `json:"load_ns"`
	Compile      time.Duration `json:"compile_ns,omitempty"` // the latest load that found nothing compiled took so long; also of an earlier basis
	Tools        *bool         `json:"tools"`                // whether its template takes tools; nil: not known

	Verdict    Verdict   `json:"verdict,omitempty"`
	Answers    []Answer  `json:"answers,omitempty"`
	MeasuredAt time.Time `json:"measured_at,omitzero"`

	Quarantined   string    `json:"quarantined,omitempty"` // why it is kept off the device, a clause
	QuarantinedAt time.Time `json:"quarantined_at,omitzero"`
}

// Wrongly is how the answers came out wrong, a clause; empty when they did not.
func (c Card) Wrongly() string {
	if c.Verdict != Wrong {
		return ""
	}
	for _, a := range c.Answers {
		if !a.Right {
			return fmt.Sprintf("asked “%s” it said “%s”", a.Question, short(a.Said))
		}
	}
	return "known answers came out wrong"
}

// Seen is a device that was there once.
type Seen struct {
	Device llm.Device `json:"device"`
	At     time.Time  `json:"at"` // the last time
}

// file is cards.json.
type file struct {
	Version int    `json:"version"`
	Cards   []Card `json:"cards"`
	Devices []Seen `json:"devices"`
}

const version = 1

// Store is all cards. Its methods may be called from several goroutines at once.
type Store struct {
	path string
	tell func(problem error) // may be nil

	mu    sync.Mutex
	cards map[[2]string]Card // by model and device; guarded by mu
	seen  map[string]Seen    // by device; guarded by mu
	timer *time.Timer        // runs while the file is behind; guarded by mu
	saved sync.Mutex         // held while the file is written
}

// saveAfter is how long changes are gathered before the file is written.
const saveAfter = 2 * time.Second

// Open reads the file at path; without one the store is empty. The notice is a sentence for people about a file that could not
// be read: it is put aside, and measuring begins anew. tell hears when the file cannot be written; it may be nil.
func Open(path string, tell func(error)) (s *Store, notice string) {
	s = &Store{path: path, tell: tell, cards: map[[2]string]Card{}, seen: map[string]Seen{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, ""
	}
	var f file
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil && f.Version != version {
		err = fmt.Errorf("it has version %d, and this Signalbox knows %d", f.Version, version)
	}
	if err != nil {
		_ = os.Rename(path, path+".damaged")
		return s, fmt.Sprintf("What was measured of models and devices (%s) cannot be read (%v). It was put aside and is measured again.", path, err)
	}
	for _, c := range f.Cards {
		s.cards[[2]string{c.Model, c.Device}] = c
	}
	for _, d := range f.Devices {
		s.seen[d.Device.ID()] = d
	}
	return s, ""
}

// Get returns a card that holds for the basis.
func (s *Store) Get(model, device string, basis Basis) (Card, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.cards[[2]string{model, device}]
	if !ok || c.Basis != basis {
		return Card{}, false
	}
	return c, true
}

// Compiling is how long the model took to load there when nothing was compiled, with whatever basis; 0: not known.
func (s *Store) Compiling(model string, device llm.Device) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.cards[[2]string{model, device.ID()}]; c.Label == device.Label() {
		return c.Compile
	}
	return 0
}

// Update changes a card. One of another basis is begun anew. change must put a new slice in place of an old one.
func (s *Store) Update(model string, device llm.Device, basis Basis, change func(*Card)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]string{model, device.ID()}
	c, ok := s.cards[key]
	if !ok || c.Basis != basis {
		before := c
		c = Card{Model: model, Device: device.ID(), Basis: basis}
		if before.Label == device.Label() {
			c.Compile = before.Compile // with another driver it takes about as long
		}
	}
	before, _ := json.Marshal(c)
	c.Label = device.Label()
	change(&c)
	after, err := json.Marshal(c)
	if err != nil || ok && string(before) == string(after) { // a speed that is no number, or nothing new
		return
	}
	s.cards[key] = c
	s.later()
}

// Cards lists all, by model and device.
func (s *Store) Cards() []Card {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Card, 0, len(s.cards))
	for _, c := range s.cards {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Card) int { return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Device, b.Device)) })
	return list
}

// See notes that devices are there.
func (s *Store) See(devices []llm.Device, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range devices {
		// Once an hour is often enough to say when it was last there.
		if old, ok := s.seen[d.ID()]; !ok || old.Device != d || now.Sub(old.At).Abs() > time.Hour { // also after a clock that was ahead
			s.seen[d.ID()] = Seen{Device: d, At: now}
			s.later()
		}
	}
}

// Seen lists the devices that were there once, by id.
func (s *Store) Seen() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Seen, 0, len(s.seen))
	for _, d := range s.seen {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Seen) int { return cmp.Compare(a.Device.ID(), b.Device.ID()) })
	return list
}

// later writes the file soon. mu is held.
func (s *Store) later() {
	if s.timer == nil {
		s.timer = time.AfterFunc(saveAfter, func() { s.save() })
	}
}

// Close writes what is not written yet.
func (s *Store) Close() error {
	s.mu.Lock()
	behind := s.timer != nil && s.timer.Stop()
	s.mu.Unlock()
	if behind {
		return s.save()
	}
	s.saved.Lock() // a save that has begun ends first
	defer s.saved.Unlock()
	return nil
}

func (s *Store) save() error {
	s.saved.Lock()
	defer s.saved.Unlock()
	s.mu.Lock()
	s.timer = nil
	s.mu.Unlock()
	text, err := json.MarshalIndent(file{Version: version, Cards: s.Cards(), Devices: s.Seen()}, "", " ")
	if err == nil {
		err = disk.Write(s.path, append(text, '\n'))
	}
	if err != nil {
		err = fmt.Errorf("keep what was measured in %s: %w", s.path, err)
		if s.tell != nil {
			s.tell(err)
		}
	}
	return err
}
