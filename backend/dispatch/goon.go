package dispatch

import (
	"context"
	"fmt"
	"strings"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/router"
)

// An NPU's program has a fixed length: where prompt and answer fill it, the answer ends in the middle of a sentence, although nobody
// has asked for that. So it goes on elsewhere: another device reads the prompt and the answer so far, and writes the rest into the same
// stream. The headers have named the device where it began, and the record names both.

// mayGoOn tells that an answer ended only because its device has no room for more, and could go on.
func mayGoOn(req llm.GenerateRequest, stats llm.Stats) bool {
	return stats.Finish == llm.FinishLength && (req.MaxTokens == 0 || stats.CompletionTokens < req.MaxTokens) && free(req)
}

// free tells that an answer may be written in two parts. With a grammar or a limit of thinking it may not: how far those have come is
// known to the device alone.
func free(req llm.GenerateRequest) bool { return req.Constraint == nil && req.Thought == nil }

// goOn has the rest of an answer written where the rules would send a prompt of that length. Where no device may take it, or none
// begins, the answer stays cut, and the record says why.
func (t *trip) goOn(ctx context.Context, model models.Model, job engine.Job, stats llm.Stats, reader *reader) (llm.Stats, error) {
	full := stats.PromptTokens + stats.CompletionTokens
	next, err := t.choose(ctx, model, full, nil)
	if err == nil && next.Device.ID() == job.Device.ID() {
		return stats, nil // the model's own limit
	}
	var so llm.Prompt
	held := strings.TrimRight(stats.Held, "\uFFFD") // the beginning of a character is written once more
	if err == nil {
		so, err = t.d.prepare(ctx, llm.PrepareRequest{Model: t.model, Prompt: reader.raw.String() + held, Context: t.prompt.Tokens})
	}
	if err != nil {
		t.stays(job.Device, full, err)
		return stats, nil
	}
	from, begun, said := job.Device, stats, false
	var times engine.Times
	job.Device, job.Times, job.Generate.Tokens, job.Generate.Held = next.Device, &times, so.Tokens, held
	if job.Generate.MaxTokens > 0 {
		job.Generate.MaxTokens -= stats.CompletionTokens
	}
	hear := job.OnDelta
	job.OnDelta = func(d llm.Delta) error {
		if !said {
			said = true
			t.goesOn(from, next, begun)
		}
		d.Tokens += stats.CompletionTokens
		return hear(d)
	}
	rest, err := t.d.engine.Run(ctx, job)
	t.times = sum(t.times, times)
	stats.Prefill += rest.Prefill
	stats.Decode += rest.Decode
	stats.CompletionTokens += rest.CompletionTokens
	if err != nil && !said && failed(err) && ctx.Err() == nil {
		t.stays(from, full, err)
		return stats, nil
	}
	if err == nil && !said {
		t.goesOn(from, next, begun) // which found that nothing is missing
	}
	stats.Finish, stats.StopString, stats.Held, stats.Cancel = rest.Finish, rest.StopString, rest.Held, rest.Cancel
	return stats, err
}

// goesOn writes into the record where the answer goes on.
func (t *trip) goesOn(from llm.Device, next router.Decision, stats llm.Stats) {
	t.room = 0 // it ended nothing
	t.set(func(r *llm.Record) {
		r.Continued = &llm.Continuation{Device: next.Device.Label(), EndpointID: next.Device.ID(), After: stats.CompletionTokens}
		r.RouteReason = fmt.Sprintf("%s; %s was full after %d tokens of the answer, and %s went on with it.",
			strings.TrimSuffix(r.RouteReason, "."), router.The(from), stats.CompletionTokens, router.The(next.Device))
	})
}

// stays writes into the record why the answer does not go on.
func (t *trip) stays(device llm.Device, full int, err error) {
	why := strings.TrimSuffix(lost(err), ".")
	if llm.CodeOf(err) == llm.CodeContextLength {
		why = "no device that may take the request has room for more"
	}
	t.set(func(r *llm.Record) {
		r.RouteReason = fmt.Sprintf("%s; the answer ends where %s was full, with %d tokens of prompt and answer: %s.",
			strings.TrimSuffix(r.RouteReason, "."), router.The(device), full, why)
	})
}

// sum adds up what was used on two devices, or in two tries, that both came to run. What was not measured of one of them is not known
// of both.
func sum(a, b engine.Times) engine.Times {
	all := engine.Times{Queue: a.Queue + b.Queue, Load: a.Load + b.Load}
	if a.Joules != nil && b.Joules != nil {
		joules := *a.Joules + *b.Joules
		all.Joules = &joules
	}
	return all
}
