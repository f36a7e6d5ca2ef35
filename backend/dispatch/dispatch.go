// Package dispatch is the path of one request, the same for every dialect: find the model, count the prompt, decide on a
// device, wait for a turn there, run, and write down what happened.
//
// A caller gives a Call and an Answer and gets the routing record back, complete however the request ended.
package dispatch

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	// request its turn, or after 10 s of waiting with the device it waits for; from then on it stays on that device.
	// It is nil for an answer that is given whole: that one may go to another device until its first Delta.
	Begin func(llm.Record) error
	// Delta is called for each piece, in order.
	Delta func(llm.Delta) error
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

// Limits on waiting. Variables so that tests need not wait.
var (
	beginAfter = 10 * time.Second  // headers go although the request still waits
	idleLimit  = 180 * time.Second // without a token while it has the turn (S34)
)

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
	prompt, err := d.engine.Prepare(ctx, prepareRequest(model, call.Request))
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

// trip is one request on its way.
type trip struct {
	d      *Dispatcher
	call   Call
	live   *journal.Live
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	record llm.Record // guarded by mu
	begun  bool       // Begin was called: the device may not change any more; guarded by mu
	times  engine.Times
	turn   bool // a device gave it a turn
	model  llm.ModelRef
	prompt llm.Prompt
	said   strings.Builder // the answer, where the request wants its tokens
	first  time.Time       // of the first piece; zero until then
	ended  bool            // the record is complete
}

func (d *Dispatcher) begin(ctx context.Context, call Call) (*trip, context.Context) {
	if call.Arrived.IsZero() {
		call.Arrived = time.Now()
	}
	policy := d.policy()
	ctx, cancel := context.WithCancelCause(ctx)
	t := &trip{d: d, call: call, cancel: cancel, record: llm.Record{
		TraceID: call.TraceID, InferenceRegion: "local", SovereigntyClass: "on-device",
		Provider: policy.Provider, Retention: policy.Retention,
		CostEstimate: llm.Cost{Currency: "EUR", Basis: "measured"},
		Ignored:      call.Request.Ignored, Clamped: call.Request.Clamped,
	}}
	t.live = d.journal.Begin(journal.Entry{
		Record: t.record, State: journal.StateQueued, Client: call.Client, UserAgent: call.UserAgent, Route: call.Route,
		ModelAsked: call.Request.Model, StartedAt: call.Arrived,
	})
	d.mu.Lock()
	d.running[call.TraceID] = cancel
	d.mu.Unlock()
	return t, ctx
}

func (t *trip) generate(ctx context.Context, answer Answer) (llm.Stats, error) {
	req := t.call.Request
	ability := "chat"
	if len(req.Messages) == 0 {
		ability = "generate"
	}
	model, err := t.find(models.KindChat, ability)
	if err != nil {
		return llm.Stats{}, err
	}
	form := newForm(model, req, t.call.Route)
	t.set(func(r *llm.Record) {
		r.Ignored, r.Clamped = slices.Concat(r.Ignored, form.ignored), slices.Concat(r.Clamped, form.clamped)
	})
	form.prepared.Limit = promptLimit(model, req)
	prompt, err := t.d.engine.Prepare(ctx, form.prepared)
	if err != nil {
		return llm.Stats{}, t.tooLong(err)
	}
	n := len(prompt.Tokens)
	t.model, t.prompt = model.Ref(), prompt
	t.set(func(r *llm.Record) { r.PromptTokens = &n })

	timer := time.AfterFunc(beginAfter, func() { t.commitLate(answer) })
	defer timer.Stop()
	decision, err := t.decide(ctx, model, n, nil)
	if err != nil {
		return llm.Stats{PromptTokens: n}, err
	}
	generate, err := form.generate(model, prompt)
	if err != nil {
		return llm.Stats{PromptTokens: n}, err
	}
	stats, err := t.run(ctx, model, decision, generate, form.read(prompt, answer.Delta), answer)
	if llm.CodeOf(err) != llm.CodeEngine || !t.retractable() {
		return stats, err
	}
	// Nothing was sent and the device failed: one more try, on the next one. Without a next one the fault is the answer.
	failed := map[string]string{decision.Device.ID(): clause(err)}
	next, noOther := t.choose(ctx, model, n, failed)
	if noOther != nil {
		return stats, err
	}
	t.set(next.Record)
	return t.run(ctx, model, next, generate, form.read(prompt, answer.Delta), answer)
}

