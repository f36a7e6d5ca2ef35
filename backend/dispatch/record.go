package dispatch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
)

func (t *trip) set(change func(*llm.Record)) {
	t.mu.Lock()
	change(&t.record)
	record := t.record
	t.mu.Unlock()
	t.live.Update(func(e *journal.Entry) { e.Record = record })
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
	if busy := (stats.Prefill + stats.Decode + t.lost).Seconds(); busy > 0 {
		r.CostEstimate.DeviceSeconds = &busy
	}
	r.CostEstimate.EnergyJoules = t.times.Joules
	for _, field := range t.cut(stats, err) {
		if !slices.Contains(r.Clamped, field) {
			r.Clamped = append(slices.Clip(r.Clamped), field)
		}
	}
}

// cut names what ended the answer early, or would have, by the caller's names.
func (t *trip) cut(stats llm.Stats, err error) (names []string) {
	req, fields := t.call.Request, fieldsOf(t.call.Route)
	full := err == nil && stats.Finish == llm.FinishLength && stats.PromptTokens+stats.CompletionTokens >= req.ContextLimit
	window := req.ContextLimit > 0 && full && stats.CompletionTokens != req.MaxTokens
	if t.shortened(stats, err) && !(window && req.MaxTokens == 0) {
		names = append(names, cmp.Or(req.LimitName, fields.answer))
	}
	if window {
		names = append(names, fields.window)
	}
	return names
}

// shortened tells that the device had less room for the answer than the request allows, or that its room ended the answer.
func (t *trip) shortened(stats llm.Stats, err error) bool {
	asked := t.call.Request.MaxTokens
	ended := err == nil && stats.Finish == llm.FinishLength && (asked == 0 || stats.CompletionTokens < asked)
	return ended || t.room > 0 && asked > t.room
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

func ms(d time.Duration) *float64 {
	v := float64(d.Microseconds()) / 1000
	return &v
}
