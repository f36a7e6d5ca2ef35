// Package dispatch is the path of one request, the same for every dialect: find the model, count the prompt, decide on a
// device, wait for a turn there, run, and write down what happened.
//
// A caller gives a Call and an Answer and gets the routing record back, complete however the request ended.
package dispatch

import (
	"context"
	"sync"
	"time"

	"signalbox/backend/engine"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/router"
)

// Call is a request and who sent it.
type Call struct {
	Request   llm.Request
	TraceID   string // unique; the record's key
	Route     string // "/api/chat"
	Client    string // "Continue", "curl", "Signalbox"
	UserAgent string
	Arrived   time.Time
}

// Answer takes what comes back. Both run one at a time.
type Answer struct {
	// Begin is called once, before the first Delta: the device is decided, headers may go. It comes when a device gives the
	// request its turn, or after 10 s of waiting with the device it waits for; from then on it stays on that device, unless the
	// answer fills it: see Record.Continued.
	// It is nil for an answer that is given whole: that one may go to another device until its first Delta, and with Again to its end.
	Begin func(llm.Record) error
	// Delta is called for each piece, in order.
	Delta func(llm.Delta) error
	// Again says that what Delta took is void, since a device failed and the request is tried once more. It is nil where the pieces
	// are handed on as they come: then nothing is tried again after the first.
	Again func()
}

// Library finds models by the names callers use.
type Library interface {
	Find(name string) (models.Model, error)
}

// Engine runs them.
type Engine interface {
	Devices(ctx context.Context) ([]engine.State, error)
	Prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error)
	Run(ctx context.Context, job engine.Job) (llm.Stats, error)
	Embed(ctx context.Context, device llm.Device, load llm.LoadRequest, req llm.EmbedRequest, keepAlive *time.Duration, onState func(engine.Progress)) (llm.Embedded, engine.Times, error)
	Load(ctx context.Context, device llm.Device, load llm.LoadRequest, keepAlive *time.Duration, onState func(engine.Progress)) (llm.Loaded, engine.Times, error)
	Unload(ctx context.Context, model string) error
}

// Policy is what the settings say about routing. It is asked for at each decision, so a change needs no restart.
type Policy struct {
	Router    router.Policy
	Retention string        // "metadata/30d"
	Provider  string        // "openvino/2026.4.1"
	KeepAlive time.Duration // of a model, where the request does not say; negative: for ever
}

// Dispatcher takes requests. It is safe for concurrent use.
type Dispatcher struct {
	library Library
	engine  Engine
	journal *journal.Journal
	policy  func() Policy

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc // by trace id; guarded by mu
}

// New returns a Dispatcher over its parts. policy is called at each decision.
func New(library Library, eng Engine, j *journal.Journal, policy func() Policy) *Dispatcher {
	return &Dispatcher{library: library, engine: eng, journal: j, policy: policy, running: map[string]context.CancelCauseFunc{}}
}

// Generate answers a request. The record is complete in every case, the stats are true also with an error.
func (d *Dispatcher) Generate(ctx context.Context, call Call, answer Answer) (llm.Record, llm.Stats, error) {
	t, ctx := d.begin(ctx, call)
	defer t.abandon(ctx)
	if call.Request.EchoContext {
		answer.Delta = t.listen(answer.Delta)
	}
	stats, err := t.generate(ctx, answer)
	if err == nil && call.Request.EchoContext {
		stats.Context = t.context(ctx)
	}
	return t.end(ctx, stats, err), stats, cause(ctx, err)
}

// Embed turns inputs into vectors. req.Model needs no more than the name that was asked for.
func (d *Dispatcher) Embed(ctx context.Context, call Call, req llm.EmbedRequest) (llm.Record, llm.Embedded, error) {
	t, ctx := d.begin(ctx, call)
	defer t.abandon(ctx)
	embedded, err := t.embed(ctx, req)
	return t.end(ctx, llm.Stats{PromptTokens: embedded.Tokens, Prefill: embedded.Duration, Finish: llm.FinishStop}, err), embedded, cause(ctx, err)
}

// Count tells how many tokens a request's prompt has: the prompt tokens that Generate would report. Nothing runs, and
// nothing is recorded.
func (d *Dispatcher) Count(ctx context.Context, call Call) (int, error) {
	model, err := d.library.Find(call.Request.Model)
	if err != nil {
		return 0, err
	}
	if err := usable(model, call.Request.Model, models.KindChat, "chat"); err != nil {
		return 0, err
	}
	prompt, err := d.prepare(ctx, prepareRequest(model, call.Request))
	return len(prompt.Tokens), err
}

// Load makes a model ready where the rules would run an empty prompt.
func (d *Dispatcher) Load(ctx context.Context, call Call) (llm.Record, error) {
	t, ctx := d.begin(ctx, call)
	defer t.abandon(ctx)
	err := t.load(ctx)
	return t.end(ctx, llm.Stats{Finish: llm.FinishStop}, err), cause(ctx, err)
}

// Unload frees a model on every device.
func (d *Dispatcher) Unload(ctx context.Context, name string) error {
	model, err := d.library.Find(name)
	if err != nil {
		return err
	}
	return d.engine.Unload(ctx, model.Name)
}

// Cancel stops a running request, as the window's button does. It reports whether there was one.
func (d *Dispatcher) Cancel(traceID string) bool {
	d.mu.Lock()
	cancel := d.running[traceID]
	d.mu.Unlock()
	if cancel != nil {
		cancel(llm.Errorf(llm.CodeCancelled, "the request was cancelled in the Signalbox window"))
	}
	return cancel != nil
}
