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
)

// beginAfter is when headers go although the request still waits. A variable so that tests need not wait.
var beginAfter = 10 * time.Second

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
	turn   bool          // a device gave it a turn
	began  time.Time     // when this try was given to its device, after queue and load; zero: not yet
	lost   time.Duration // that a device was at work on a try that came to nothing
	room   int           // tokens of answer that its device has room for; 0: unknown
	model  llm.ModelRef
	prompt llm.Prompt
	again  func()          // the Answer's
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
	begun := time.Now()
	prompt, err := t.d.prepare(ctx, form.prepared)
	t.set(func(r *llm.Record) { r.PrepareMS = ms(time.Since(begun)) })
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
	if t.room > 0 && req.MaxTokens > t.room && free(generate) {
		if next, err := t.choose(ctx, model, n+t.room, nil); err == nil && next.Device.ID() != decision.Device.ID() {
			t.room += next.AnswerLimit // it would go on there
		}
	}
	var stats llm.Stats
	t.again = answer.Again
	err = t.attempt(ctx, model, decision, func(device llm.Device) (err error) {
		stats, err = t.run(ctx, model, device, generate, form.read(prompt, answer.Delta), answer)
		return err
	})
	return stats, err
}

// listen keeps what is delivered.
func (t *trip) listen(deliver func(llm.Delta) error) func(llm.Delta) error {
	return func(d llm.Delta) error {
		t.said.WriteString(d.Text)
		return deliver(d)
	}
}

// run does one try: on one device, and where that has no room for the whole answer, the rest on another one.
func (t *trip) run(ctx context.Context, model models.Model, device llm.Device, generate llm.GenerateRequest, reader *reader, answer Answer) (llm.Stats, error) {
	ctx, idle := withIdleLimit(ctx)
	defer idle.stop()
	job := engine.Job{
		Device:    device,
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
	}
	stats, err := t.d.engine.Run(ctx, job)
	if err == nil && mayGoOn(generate, stats) {
		idle.pause()
		stats, err = t.goOn(ctx, model, job, stats, reader)
	}
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
	var embedded llm.Embedded
	err = t.attempt(ctx, model, decision, func(device llm.Device) (err error) {
		embedded, t.times, err = t.d.engine.Embed(ctx, device, t.loadRequest(model), req, t.keepAlive(), t.watch)
		return err
	})
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
	err = t.attempt(ctx, model, decision, func(device llm.Device) (err error) {
		_, t.times, err = t.d.engine.Load(ctx, device, t.loadRequest(model), t.keepAlive(), t.watch)
		return err
	})
	t.turn = t.turn || t.times.Load > 0 || err == nil
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
	if model.Damaged != "" { // it does not heal by being asked again, as "unavailable" would have it
		e := llm.Errorf(llm.CodeUnsupported, "load %s: %s", model.Name, model.Damaged).WithHint("`signalbox verify %s` tells more; choose another model meanwhile", model.Name)
		e.Param = "model"
		return e
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
	if p.State == engine.Prefill {
		t.turn, t.began = true, time.Now()
	}
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

// abandon completes the record of a request that a panic ended, on the panic's way up: nothing stays active for ever.
func (t *trip) abandon(ctx context.Context) {
	if !t.ended {
		t.end(ctx, llm.Stats{}, llm.Errorf(llm.CodeInternal, "Signalbox failed at this request"))
	}
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
