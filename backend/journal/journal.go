package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/backend/llm"
)

// ErrNotFound is the answer for an entry or a chat that is not there.
var ErrNotFound = errors.New("not found")

// Options change how a journal works. The zero value is the usual one.
type Options struct {
	Retention time.Duration    // how long entries are kept; 0: 30 days; negative: for ever
	Bodies    time.Duration    // how long prompts and answers are kept; 0: they are not, and those that are there are deleted
	MaxBytes  int64            // how much all entries may take; 0: 100 MB
	Retry     time.Duration    // pause after SQLite has refused a write; 0: a minute
	Now       func() time.Time // nil: time.Now
	Log       *slog.Logger     // nil: slog.Default()
	Changed   func()           // called when Problem's answer changes, from any goroutine; nil: nobody is told
}

const (
	defaultRetention = 30 * 24 * time.Hour
	defaultMaxBytes  = 100 << 20
	ringSize         = 1000                   // entries kept in memory while they cannot be stored
	tokenPause       = 250 * time.Millisecond // between two publications where only the token count has changed
)

// Journal is open until Close. Its methods may be called from several goroutines at once.
type Journal struct {
	path    string
	options Options
	began   time.Time // by the real clock, with its monotonic reading

	wake    chan struct{}      // there is something to write; capacity 1
	prune   chan struct{}      // retention has changed; capacity 1
	looks   chan chan struct{} // the file should be looked at now; the writer closes what it gets when it has
	closing chan struct{}
	worker  sync.WaitGroup
	close   sync.Once

	storing sync.RWMutex // held while entries move from the ring to the file

	mu        sync.Mutex
	store     *store        // nil until the file could be opened; guarded by mu
	live      []*Live       // oldest first; guarded by mu
	ring      []Entry       // ended and not stored yet, oldest first; guarded by mu
	dropped   int           // entries that the ring had no room for; guarded by mu
	failure   string        // why the last write was refused; guarded by mu
	notice    string        // what happened to the file at opening; guarded by mu
	retention time.Duration // guarded by mu
	bodies    time.Duration // how long bodies are kept; 0: they are not; guarded by mu
	readers   []*subscriber // guarded by mu
}

// Live is the entry of a request that goes on.
type Live struct {
	journal *Journal

	mu        sync.Mutex
	entry     Entry     // guarded by mu
	ended     bool      // guarded by mu
	published time.Time // guarded by mu
	body      *Body     // guarded by mu
	noted     *string   // the execution device as it stands in the file; nil: nothing does; the writer's own
}

// Open opens the journal at path, with the usual options.
func Open(path string) (*Journal, error) { return OpenWith(path, Options{}) }

// OpenWith opens the journal at path and makes the file when there is none, readable by this user alone. A file that cannot
// be opened is no error: the journal works from memory, Problem says why, and it tries again. A damaged file is put aside,
// never deleted. A file of a newer Signalbox is read and not written. When somebody deletes or replaces the file, the journal
// goes on with what is there, or with a new one, and Problem says so. The error is about the arguments alone.
func OpenWith(path string, options Options) (*Journal, error) {
	if path == "" {
		return nil, errors.New("open the journal: no path given")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the journal %s: %w", path, err)
	}
	options = options.withDefaults()
	j := &Journal{
		path: abs, options: options, began: time.Now(), retention: options.Retention, bodies: options.Bodies,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), prune: make(chan struct{}, 1), looks: make(chan chan struct{}),
	}
	j.connect()
	j.worker.Go(j.work)
	return j, nil
}

