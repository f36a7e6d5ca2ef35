package llmtest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"signalbox/backend/llm"
	"signalbox/backend/toolcall"
)

// Generate does what the last user message says; see parse.
func (f *Fake) Generate(ctx context.Context, req llm.GenerateRequest, emit func(llm.Delta) error) (llm.Stats, error) {
	if err := f.open(ctx); err != nil {
		return llm.Stats{}, err
	}
	load, err := f.ready(req.Model.Name, false)
	if err != nil {
		return llm.Stats{}, err
	}
	limit := f.options.PromptLimit
	if load.PromptLimit > 0 {
		limit = min(limit, load.PromptLimit)
	}
	if len(req.Tokens) > limit {
		return llm.Stats{}, llm.PromptTooLong(len(req.Tokens), limit)
	}
	g := &generation{fake: f, req: req, emit: emit, script: scriptOf(req)}
	err = g.prefill(ctx)
	if err == nil {
		err = g.decode(ctx)
	}
	return g.stats, err
}

// scriptOf is what to answer. A constraint is held by its smallest answer, unless the prompt says what to say.
func scriptOf(req llm.GenerateRequest) script {
	s := parse(read(req.Tokens))
	switch {
	case len(s.calls) > 0:
		s.text = toolcall.Written(req.Markers).Write(s.calls...)
	case req.Constraint != nil && !s.said:
		s.text = smallest(req.Constraint, s.text)
	}
	return s
}

// generation is one answer in the making.
type generation struct {
	fake   *Fake
	req    llm.GenerateRequest
	emit   func(llm.Delta) error
	script script
	stats  llm.Stats

	held     string             // generated, not emitted: part of a character, or of what may become a stop string
	logprobs []llm.TokenLogprob // of the tokens in held
}

func (g *generation) prefill(ctx context.Context) error {
	started := time.Now()
	if g.script.die == "start" {
		g.fake.die()
	}
	time.Sleep(g.script.prefill) // as a native call: nothing interrupts it
	if g.script.die == "prefill" {
		g.fake.die()
	}
	if g.script.garbage {
		fmt.Fprint(g.fake.options.Noise, "[WARNING] 12:00:00.000 [NPU] this is no frame\n")
	}
	if g.script.hang {
		<-g.fake.closed
	}
	if g.script.fail {
		return g.failure()
	}
	g.stats.PromptTokens = len(g.req.Tokens)
	g.stats.CachedTokens = g.fake.remember(g.req)
	g.stats.Prefill = time.Since(started)
	return ctx.Err()
}

func (g *generation) failure() error {
	return llm.Errorf(llm.CodeEngine, "generate with %s on %s: the fake was told to fail after %d tokens",
		g.req.Model.Name, g.fake.options.Device.Label(), g.stats.CompletionTokens)
}

// remember keeps the conversation for the next one of the same owner, and tells how much of it was there already.
func (f *Fake) remember(req llm.GenerateRequest) int {
	key := req.Owner + "\x00" + req.Model.Name
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for past := f.past[key]; n < len(past) && n < len(req.Tokens)-1 && past[n] == req.Tokens[n]; {
		n++
	}
	f.past[key] = slices.Clone(req.Tokens)
	return n
}

func (g *generation) decode(ctx context.Context) error {
	started := time.Now()
	defer func() { g.stats.Decode = time.Since(started) }()
	limit := g.fake.options.ContextLimit - len(g.req.Tokens)
	if g.req.MaxTokens > 0 {
		limit = min(limit, g.req.MaxTokens)
	}
	answer := g.script.answer()
	for {
		piece, more := answer(g.stats.CompletionTokens)
		if !more && !g.req.IgnoreEOS {
			g.stats.Finish = llm.FinishStop
			return g.flush()
		} else if !more {
			piece = "."
		}
		if g.stats.CompletionTokens >= limit {
			g.stats.Finish = llm.FinishLength
			return g.flush()
		}
		if err := g.token(ctx); err != nil {
			return err
		}
		if done, err := g.accept(piece); done || err != nil {
			return err
		}
	}
}

// token is the work for one more token, with the faults that were asked for.
func (g *generation) token(ctx context.Context) error {
	n := g.stats.CompletionTokens
	if g.script.die == "decode" && n >= g.script.dieAfter {
		g.fake.die()
	}
	if g.script.hangAfter >= 0 && n >= g.script.hangAfter {
		<-g.fake.closed
	}
	if g.script.failAfter >= 0 && n >= g.script.failAfter {
		return g.failure()
	}
	if g.script.panics && n >= 2 {
		panic("the fake was told to panic")
	}
	if g.script.floodMB > 0 && n == 1 {
		flood(g.script.floodMB)
	}
	return g.fake.pause(ctx, g.script.slow)
}

func flood(megabytes int) {
	line := strings.Repeat("a native library has much to say ", 31) + "\n" // 1 KiB
	for i := range megabytes << 10 {
		out := os.Stderr
		if i%2 == 1 {
			out = os.Stdout
		}
		out.WriteString(line)
	}
}

// accept adds one token's text and emits what is certain. done says that a stop string has ended the answer.
func (g *generation) accept(piece string) (done bool, err error) {
	g.stats.CompletionTokens++
	g.held += piece
	if g.req.Logprobs {
		g.logprobs = append(g.logprobs, logprob(piece, g.req.TopLogprobs))
	}
	for _, stop := range g.req.Stop {
		if before, _, found := strings.Cut(g.held, stop); found && stop != "" {
			g.stats.Finish, g.stats.StopString = llm.FinishStop, stop
			g.held = before
			return true, g.flush()
		}
	}
	ready, rest := whole(g.held)
	keep := partialStop(ready, g.req.Stop)
	ready, g.held = ready[:len(ready)-keep], ready[len(ready)-keep:]+rest
	if ready == "" {
		return false, nil
	}
	return false, g.send(ready)
}

// partialStop is how many bytes at the end of text may be the beginning of a stop string.
func partialStop(text string, stops []string) int {
	longest := 0
	for _, stop := range stops {
		for n := min(len(stop)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				longest = n
			}
		}
	}
	for longest > 0 && longest < len(text) && text[len(text)-longest]&0xC0 == 0x80 {
		longest++ // never inside a character
	}
	return longest
}

// flush emits what is left; half a character becomes the replacement character, as in any decoder.
func (g *generation) flush() error {
	text := strings.ToValidUTF8(g.held, "�")
	g.held = ""
	if text == "" && len(g.logprobs) == 0 {
		return nil
	}
	return g.send(text)
}

func (g *generation) send(text string) error {
	delta := llm.Delta{Text: text, Tokens: g.stats.CompletionTokens, Logprobs: g.logprobs}
	g.logprobs = nil
	return g.emit(delta)
}

func logprob(piece string, top int) llm.TokenLogprob {
	entry := func(text string, p float64) llm.TokenLogprob {
		bytes := make([]int, len(text))
		for i := range len(text) {
			bytes[i] = int(text[i])
		}
		return llm.TokenLogprob{Token: strings.ToValidUTF8(text, "�"), Bytes: bytes, Logprob: p}
	}
	chosen := entry(piece, -0.1)
	for i := range top {
		chosen.Top = append(chosen.Top, entry(piece[:len(piece)-min(i, len(piece)-1)], -0.1-float64(i)))
	}
	return chosen
}