// listen keeps what is delivered.
func (t *trip) listen(deliver func(llm.Delta) error) func(llm.Delta) error {
	return func(d llm.Delta) error {
		t.said.WriteString(d.Text)
		return deliver(d)
	}
}

// context is the tokens of prompt and answer together. Without them the answer is whole all the same, so a fault gives none.
func (t *trip) context(ctx context.Context) []int32 {
	together, err := t.d.engine.Prepare(ctx, llm.PrepareRequest{Model: t.model, Prompt: t.said.String(), Context: t.prompt.Tokens})
	if err != nil {
		return nil
	}
	return together.Tokens
}

// prepareRequest is what a request's prompt is made from. Generate and Count share it, so that their counts are equal.
func prepareRequest(model models.Model, req llm.Request) llm.PrepareRequest {
	return newForm(model, req, "").prepared
}

// promptLimit is the most that any device could take: 0 when that is not known. With it the engine refuses megabytes of text by
// their size, before a template or a tokenizer sees them.
func promptLimit(model models.Model, req llm.Request) int {
	limit := max(0, model.ContextLength-1) // one token of answer
	if asked := req.ContextLimit; asked > 0 && (limit == 0 || asked < limit) {
		limit = asked
	}
	return limit
}

// tooLong completes the refusal of a prompt above promptLimit; other errors stay as they are.
func (t *trip) tooLong(err error) error {
	e := nameLimit(err, t.call.Request)
	if e == nil {
		return err
	}
	t.set(func(r *llm.Record) {
		r.PromptTokens, r.RouteRule, r.RouteReason = &e.Value, router.RulePromptLimit, e.Error()
	})
	return e
}

// nameLimit says in the refusal of a long prompt whose limit it was. It is nil for other errors.
func nameLimit(err error, req llm.Request) *llm.Error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Code != llm.CodeContextLength {
		return nil
	}
	if asked := req.ContextLimit; asked > 0 && e.Limit == asked {
		e.Param = "num_ctx"
		_ = e.WithHint("the request's num_ctx is %d: raise it or shorten the prompt", asked)
	}
	return e
}

