package generate

import (
	"context"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/generate/sample"
)

// Generate implements llm.Runner.
func (r *Runner) Generate(ctx context.Context, req llm.GenerateRequest, emit func(llm.Delta) error) (llm.Stats, error) {
	c, _, done, err := r.chats.get(ctx, req.Model.Name, nil)
	if err != nil {
		return llm.Stats{PromptTokens: len(req.Tokens)}, notLoaded(err, req.Model.Name, r.options.Device)
	}
	defer done()
	a, err := c.newAnswer(req, emit)
	if err != nil {
		return llm.Stats{PromptTokens: len(req.Tokens)}, err
	}
	r.wear.begin()
	defer r.wear.end()
	wish, forget := watch(ctx)
	defer forget()
	defer a.release()
	if err = c.hold(ctx, a); err == nil {
		err = r.run(ctx, c, a)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
		a.stats.Cancel = max(time.Since(<-wish), time.Microsecond)
	}
	r.tidy(c)
	a.stats.Memory = r.memory.charge(c.name, c.least())
	return a.stats, err
}

// tidy gives memory of the cache back that is of no use any more, unless the device is at work: then the next answer does.
func (r *Runner) tidy(c *chat) {
	if c.pages == nil || !r.turn.tryTake() {
		return
	}
	defer r.turn.give()
	if err := c.pages.shrink(); err != nil {
		r.options.Log.Warn("memory of the KV cache is not given back", "model", c.name, "error", err) // what it holds is in order
	}
}

func notLoaded(err error, model, device string) error {
	if err == errNotThere {
		return llm.Errorf(llm.CodeUnavailable, "%s is not loaded on %s", model, device)
	}
	return loadError(err, model, device)
}

// watch notes when ctx is done, until forget is called.
func watch(ctx context.Context) (wish <-chan time.Time, forget func() bool) {
	noted := make(chan time.Time, 1)
	return noted, context.AfterFunc(ctx, func() { noted <- time.Now() })
}

// run computes the answer in the cheapest slot.
func (r *Runner) run(ctx context.Context, c *chat, a *answer) error {
	s, keep, err := r.slot(ctx, c, a.request)
	if err != nil {
		return err
	}
	a.stats.CachedTokens = keep
	err = r.answer(ctx, c, s, a)
	r.putBack(c, s, a)
	return err
}

// slot returns the slot for a request and how many of its prompt's tokens are in it already.
func (r *Runner) slot(ctx context.Context, c *chat, req llm.GenerateRequest) (s *slot, keep int, err error) {
	if c.alone != nil {
		s, err := c.only(ctx, req)
		return s, 0, err
	}
	// What was computed in another way differs in the last digits: a seed promises the same answer again.
	if !seeded(req) {
		s, keep = c.slots.find(req.Owner, req.Tokens, func(s *slot, keep int) bool { return c.goOn(s, keep, len(req.Tokens)) })
	}
	if s != nil {
		return s, keep, nil
	}
	s, err = c.newSlot()
	if err != nil {
		return nil, 0, engineError(err, "begin an answer of %s", c.name)
	}
	return s, 0, nil
}

func seeded(req llm.GenerateRequest) bool {
	return req.Sampling.Seed != nil && *req.Sampling.Seed != -1
}

// only returns the one slot of a model on the NPU, for an answer of its own. There the plugin itself reuses prefixes, and does not tell
// how much: no cached tokens are reported.
func (c *chat) only(ctx context.Context, req llm.GenerateRequest) (*slot, error) {
	if err := c.alone.take(ctx); err != nil {
		return nil, err
	}
	// The plugin takes a single token for the next one of the conversation before, whatever its position. And its prefixes
	// must not be shared between owners.
	if s := c.single; s != nil && (len(req.Tokens) == 1 || s.owner != req.Owner) {
		s.close()
		c.single = nil
	}
	if c.single == nil {
		s, err := c.newSlot()
		if err != nil {
			c.alone.give()
			return nil, engineError(err, "begin an answer of %s", c.name)
		}
		c.single = s
	}
	c.single.owner = req.Owner
	c.single.forget()
	return c.single, nil
}

// goOn tells whether to go on in slot s from its first keep tokens, rather than to begin again.
func (c *chat) goOn(s *slot, keep, total int) bool {
	if c.pages != nil {
		return true // a token on top of a cache costs no more than one of a new prompt, and there are fewer
	}
	dead := s.cached() - keep
	if dead > 0 && !c.trimmable {
		return false
	}
	return c.pace.goOn(total-keep, s.cached(), dead, total)
}

