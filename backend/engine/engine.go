// Package engine runs models in child processes, one for each device in use. It is the only part that knows of processes:
// it starts a child when a device is first needed, admits requests to it in the order they came, loads models on first use
// and unloads them when nobody has used them for a while, ends a child that holds no model, and survives what kills one.
//
// Begin with New. Run is the way of a request; Devices and States say how things stand.
package engine

import (
	"log/slog"
	"sync"
	"time"

	"signalbox/backend/llm"
)

// Command says how to start a child that serves a device.
type Command struct {
	Path string   // the program, see Self
	Args []string // without the program's name
	Env  []string // "NAME=value", beside the environment that every child gets, see environment
	Dir  string   // working directory; the folder of the native libraries
}

// Options say how an Engine works. A zero field stands for its default.
type Options struct {
	// Command is asked for each start of a child. The device that lists the others, and prepares prompts, has class CPU, or
	// mock with Fake.
	Command func(llm.Device) Command
	// InProcess replaces child processes: runners live in this process, behind the same frames. For tests.
	InProcess func(llm.Device) (llm.Runner, error)

	Fake        bool          // the children run the fake engine: device class mock
	Emulate     bool          // where no NPU is, list one that the CPU stands in for
	QueueLimit  int           // requests that may wait for one device: 512
	Parallel    int           // requests that a CPU or a GPU works on at once: 4; an NPU always takes one
	KeepAlive   time.Duration // how long an unused model stays loaded: 5 min; negative: for ever
	LoadLimit   time.Duration // a load that takes longer is ended with its child: 10 min
	PromptLimit int           // NPU: what a LoadRequest without one gets
	Reserve     int           // NPU: the same
	MaxLoaded   int           // models that stay loaded on one device: 3; the longest unused one goes first

	IdleAfter   time.Duration // a child without models and work ends after: 1 min
	Patience    time.Duration // how long Run waits for the child's last word when ctx is done: 5 s
	HangLimit   time.Duration // a child still busy with a cancelled request after that is replaced: 30 s
	KillLimit   time.Duration // a child that was killed and has not ended after that is given up: 10 s
	Silence     time.Duration // a child that answers no pings for so long is dead: 30 s
	Pause       time.Duration // before the second restart in a row after failed starts or loads; doubles up to a minute: 1 s
	FaultWindow time.Duration // three faults of a model on a device within it are a quarantine: 1 h

	Known func(llm.Device) Known // what is known already about a device; it must not ask the engine; nil: nothing

	// Keep puts what a child that crashed wrote on stderr where people find it, and tells where: the log has one sentence. nil: it is
	// not kept.
	Keep    func(device llm.Device, words string) (file string, err error)
	Log     *slog.Logger // nil: nothing is logged
	Changed func()       // called, coalesced, after States changed; on a goroutine of the engine: it must not call Close
}

// Known is what an earlier engine found out about a device, by model.
type Known struct {
	Speeds      map[string]Speed
	Quarantined map[string]string // with the reason
}

// Progress says what a request is waiting for.
type Progress struct {
	State    string    // Queued, Loading or Prefill
	Position int       // with Queued: 1 is next
	Phase    llm.Phase // with Loading
	Since    time.Time // with Loading: when the load began
}

// States of a request that is on its way.
const (
	Queued  = "queued"
	Loading = "loading"
	Prefill = "prefill" // it has its turn and its model; of embeddings too
)

// Times are what a request spent waiting, and what it used.
type Times struct {
	Queue  time.Duration
	Load   time.Duration
	Joules *float64 // set by a caller that can measure it
}

// Job is one request for text.
type Job struct {
	Device    llm.Device
	Load      llm.LoadRequest
	Generate  llm.GenerateRequest
	KeepAlive *time.Duration // negative: for ever; 0: unload afterwards; nil: Options.KeepAlive

	OnState func(Progress)        // may be nil
	OnDelta func(llm.Delta) error // an error ends the request and is returned
	Times   *Times                // filled in as far as the request came; may be nil
}

