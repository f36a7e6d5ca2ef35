package dispatch

import (
	"context"
	"time"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/router"
)

// Advisor is an Engine that knows more than how its devices stand: what was measured in earlier runs, what the settings pin,
// how much memory is free.
type Advisor interface {
	// Advise completes the facts of a call.
	Advise(facts *router.Facts, model models.Model, call Call)
	// WarmUp loads a model on a device in the background.
	WarmUp(device llm.Device, load llm.LoadRequest)
	// PowerSource is "mains" or "battery"; empty where it is not known.
	PowerSource() string
}

// decide asks the rules and writes what they say into the record.
func (t *trip) decide(ctx context.Context, model models.Model, promptTokens int, failed map[string]string) (router.Decision, error) {
	decision, err := t.choose(ctx, model, promptTokens, failed)
	if advisor, ok := t.d.engine.(Advisor); ok {
		t.set(func(r *llm.Record) { r.PowerSource = advisor.PowerSource() })
		if decision.WarmUp != nil {
			advisor.WarmUp(*decision.WarmUp, t.loadRequest(model))
		}
	}
	if err != nil {
		t.set(func(r *llm.Record) {
			r.RouteRule, r.Rejected, r.RouteReason = decision.Rule, decision.Rejected, err.Error()
		})
		return decision, err
	}
	t.set(decision.Record)
	t.room = decision.AnswerLimit
	if promptTokens > 0 {
		t.live.Asked(t.call.Request)
	}
	return decision, nil
}

// choose asks the rules. failed are devices that failed this request, with what went wrong there.
func (t *trip) choose(ctx context.Context, model models.Model, promptTokens int, failed map[string]string) (router.Decision, error) {
	facts, err := t.d.facts(ctx, t.call, model, promptTokens, failed)
	if err != nil {
		return router.Decision{}, err
	}
	return router.Decide(facts)
}

// facts is all that a decision about the call depends on.
func (d *Dispatcher) facts(ctx context.Context, call Call, model models.Model, promptTokens int, failed map[string]string) (router.Facts, error) {
	devices, err := d.engine.Devices(ctx)
	if err != nil {
		return router.Facts{}, err
	}
	facts := router.Facts{
		Request: router.Request{
			Pinned: call.Request.Device, PromptTokens: promptTokens, MaxTokens: min(call.Request.MaxTokens, answerLimit(call.Request, promptTokens)),
			Embedding: model.Kind == models.KindEmbedding, Tools: len(call.Request.Tools) > 0,
		},
		Model:  router.Model{Name: model.Name, ContextLength: model.ContextLength},
		Policy: d.policy().Router,
	}
	if !model.NPU.OK {
		facts.Model.NPUUnfit = model.NPU.Reason
	}
	for _, state := range devices {
		facts.Devices = append(facts.Devices, deviceFacts(state, model, failed[state.Device.ID()]))
	}
	if advisor, ok := d.engine.(Advisor); ok {
		advisor.Advise(&facts, model, call)
	}
	return facts, nil
}

// Explanation is what would happen with a request.
type Explanation struct {
	Model    models.Model
	Facts    router.Facts
	Decision router.Decision // with an error: as far as it came
}

// Explain tells where a request would go now, and why. Nothing runs, and nothing is recorded. The error is the one that the
// request would get.
func (d *Dispatcher) Explain(ctx context.Context, call Call) (e Explanation, err error) {
	if e.Model, err = d.library.Find(call.Request.Model); err != nil {
		return e, err
	}
	kind := models.KindChat
	if len(call.Request.Messages) == 0 && call.Request.Prompt == "" {
		kind = e.Model.Kind // a load, or inputs to embed
	}
	if err := usable(e.Model, call.Request.Model, kind, "chat"); err != nil {
		return e, err
	}
	tokens := 0
	if e.Model.Kind == models.KindChat {
		prepared := prepareRequest(e.Model, call.Request)
		prepared.Limit = promptLimit(e.Model, call.Request)
		prompt, err := d.prepare(ctx, prepared)
		if refusal := nameLimit(err, call.Request); refusal != nil {
			return e, refusal
		}
		if err != nil {
			return e, err
		}
		tokens = len(prompt.Tokens)
	}
	if e.Facts, err = d.facts(ctx, call, e.Model, tokens, nil); err != nil {
		return e, err
	}
	e.Decision, err = router.Decide(e.Facts)
	return e, err
}

// deviceFacts is what the engine knows of a device, seen by one model.
func deviceFacts(s engine.State, model models.Model, excluded string) router.DeviceFacts {
	f := router.DeviceFacts{
		Device: s.Device, Quarantined: s.Quarantined[model.Ref().Name], Excluded: excluded,
		Absent: s.Absent, Longest: s.Longest,
		Running: s.Running, Queued: s.Queued, Parallel: s.Parallel,
		// Until it is loaded there, what the model was made for is all we know. The router knows the NPU's own limit.
		ContextLimit: model.ContextLength, Assumed: true,
	}
	for _, loaded := range s.Loaded {
		if loaded.Model.Name == model.Ref().Name {
			f.Loaded, f.Assumed = true, false
			f.PromptLimit, f.ContextLimit = loaded.Loaded.PromptLimit, loaded.Loaded.ContextLimit
		}
	}
	speed := s.Speeds[model.Ref().Name]
	f.Prefill = speed.Prefill
	if speed.Load > 0 {
		f.Load = &speed.Load
	}
	if wait, known := expectedWait(s, speed); known {
		f.Wait = &wait
	}
	return f
}

// typicalAnswer is how many tokens an answer is taken to have when we guess how long a queue is: most requests do not say.
const typicalAnswer = 256

// expectedWait guesses when a new request would get a turn, from the model's own measured speed.
func expectedWait(s engine.State, speed engine.Speed) (time.Duration, bool) {
	if speed.Decode <= 0 {
		return 0, false
	}
	answer := time.Duration(typicalAnswer / speed.Decode * float64(time.Second))
	rounds := 1 + s.Queued/max(1, s.Parallel)
	return time.Duration(rounds) * answer, true
}
