package dispatch

import (
	"context"
	"time"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/router"
)

// decide asks the rules and writes what they say into the record.
func (t *trip) decide(ctx context.Context, model models.Model, promptTokens int, failed map[string]string) (router.Decision, error) {
	decision, err := t.choose(ctx, model, promptTokens, failed)
	if err != nil {
		t.set(func(r *llm.Record) {
			r.RouteRule, r.Rejected, r.RouteReason = decision.Rule, decision.Rejected, err.Error()
		})
		return decision, err
	}
	t.set(decision.Record)
	return decision, nil
}

// choose asks the rules. failed are devices that failed this request, with what went wrong there.
func (t *trip) choose(ctx context.Context, model models.Model, promptTokens int, failed map[string]string) (router.Decision, error) {
	devices, err := t.d.engine.Devices(ctx)
	if err != nil {
		return router.Decision{}, err
	}
	policy := t.d.policy().Router
	facts := router.Facts{
		Request: router.Request{
			Pinned: t.call.Request.Device, PromptTokens: promptTokens, MaxTokens: t.call.Request.MaxTokens,
			Embedding: model.Kind == models.KindEmbedding,
		},
		Model:  router.Model{Name: model.Name, ContextLength: model.ContextLength},
		Policy: policy,
	}
	if !model.NPU.OK {
		facts.Model.NPUUnfit = model.NPU.Reason
	}
	for _, state := range devices {
		facts.Devices = append(facts.Devices, deviceFacts(state, model, failed[state.Device.ID()]))
	}
	return router.Decide(facts)
}

// deviceFacts is what the engine knows of a device, seen by one model.
func deviceFacts(s engine.State, model models.Model, excluded string) router.DeviceFacts {
	f := router.DeviceFacts{
		Device: s.Device, Quarantined: s.Quarantined[model.Name], Excluded: excluded,
		Running: s.Running, Queued: s.Queued, Parallel: s.Parallel,
		// Until it is loaded there, what the model was made for is all we know. The router knows the NPU's own limit.
		ContextLimit: model.ContextLength, Assumed: true,
	}
	for _, loaded := range s.Loaded {
		if loaded.Model.Name == model.Name {
			f.Loaded, f.Assumed = true, false
			f.PromptLimit, f.ContextLimit = loaded.Loaded.PromptLimit, loaded.Loaded.ContextLimit
		}
	}
	speed := s.Speeds[model.Name]
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