// clause is an error as part of a sentence.
func clause(err error) string {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// run does one try on one device.
func (t *trip) run(ctx context.Context, model models.Model, decision router.Decision, generate llm.GenerateRequest, reader *reader, answer Answer) (llm.Stats, error) {
	ctx, idle := withIdleLimit(ctx)
	defer idle.stop()
	stats, err := t.d.engine.Run(ctx, engine.Job{
		Device:    decision.Device,
		Load:      t.loadRequest(model),
		Generate:  generate,
		KeepAlive: t.keepAlive(),
		Times:     &t.times,
		OnState: func(p engine.Progress) {
			t.watch(p)
			if p.State == engine.Prefill {
				idle.restart()
				_ = t.commit(answer) // a client that is gone shows at the first delta
			}
		},
		OnDelta: func(delta llm.Delta) error {
			idle.restart()
			if t.first.IsZero() {
				t.first = time.Now()
			}
			t.live.Update(func(e *journal.Entry) { e.State, e.TokensSoFar = journal.StateDecoding, delta.Tokens })
			t.live.Answered(delta.Text)
			return reader.take(delta)
		},
	})
	stats, err = reader.end(stats, err)
	return stats, cause(ctx, err)
}

func (t *trip) embed(ctx context.Context, req llm.EmbedRequest) (llm.Embedded, error) {
	model, err := t.find(models.KindEmbedding, "embedding")
	if err != nil {
		return llm.Embedded{}, err
	}
	decision, err := t.decide(ctx, model, 0, nil)
	if err != nil {
		return llm.Embedded{}, err
	}
	req.Model = model.Ref()
	embedded, times, err := t.d.engine.Embed(ctx, decision.Device, t.loadRequest(model), req, t.keepAlive(), t.watch)
	t.times = times
	return embedded, err
}

func (t *trip) load(ctx context.Context) error {
	model, err := t.d.library.Find(t.call.Request.Model)
	if err != nil {
		return err
	}
	t.found(model)
	if err := usable(model, t.call.Request.Model, model.Kind, ""); err != nil {
		return err
	}
	decision, err := t.decide(ctx, model, 0, nil)
	if err != nil {
		return err
	}
	_, times, err := t.d.engine.Load(ctx, decision.Device, t.loadRequest(model), t.keepAlive(), t.watch)
	t.times, t.turn = times, t.turn || times.Load > 0 || err == nil
	return err
}

// find resolves the name and refuses a model of the other kind in Ollama's words.
func (t *trip) find(kind, ability string) (models.Model, error) {
	model, err := t.d.library.Find(t.call.Request.Model)
	if err != nil {
		return model, err
	}
	t.found(model)
	return model, usable(model, t.call.Request.Model, kind, ability)
}

// usable refuses a model of another kind, and one whose files are not whole.
func usable(model models.Model, asked, kind, ability string) error {
	if model.Kind != kind {
		e := llm.Errorf(llm.CodeUnsupported, "%q does not support %s", asked, ability)
		e.Param = "model"
		return e
	}
	if model.Damaged != "" {
		return llm.Errorf(llm.CodeUnavailable, "load %s: %s", model.Name, model.Damaged)
	}
	return nil
}

func (t *trip) found(model models.Model) {
	t.set(func(r *llm.Record) { r.ModelUsed, r.ModelVersion = model.Name, model.Ref().Digest })
}

// loadRequest leaves the NPU's limits to the engine, which has them from the settings and applies them there alone.
func (t *trip) loadRequest(model models.Model) llm.LoadRequest {
	return llm.LoadRequest{Model: model.Ref(), Embedding: model.Kind == models.KindEmbedding}
}

func (t *trip) keepAlive() *time.Duration {
	if asked := t.call.Request.KeepAlive; asked != nil {
		return asked
	}
	usual := t.d.policy().KeepAlive
	return &usual
}

// watch follows the job for the live view.
func (t *trip) watch(p engine.Progress) {
	t.turn = t.turn || p.State == engine.Prefill
	t.live.Update(func(e *journal.Entry) { e.State, e.Phase, e.Position = p.State, p.Phase.Name, p.Position })
}

// commit lets the headers go, once. What they say is what the record says from now on. An answer that is given whole has
// none to let go.
func (t *trip) commit(answer Answer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun || answer.Begin == nil || t.record.ExecutionDevice == "" {
		return nil
	}
	t.begun = true
	return answer.Begin(t.record)
}

// commitLate is commit on a timer's goroutine, where a panic would end the program: there it ends the request.
func (t *trip) commitLate(answer Answer) {
	defer func() {
		if p := recover(); p != nil {
			t.cancel(llm.Errorf(llm.CodeInternal, "begin the answer: %v", p))
		}
	}()
	_ = t.commit(answer) // a client that is gone shows at the first delta
}

// retractable reports whether the request may still go to another device: nothing of it was delivered yet.
func (t *trip) retractable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.begun && t.first.IsZero()
}

// abandon completes the record of a request that a panic ended, on the panic's way up: nothing stays active for ever.
func (t *trip) abandon(ctx context.Context) {
	if !t.ended {
		t.end(ctx, llm.Stats{}, llm.Errorf(llm.CodeInternal, "Signalbox failed at this request"))
	}
}

func (t *trip) set(change func(*llm.Record)) {
	t.mu.Lock()
	change(&t.record)
	record := t.record
	t.mu.Unlock()
	t.live.Update(func(e *journal.Entry) { e.Record = record })
}