// putBack keeps the slot for the next turn, or closes it when its cache is in doubt.
func (r *Runner) putBack(c *chat, s *slot, a *answer) {
	switch {
	case c.alone != nil:
		if a.failed {
			c.single = nil
			s.close()
		}
		c.alone.give()
	case a.failed:
		s.close()
	default:
		c.slots.keep(s, a.request.Owner)
	}
}

// answer is the loop: the prompt, then token after token.
func (r *Runner) answer(ctx context.Context, c *chat, s *slot, a *answer) error {
	logits, err := r.prefill(ctx, c, s, a)
	if err != nil {
		return err
	}
	for {
		if complete, err := a.limit(); err != nil {
			return err
		} else if complete {
			return a.end(llm.FinishStop)
		}
		id, forced := a.thought.next()
		if !forced {
			id = a.sampler.Pick(logits, a.history)
		}
		if id < 0 {
			a.failed = true
			return llm.Errorf(llm.CodeEngine, "%s on %s gave no usable probabilities", c.name, r.options.Device)
		}
		a.sampled()
		if err := a.keep(id); err != nil {
			return err
		}
		ended, err := a.take(c, id, logits)
		if ended || err != nil {
			return err
		}
		if logits, err = r.infer(ctx, c, s, a, []int32{id}); err != nil {
			return err
		}
	}
}

// prefill computes the part of the prompt that is not in the slot.
func (r *Runner) prefill(ctx context.Context, c *chat, s *slot, a *answer) (logits []float32, err error) {
	rest := a.request.Tokens[len(s.tokens):]
	for len(rest) > 0 {
		n := c.chunk(len(rest), seeded(a.request))
		if logits, err = r.infer(ctx, c, s, a, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return logits, nil
}

// pagedChunk is how many tokens of a prompt one inference computes where attention is paged: no slower than all at once (measured with
// 2,048), and after each of them others get their turn and a cancel takes effect.
const pagedChunk = 512

// patience is how long one inference may take, for nothing else runs and nobody can cancel meanwhile.
const patience = 20 * time.Second

// chunk is how many of n prompt tokens to compute in the next inference. Where the cache is in states, several tokens on top of it are
// slow on the CPU (1,024 on top of 1,024 take seven times as long as the first ones), so there it is all up to the limit, and up to
// four times as many where that is seen to be quick. A seeded answer does not depend on what was seen.
func (c *chat) chunk(n int, seeded bool) int {
	if c.pages != nil {
		return min(n, pagedChunk, c.limits.chunk)
	}
	if n <= c.limits.chunk {
		return n
	}
	if most := 4 * c.limits.chunk; n <= most && (seeded || c.pace.prompt(n) < patience) {
		return n
	}
	return c.limits.chunk
}

// infer waits for the device and runs one inference.
func (r *Runner) infer(ctx context.Context, c *chat, s *slot, a *answer, tokens []int32) ([]float32, error) {
	if err := r.turn.take(ctx); err != nil {
		return nil, err
	}
	defer r.turn.give()
	started := time.Now()
	a.began(started)
	past := s.cached()
	logits, err := s.feed(c, tokens)
	if err != nil {
		a.failed = true
		return nil, engineError(err, "run %s on %s", c.name, r.options.Device)
	}
	c.pace.saw(len(tokens), past, time.Since(started))
	return logits, nil
}

// newAnswer checks a request against the model's limits.
func (c *chat) newAnswer(req llm.GenerateRequest, emit func(llm.Delta) error) (*answer, error) {
	n := len(req.Tokens)
	if n == 0 {
		return nil, llm.Errorf(llm.CodeInvalid, "the prompt is empty")
	}
	if n > c.limits.prompt {
		return nil, llm.PromptTooLong(n, c.limits.prompt)
	}
	for _, id := range req.Tokens {
		if id < 0 || int(id) >= c.vocab {
			return nil, llm.Errorf(llm.CodeInvalid, "token %d is not in the vocabulary of %s", id, c.name)
		}
	}
	room := c.limits.context - n
	if req.MaxTokens > 0 {
		room = min(room, req.MaxTokens)
	}
	a := newAnswerOf(req, room, sample.New(req.Sampling), emit)
	a.markers = c.tokenizer.markers(req.Markers)
	var err error
	a.thought, err = c.tokenizer.newThought(req.Thought)
	return a, err
}