func (o Options) withDefaults() Options {
	if o.Retention == 0 {
		o.Retention = defaultRetention
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Retry == 0 {
		o.Retry = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Close writes what has ended and closes the file. Entries still active are not stored: end them first. It may be called
// twice; the journal then works on in memory alone.
func (j *Journal) Close() error {
	var err error
	j.close.Do(func() {
		close(j.closing)
		j.worker.Wait()
		j.mu.Lock()
		s, readers := j.store, j.readers
		j.store, j.readers = nil, nil
		j.mu.Unlock()
		for _, r := range readers {
			r.stop()
		}
		if s != nil {
			err = s.close()
		}
	})
	return err
}

// Problem is a sentence for people about what is wrong with the journal; empty when nothing is.
func (j *Journal) Problem() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure == "" {
		return j.notice
	}
	text := j.failure
	switch kept := len(j.ring); {
	case j.dropped > 0:
		text += fmt.Sprintf(" The last %d requests are kept in memory, %d older ones are lost.", kept, j.dropped)
	case kept > 0:
		text += fmt.Sprintf(" %d requests are kept in memory and tried again.", kept)
	}
	return text
}

// Retention is what a request's record says of how long it is kept: "metadata/30d".
func (j *Journal) Retention() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.retention < 0 {
		return "metadata/forever"
	}
	return fmt.Sprintf("metadata/%dd", int(j.retention.Hours()/24))
}

// SetRetention changes how long entries are kept; 0: 30 days; negative: for ever.
func (j *Journal) SetRetention(d time.Duration) {
	if d == 0 {
		d = defaultRetention
	}
	j.mu.Lock()
	j.retention = d
	j.mu.Unlock()
	signal(j.prune)
}

// Begin adds an entry; it is active until its End. A zero StartedAt is now, an empty State is StateQueued.
func (j *Journal) Begin(e Entry) *Live {
	if e.StartedAt.IsZero() {
		e.StartedAt = j.options.Now()
	}
	if e.State == "" {
		e.State = StateQueued
	}
	e.StartedAt = e.StartedAt.UTC() // the monotonic reading stays
	e.bound()
	l := &Live{journal: j, entry: e}
	l.mu.Lock()
	defer l.mu.Unlock()
	j.mu.Lock()
	j.live = append(j.live, l)
	j.mu.Unlock()
	signal(j.wake)
	l.publish()
	return l
}

// Update changes the entry and tells subscribers. change must not call the journal, and must put new slices and pointers
// in place of old ones instead of writing through them. Changes of the token count alone are told at most 4 times a second.
// After End it does nothing.
func (l *Live) Update(change func(*Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	before := l.entry
	change(&l.entry)
	l.entry.bound()
	if l.entry.ExecutionDevice != before.ExecutionDevice {
		signal(l.journal.wake)
	}
	counted := l.entry.TokensSoFar != before.TokensSoFar &&
		l.entry.State == before.State && l.entry.Phase == before.Phase && l.entry.Position == before.Position
	if counted && time.Since(l.published) < tokenPause {
		return
	}
	l.publish()
}

// End changes the entry a last time, which may be nil for no change, and hands it over for storing. It does not wait for
// the disk. A zero EndedAt is now, by the monotonic clock. The second End does nothing.
func (l *Live) End(change func(*Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	if change != nil {
		change(&l.entry)
	}
	l.entry.bound()
	l.entry.State, l.entry.Position, l.entry.Phase = StateDone, 0, ""
	if l.entry.EndedAt.IsZero() {
		l.entry.EndedAt = l.entry.StartedAt.Add(max(0, l.journal.options.Now().Sub(l.entry.StartedAt)))
	}
	l.entry.EndedAt = l.entry.EndedAt.UTC()
	l.entry.body, l.body = l.body, nil
	l.journal.ended(l)
	l.publish()
}

// Entry is a copy of the entry as it is now.
func (l *Live) Entry() Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entry
}

// publish tells the subscribers; l.mu is held, so that they see the states in order.
func (l *Live) publish() {
	l.published = time.Now()
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	for _, r := range l.journal.readers {
		r.put(l, l.entry)
	}
}

// ended moves an entry from the live ones to those that wait for the writer; l.mu is held.
func (j *Journal) ended(l *Live) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live = slices.DeleteFunc(j.live, func(other *Live) bool { return other == l })
	e := l.entry
	if len(j.ring) >= bodiesWaiting {
		e.body = nil
	}
	j.ring = append(j.ring, e)
	if over := len(j.ring) - ringSize; over > 0 {
		j.ring = j.ring[over:]
		j.dropped += over
	}
	signal(j.wake)
}

// Active lists the entries that have not ended, oldest first.
func (j *Journal) Active() []Entry {
	j.mu.Lock()
	live := slices.Clone(j.live)
	j.mu.Unlock()
	entries := make([]Entry, 0, len(live))
	for _, l := range live {
		if e := l.Entry(); e.State != StateDone {
			entries = append(entries, e)
		}
	}
	return entries
}

// bound cuts what came from outside to sizes that a table can show.
func (e *Entry) bound() {
	for _, text := range []*string{&e.Client, &e.UserAgent, &e.Route, &e.ModelAsked} {
		*text = cut(*text, 256)
	}
	e.Error = cut(e.Error, 4096)
}

// cut shortens s to n bytes of valid UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}

// matches tells whether the query wants the entry.
func (q Query) matches(e Entry) bool {
	return (q.Before.IsZero() || e.StartedAt.Before(q.Before)) &&
		(q.Client == "" || q.Client == e.Client) &&
		(q.Model == "" || q.Model == e.ModelUsed || q.Model == e.ModelAsked) &&
		(q.Device == "" || q.Device == e.ExecutionDevice || q.Device == e.EndpointID) &&
		(q.Outcome == "" || q.Outcome == e.Outcome) &&
		(q.Reason == "" || q.Reason == e.RouteRule || q.Reason == e.FallbackReason) &&
		(q.Since.IsZero() || !e.StartedAt.Before(q.Since)) &&
		(q.Text == "" || strings.Contains(e.search(), strings.ToLower(q.Text)))
}

// search is what Query.Text looks through.
func (e Entry) search() string {
	return strings.ToLower(strings.Join([]string{
		e.TraceID, e.Client, e.UserAgent, e.Route, e.ModelAsked, e.ModelUsed, e.ExecutionDevice, e.RouteReason, e.Error,
	}, "\n"))
}

func (t *Totals) add(e Entry) {
	t.Requests++
	switch e.Outcome {
	case llm.OutcomeCompleted, llm.OutcomeLength:
		t.Completed++
	case llm.OutcomeCancelled:
		t.Cancelled++
	default:
		t.Failed++
	}
	t.PromptTokens += int64(number(e.PromptTokens))
	t.CompletionTokens += int64(number(e.CompletionTokens))
	t.DeviceSeconds += number(e.CostEstimate.DeviceSeconds)
}

func number[N int | float64](n *N) N {
	if n == nil {
		return 0
	}
	return *n
}

// signal wakes the one who waits on c, now or at its next look.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
