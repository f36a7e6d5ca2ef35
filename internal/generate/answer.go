package generate

import (
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/generate/constrain"
	"signalbox/internal/generate/sample"
	"signalbox/internal/generate/stop"
)

// answer is one answer while it is made.
type answer struct {
	request llm.GenerateRequest
	emit    func(llm.Delta) error
	sampler *sample.Sampler
	matcher *stop.Matcher
	thought *thought           // nil: no limit
	markers map[int32]bool     // special tokens that are text here
	held    *constrain.Matcher // nil: free
	history []int32            // prompt and answer
	room    int                // most tokens of the answer
	pending []llm.TokenLogprob
	failed  bool // the runtime failed: the slot's cache is in doubt

	stats       llm.Stats
	first, last time.Time // begin of its first turn; last token
}

func newAnswerOf(req llm.GenerateRequest, room int, sampler *sample.Sampler, emit func(llm.Delta) error) *answer {
	history := make([]int32, len(req.Tokens), len(req.Tokens)+min(room, 4096))
	copy(history, req.Tokens)
	matcher := stop.NewMatcher(req.Stop)
	matcher.Resume(req.Held)
	return &answer{
		request: req, emit: emit, sampler: sampler, matcher: matcher, history: history, room: room,
		stats: llm.Stats{PromptTokens: len(req.Tokens)},
	}
}

// began notes the first turn on the device.
func (a *answer) began(now time.Time) {
	if a.first.IsZero() {
		a.first = now
	}
}

// sampled counts a token and keeps the times.
func (a *answer) sampled() {
	now := time.Now()
	if a.stats.CompletionTokens == 0 {
		a.stats.Prefill = now.Sub(a.first)
		a.last = now
	}
	a.stats.Decode += now.Sub(a.last)
	a.last = now
	a.stats.CompletionTokens++
}

// take adds token id to the answer and emits what can be shown. It tells whether the answer has ended.
func (a *answer) take(c *chat, id int32, logits []float32) (ended bool, err error) {
	a.history = append(a.history, id)
	if c.ends[id] && !a.markers[id] && !a.request.IgnoreEOS {
		return true, a.end(llm.FinishStop)
	}
	if a.request.Logprobs {
		a.pending = append(a.pending, logprobs(c.tokenizer, logits, id, a.request.TopLogprobs))
	}
	shown := c.tokenizer.text(id)
	if a.markers[id] {
		shown = c.tokenizer.name(id)
	}
	a.thought.saw(shown)
	text, stopped := a.matcher.Push(shown)
	if err := a.show(text); err != nil {
		return true, err
	}
	switch {
	case stopped:
		a.stats.StopString = a.matcher.Which()
		return true, a.end(llm.FinishStop)
	case a.stats.CompletionTokens >= a.room:
		return true, a.end(llm.FinishLength)
	}
	return false, nil
}

// end shows what was held back, unless the answer may go on elsewhere.
func (a *answer) end(why llm.Finish) error {
	a.stats.Finish = why
	text := a.matcher.Flush()
	if why == llm.FinishLength {
		a.stats.Held, text = text, ""
	}
	if text == "" && len(a.pending) == 0 {
		return nil
	}
	return a.deliver(text)
}

// show emits text, together with the probabilities of all tokens since the last piece.
func (a *answer) show(text string) error {
	if text == "" {
		return nil
	}
	return a.deliver(text)
}

func (a *answer) deliver(text string) error {
	d := llm.Delta{Text: text, Tokens: a.stats.CompletionTokens, Logprobs: a.pending}
	a.pending = nil
	return a.emit(d)
}

// logprobs is what the model thought of the token it took and of the best others.
func logprobs(t *tokenizer, logits []float32, id int32, n int) llm.TokenLogprob {
	p, best := sample.Logprobs(logits, id, n)
	out := scored(t, id, p)
	for _, s := range best {
		out.Top = append(out.Top, scored(t, s.ID, s.Logprob))
	}
	return out
}

func scored(t *tokenizer, id int32, p float64) llm.TokenLogprob {
	text := t.name(id)
	bytes := make([]int, len(text))
	for i, b := range text {
		bytes[i] = int(b)
	}
	return llm.TokenLogprob{Token: string(text), Bytes: bytes, Logprob: p}
}
