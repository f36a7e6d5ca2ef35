// Package engine runs models in child processes, one for each device in use. It is the only part that knows of processes:
// it starts a child when a device is first needed, admits requests to it in the order they came, loads models on first use
// and unloads them when nobody has used them for a while, ends a child that holds no model, and survives what kills one.
//
// Begin with New. Run is the way of a request; Devices and States say how things stand.
package engine

import (
	"context"
	"log/slog"
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
	Pause       time.Duration // before the second restart in a row; doubles up to a minute: 1 s
	FaultWindow time.Duration // three faults of a model on a device within it are a quarantine: 1 h

	Log     *slog.Logger // nil: nothing is logged
	Changed func()       // called, coalesced, after States changed; on a goroutine of the engine: it must not call Close
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
	Prefill = "prefill"
)

// Times are what a request spent waiting.
type Times struct {
	Queue time.Duration
	Load  time.Duration
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
	Up          bool // its child runs
	Restarting  bool // its child died, and the next start waits
	Loaded      []LoadedModel
	Loading     string // model that is being loaded, or empty
	Phase       llm.Phase
	Since       time.Time
	Running     int // requests that have a turn
	Queued      int // requests that wait for one
	Parallel    int // turns
	Speeds      map[string]Speed
	Quarantined map[string]string // model to reason, one sentence
}

// Engine runs models.
type Engine struct{ options Options }

// New starts nothing: the first need does.
func New(options Options) *Engine { return &Engine{options: options} }

var errNotYet = llm.Errorf(llm.CodeUnavailable, "the engine is not built yet")

// Devices lists the devices of this machine and how they stand. The first call starts a child that looks for them; later
// ones answer at once.
func (e *Engine) Devices(ctx context.Context) ([]State, error) { return nil, errNotYet }

// States is Devices without the looking: empty until Devices or Run have been called.
func (e *Engine) States() []State { return nil }

// Prepare turns a conversation into tokens, in the child of the CPU.
func (e *Engine) Prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	return llm.Prompt{}, errNotYet
}

// Run waits for a turn on the job's device, loads the model where needed, and generates. OnState and OnDelta run on the caller's
// goroutine. The turn is free when Run returns. The Stats are true also with an error.
func (e *Engine) Run(ctx context.Context, job Job) (llm.Stats, error) { return llm.Stats{}, errNotYet }

// Embed waits for a turn, loads the model where needed, and embeds.
func (e *Engine) Embed(ctx context.Context, device llm.Device, load llm.LoadRequest, req llm.EmbedRequest, keepAlive *time.Duration, onState func(Progress)) (llm.Embedded, Times, error) {
	return llm.Embedded{}, Times{}, errNotYet
}

// Load makes a model ready, or keeps one ready for longer.
func (e *Engine) Load(ctx context.Context, device llm.Device, load llm.LoadRequest, keepAlive *time.Duration, onState func(Progress)) (llm.Loaded, Times, error) {
	return llm.Loaded{}, Times{}, errNotYet
}

// Unload frees a model on all devices, as soon as nobody uses it.
func (e *Engine) Unload(ctx context.Context, model string) error { return errNotYet }

// Loaded lists what is loaded, on all devices.
func (e *Engine) Loaded() []LoadedModel { return nil }

// Release ends the quarantine of a model on a device.
func (e *Engine) Release(device llm.Device, model string) {}

// Close ends all requests with CodeStopped, ends the children and waits for them. It may be called twice.
func (e *Engine) Close() error { return nil }