// LoadedModel is a model in the memory of a device.
type LoadedModel struct {
	Model     llm.ModelRef
	Device    llm.Device
	Loaded    llm.Loaded
	Bytes     int64 // what it takes of the device's memory now; Loaded.Bytes is what it took when it had been loaded
	Embedding bool
	InUse     int
	ExpiresAt time.Time // zero: never, or not while it is in use
}

// Speed is what was measured for a model on a device; zero fields are not known.
type Speed struct {
	Prefill float64       // tokens a second
	Decode  float64       // tokens a second
	Load    time.Duration // until ready
}

// State says how a device stands.
type State struct {
	Device      llm.Device
	Absent      string        // it was used before, and the last look did not find it: why, a clause
	Up          bool          // its child runs
	PID         int           // of the child, while Up
	Silent      time.Duration // the child has not said a word for so long; 0: it answers
	Restarting  bool          // its child died, and the next start waits
	Loaded      []LoadedModel
	Loading     string // model that is being loaded, or empty
	Phase       llm.Phase
	Since       time.Time
	Running     int // requests that have a turn
	Finishing   int // of those that run: requests that nobody waits for any more, and that the child has not ended yet
	Queued      int // requests that wait for one
	Parallel    int // turns
	Longest     int // prompt tokens of the longest request that runs or waits
	Speeds      map[string]Speed
	Quarantined map[string]string // model to reason, one sentence
}

// Engine runs models.
type Engine struct {
	options Options
	log     *slog.Logger
	closing chan struct{}  // closed by Close
	going   sync.WaitGroup // every goroutine of the engine; begun only while closed is false, or by one of them

	mu       sync.Mutex       // guards everything below, and all lanes, children and models; never held while anything waits
	closed   bool             //
	lanes    map[string]*lane // by Device.ID
	listed   []llm.Device     // nil: not looked yet
	listing  *listing         // the looking that is under way or failed a moment ago
	dirty    bool             // Changed is owed
	telling  bool             // a goroutine is calling Changed
	faultNum int              // numbers load faults, so that each is a cause of its own
	uses     uint64           // numbers uses of models
}

// New starts nothing: the first need does.
func New(options Options) *Engine {
	options = options.withDefaults()
	return &Engine{
		options: options, log: options.Log,
		closing: make(chan struct{}), lanes: map[string]*lane{},
	}
}

func (o Options) withDefaults() Options {
	orDefault(&o.QueueLimit, 512)
	orDefault(&o.Parallel, 4)
	orDefault(&o.MaxLoaded, 3)
	orDefault(&o.KeepAlive, 5*time.Minute)
	orDefault(&o.LoadLimit, 10*time.Minute)
	orDefault(&o.IdleAfter, time.Minute)
	orDefault(&o.Patience, 5*time.Second)
	orDefault(&o.HangLimit, 30*time.Second)
	orDefault(&o.KillLimit, 10*time.Second)
	orDefault(&o.Pause, time.Second)
	orDefault(&o.FaultWindow, time.Hour)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Close ends all requests with CodeStopped, ends the children and waits for them, but not for one that cannot be killed. It
// may be called twice.
func (e *Engine) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.closing)
	}
	for _, l := range e.lanes {
		if l.child != nil {
			l.end(l.child, "the engine was closed", false)
		}
	}
	e.mu.Unlock()
	e.going.Wait()
	return nil
}

func errStopped() error { return llm.Errorf(llm.CodeStopped, "the engine was stopped") }

// use numbers a use of a model. mu is held.
func (e *Engine) use() uint64 {
	e.uses++
	return e.uses
}

// changed lets the owner know, soon and once for many changes. mu is held.
func (e *Engine) changed() {
	if e.options.Changed == nil || e.closed {
		return
	}
	e.dirty = true
	if e.telling {
		return
	}
	e.telling = true
	e.going.Go(e.tell)
}

func (e *Engine) tell() {
	for {
		e.mu.Lock()
		if !e.dirty || e.closed {
			e.telling = false
			e.mu.Unlock()
			return
		}
		e.dirty = false
		e.mu.Unlock()
		e.tellOnce()
	}
}

// tellOnce keeps a panic of the listener from ending the program.
func (e *Engine) tellOnce() {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("Changed panicked", "panic", p)
		}
	}()
	e.options.Changed()
}