// end completes the record and writes it down.
func (t *trip) end(ctx context.Context, stats llm.Stats, err error) llm.Record {
	err = cause(ctx, err)
	t.ended = true
	t.mu.Lock()
	t.begun = true // a timer that fires now must not call Begin: the caller goes on to its next request
	t.mu.Unlock()
	t.d.mu.Lock()
	delete(t.d.running, t.call.TraceID)
	t.d.mu.Unlock()
	t.set(func(r *llm.Record) { t.complete(r, stats, err) })
	t.live.End(func(e *journal.Entry) {
		e.State, e.EndedAt, e.TokensSoFar = journal.StateDone, time.Now(), stats.CompletionTokens
		if err != nil {
			e.Error = err.Error()
		}
	})
	t.cancel(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record
}

func (t *trip) complete(r *llm.Record, stats llm.Stats, err error) {
	r.Outcome = outcome(stats, err)
	if !t.turn { // it never had a turn: nothing was measured but the wait
		if t.times.Queue > 0 {
			r.QueueMS = ms(t.times.Queue)
		}
		return
	}
	r.QueueMS, r.LoadMS, r.CompletionTokens = ms(t.times.Queue), ms(t.times.Load), &stats.CompletionTokens
	if stats.PromptTokens > 0 {
		r.PromptTokens = &stats.PromptTokens
	}
	if stats.Prefill > 0 {
		r.PrefillMS = ms(stats.Prefill)
		if !strings.HasPrefix(r.EndpointID, "npu:") { // its plugin keeps prefixes, and does not tell
			r.CachedTokens = &stats.CachedTokens
		}
	}
	if !t.first.IsZero() {
		r.TTFTMS = ms(t.first.Sub(t.call.Arrived))
	}
	if stats.CompletionTokens > 0 {
		r.DecodeMS = ms(stats.Decode)
	}
	if stats.CompletionTokens > 1 && stats.Decode > 0 {
		perSecond := float64(stats.CompletionTokens-1) / stats.Decode.Seconds()
		r.TokensPerSecond = &perSecond
	}
	if stats.Cancel > 0 {
		r.CancelMS = ms(stats.Cancel)
	}
	if busy := (stats.Prefill + stats.Decode).Seconds(); busy > 0 {
		r.CostEstimate.DeviceSeconds = &busy
	}
	r.CostEstimate.EnergyJoules = t.times.Joules
}

func outcome(stats llm.Stats, err error) llm.Outcome {
	switch {
	case err == nil && stats.Finish == llm.FinishLength:
		return llm.OutcomeLength
	case err == nil:
		return llm.OutcomeCompleted
	}
	switch llm.CodeOf(err) {
	case llm.CodeCancelled, llm.CodeStopped:
		return llm.OutcomeCancelled
	case llm.CodeTimeout:
		return llm.OutcomeTimeout
	case llm.CodeInvalid, llm.CodeContextLength, llm.CodeModelNotFound, llm.CodeUnsupported, llm.CodeForbidden, llm.CodeOverloaded:
		return llm.OutcomeRejected
	}
	return llm.OutcomeError
}

// cause prefers the reason that somebody gave for stopping (the server stops, the window's button) to the bare
// "context canceled" that the engine reports.
func cause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if why, ok := errors.AsType[*llm.Error](context.Cause(ctx)); ok {
		return why
	}
	if said, ok := errors.AsType[*llm.Error](err); ok && said.Code == llm.CodeCancelled {
		return err // this was asked already
	}
	if errors.Is(err, context.Canceled) {
		return llm.Errorf(llm.CodeCancelled, "the client left: %w", err)
	}
	return err
}

// conversation is the messages to render: those of a chat, or a plain prompt as one user turn.
func conversation(req llm.Request) []llm.Message {
	if len(req.Messages) > 0 {
		return req.Messages
	}
	var messages []llm.Message
	if req.System != "" {
		messages = append(messages, llm.Message{Role: "system", Content: req.System})
	}
	return append(messages, llm.Message{Role: "user", Content: req.Prompt})
}

func ms(d time.Duration) *float64 {
	v := float64(d.Microseconds()) / 1000
	return &v
}

// idleClock cancels a context when nothing happened for idleLimit. It runs from the first restart on.
type idleClock struct {
	mu     sync.Mutex
	timer  *time.Timer // nil until the first restart; guarded by mu
	cancel context.CancelCauseFunc
}

func withIdleLimit(ctx context.Context) (context.Context, *idleClock) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &idleClock{cancel: cancel}
}

func (c *idleClock) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		c.timer = time.AfterFunc(idleLimit, func() {
			c.cancel(llm.Errorf(llm.CodeTimeout, "the model gave no token for %s", idleLimit))
		})
		return
	}
	c.timer.Reset(idleLimit)
}

func (c *idleClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.cancel(nil)
}
