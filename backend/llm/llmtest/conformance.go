package llmtest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"signalbox/backend/llm"
)

// Subject is a Runner under test, with what it can be asked.
type Subject struct {
	Runner llm.Runner
	Chat   llm.LoadRequest // a chat model
	Embed  llm.LoadRequest // an embedding model; its name empty: this device runs none
	// Short is a prompt with an answer of at least 8 tokens; Long one whose answer is much longer. Zero: those of the fake.
	Short, Long string
	// OneAtATime: the device works on one answer until it is finished, so an unread one holds up the next.
	OneAtATime bool
	// Slow multiplies the time that calls may take: 1.
	Slow int
}

func (s Subject) withDefaults() Subject {
	if s.Short == "" {
		s.Short = "Say something."
	}
	if s.Long == "" {
		s.Long = "[[tokens 2000]]"
	}
	s.Slow = max(s.Slow, 1)
	return s
}

// Run checks that a Runner keeps the promises of llm.Runner. open makes a new one for each test and cleans up by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for name, check := range map[string]func(*testing.T, Subject){
		"DevicesAreListedWithoutAModel":       devicesAreListed,
		"LoadReportsPhasesAndLimits":          loadReportsPhases,
		"LoadOfALoadedModelIsFree":            loadTwice,
		"UnloadOfAnUnknownModelIsNoError":     unloadUnknown,
		"GenerateWithoutLoadIsAnError":        generateWithoutLoad,
		"PrepareNeedsNoModel":                 prepareNeedsNoModel,
		"PrepareRefusesWhatIsTooLong":         prepareRefusesTooLong,
		"PrepareRefusesNUL":                   prepareRefusesNUL,
		"GenerateCountsItsTokens":             generateCounts,
		"GenerateIsRepeatable":                generateIsRepeatable,
		"GenerateEndsAtMaxTokens":             generateEndsAtMaxTokens,
		"GenerateEndsAtAStopString":           generateEndsAtStop,
		"GenerateReportsLogprobs":             generateReportsLogprobs,
		"GenerateRefusesAPromptAboveTheLimit": generateRefusesTooLong,
		"CancelEndsGenerateWithTrueStats":     cancelEndsGenerate,
		"EmitsErrorEndsGenerate":              emitsErrorEndsGenerate,
		"OneThatLeavesDisturbsNobody":         oneThatLeaves,
		"ASlowReaderHoldsUpNobody":            slowReader,
		"EmbedKeepsOrderAndLength":            embedKeepsOrder,
		"EmbedTruncatesOnlyWhenAsked":         embedTruncates,
		"EmbedKeepsDimensions":                embedKeepsDimensions,
		"CloseTwice":                          closeTwice,
	} {
		t.Run(name, func(t *testing.T) { check(t, open(t).withDefaults()) })
	}
}

func within(t *testing.T, s Subject, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d*time.Duration(s.Slow))
	t.Cleanup(cancel)
	return ctx
}

func ok(t *testing.T, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func code(t *testing.T, err error, want llm.Code, what string) {
	t.Helper()
	if err == nil || llm.CodeOf(err) != want {
		t.Fatalf("%s: got the error %v (%s), want code %s", what, err, llm.CodeOf(err), want)
	}
}

func devicesAreListed(t *testing.T, s Subject) {
	devices, err := s.Runner.Devices(within(t, s, 20*time.Second))
	ok(t, err, "Devices")
	if len(devices) == 0 || devices[0].Class != llm.CPU && devices[0].Class != llm.Mock {
		t.Fatalf("Devices: %v, want the CPU first", devices)
	}
	for _, d := range devices {
		if d.Name == "" || d.Runtime == "" {
			t.Errorf("device without a name: %+v", d)
		}
	}
}

func load(t *testing.T, s Subject, req llm.LoadRequest) llm.Loaded {
	t.Helper()
	loaded, err := s.Runner.Load(within(t, s, 20*time.Second), req, nil)
	ok(t, err, "Load "+req.Model.Name)
	return loaded
}

func prompt(t *testing.T, s Subject, text string) []int32 {
	t.Helper()
	p, err := s.Runner.Prepare(within(t, s, 20*time.Second), llm.PrepareRequest{
		Model: s.Chat.Model, Messages: []llm.Message{{Role: "user", Content: text}},
	})
	ok(t, err, "Prepare")
	return p.Tokens
}

func greedy() llm.Sampling {
	sampling := llm.DefaultSampling()
	sampling.Temperature = 0
	return sampling
}

// answer is what one Generate came to.
type answer struct {
	text   string
	deltas []llm.Delta
	stats  llm.Stats
	err    error
}

func generate(ctx context.Context, s Subject, req llm.GenerateRequest, emit func(llm.Delta) error) answer {
	req.Model, req.Sampling = s.Chat.Model, greedy()
	var a answer
	a.stats, a.err = s.Runner.Generate(ctx, req, func(d llm.Delta) error {
		a.text += d.Text
		a.deltas = append(a.deltas, d)
		if emit != nil {
			return emit(d)
		}
		return nil
	})
	return a
}

func loadReportsPhases(t *testing.T, s Subject) {
	var phases []string
	loaded, err := s.Runner.Load(within(t, s, 20*time.Second), s.Chat, func(p llm.Phase) { phases = append(phases, p.Name) })
	ok(t, err, "Load")
	if len(phases) == 0 || slices.Contains(phases, "") {
		t.Errorf("phases %q, want names", phases)
	}
	if loaded.ContextLimit <= 0 || loaded.PromptLimit <= 0 || loaded.PromptLimit > loaded.ContextLimit || loaded.LoadTime <= 0 {
		t.Errorf("%+v, want limits and a load time", loaded)
	}
}

func loadTwice(t *testing.T, s Subject) {
	first := load(t, s, s.Chat)
	second := load(t, s, s.Chat)
	if second.LoadTime != 0 || second.ContextLimit != first.ContextLimit || second.PromptLimit != first.PromptLimit {
		t.Errorf("second load %+v, want the first %+v in no time", second, first)
	}
}

func unloadUnknown(t *testing.T, s Subject) {
	ok(t, s.Runner.Unload(within(t, s, 20*time.Second), "nobody:1b"), "Unload")
}

func generateWithoutLoad(t *testing.T, s Subject) {
	tokens := prompt(t, s, s.Short)
	check := func(what string) {
		a := generate(within(t, s, 20*time.Second), s, llm.GenerateRequest{Tokens: tokens, MaxTokens: 2}, nil)
		if _, is := errors.AsType[*llm.Error](a.err); !is || len(a.deltas) > 0 {
			t.Errorf("%s: %v after %d deltas, want an *llm.Error at once", what, a.err, len(a.deltas))
		}
	}
	check("never loaded")
	load(t, s, s.Chat)
	ok(t, s.Runner.Unload(within(t, s, 20*time.Second), s.Chat.Model.Name), "Unload")
	check("unloaded")
}

func prepareNeedsNoModel(t *testing.T, s Subject) {
	short, again, long := prompt(t, s, "one"), prompt(t, s, "one"), prompt(t, s, "one two three four five six")
	if len(short) == 0 || !slices.Equal(short, again) || len(long) <= len(short) {
		t.Errorf("counts %d, %d and %d: want the first two equal and the last larger", len(short), len(again), len(long))
	}
	raw, err := s.Runner.Prepare(within(t, s, 20*time.Second), llm.PrepareRequest{Model: s.Chat.Model, Prompt: "one"})
	ok(t, err, "Prepare a raw prompt")
	if len(raw.Tokens) == 0 || len(raw.Tokens) >= len(short) {
		t.Errorf("a raw prompt has %d tokens, the rendered one %d: want fewer", len(raw.Tokens), len(short))
	}
}

func prepareRefusesTooLong(t *testing.T, s Subject) {
	ctx := within(t, s, 20*time.Second)
	for _, words := range []int{100, 100_000} {
		_, err := s.Runner.Prepare(ctx, llm.PrepareRequest{
			Model: s.Chat.Model, Messages: []llm.Message{{Role: "user", Content: strings.Repeat("word ", words)}}, Limit: 50,
		})
		code(t, err, llm.CodeContextLength, "Prepare above the limit")
		if e, _ := errors.AsType[*llm.Error](err); e.Limit != 50 || e.Value <= 50 {
			t.Errorf("the error names %d > %d, want the count and 50", e.Value, e.Limit)
		}
	}
}

func prepareRefusesNUL(t *testing.T, s Subject) {
	_, err := s.Runner.Prepare(within(t, s, 20*time.Second), llm.PrepareRequest{
		Model: s.Chat.Model, Messages: []llm.Message{{Role: "user", Content: "visible\x00hidden"}},
	})
	code(t, err, llm.CodeInvalid, "Prepare with a NUL")
}

func generateCounts(t *testing.T, s Subject) {
	load(t, s, s.Chat)
	tokens := prompt(t, s, s.Short)
	a := generate(within(t, s, 60*time.Second), s, llm.GenerateRequest{Tokens: tokens, MaxTokens: 24}, nil)
	ok(t, a.err, "Generate")
	last := 0
	for _, d := range a.deltas {
		if !utf8.ValidString(d.Text) {
			t.Errorf("delta %q is no UTF-8", d.Text)
		}
		if d.Tokens < last {
			t.Errorf("the token count went back from %d to %d", last, d.Tokens)
		}
		last = d.Tokens
	}
	if a.text == "" || a.stats.PromptTokens != len(tokens) || a.stats.CompletionTokens < last || a.stats.CompletionTokens == 0 || a.stats.Finish == "" {
		t.Errorf("%q with %+v; the last delta said %d tokens", a.text, a.stats, last)
	}
}

func generateIsRepeatable(t *testing.T, s Subject) {
	load(t, s, s.Chat)
	req := llm.GenerateRequest{Tokens: prompt(t, s, s.Short), MaxTokens: 8}
	first := generate(within(t, s, 60*time.Second), s, req, nil)
	ok(t, first.err, "Generate")
	second := generate(within(t, s, 60*time.Second), s, req, nil)
	ok(t, second.err, "Generate again")
	if first.text != second.text {
		t.Errorf("two greedy answers differ: %q and %q", first.text, second.text)
	}
}

func generateEndsAtMaxTokens(t *testing.T, s Subject) {
	load(t, s, s.Chat)
	a := generate(within(t, s, 60*time.Second), s, llm.GenerateRequest{Tokens: prompt(t, s, s.Short), MaxTokens: 3, IgnoreEOS: true}, nil)
	ok(t, a.err, "Generate")
	if a.stats.CompletionTokens != 3 || a.stats.Finish != llm.FinishLength {
		t.Errorf("%+v, want 3 tokens and %q", a.stats, llm.FinishLength)
	}
}

func generateEndsAtStop(t *testing.T, s Subject) {
	load(t, s, s.Chat)
	req := llm.GenerateRequest{Tokens: prompt(t, s, s.Short), MaxTokens: 8}
	free := generate(within(t, s, 60*time.Second), s, req, nil)
	ok(t, free.err, "Generate")
	runes := []rune(free.text)
	if len(runes) < 6 {
		t.Fatalf("%q is too short to stop in", free.text)
	}
	stop := string(runes[len(runes)/2 : len(runes)/2+2]) // likely across two tokens, surely inside the answer
	req.Stop = []string{"never said", stop}
	a := generate(within(t, s, 60*time.Second), s, req, nil)
	ok(t, a.err, "Generate with a stop string")
	before, _, _ := strings.Cut(free.text, stop)
	if a.text != before || a.stats.Finish != llm.FinishStop || a.stats.StopString != stop {
		t.Errorf("stop at %q: %q with %+v, want %q", stop, a.text, a.stats, before)
	}
}

func generateReportsLogprobs(t *testing.T, s Subject) {
	load(t, s, s.Chat)
	a := generate(within(t, s, 60*time.Second), s, llm.GenerateRequest{
		Tokens: prompt(t, s, s.Short), MaxTokens: 4, IgnoreEOS: true, Logprobs: true, TopLogprobs: 2,
	}, nil)
	ok(t, a.err, "Generate")
	n := 0
	for _, d := range a.deltas {
		for _, p := range d.Logprobs {
			n++
			if p.Logprob > 0 || math.IsNaN(p.Logprob) || len(p.Top) != 2 || len(p.Bytes) == 0 {
				t.Errorf("logprob %+v", p)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d logprobs for 4 tokens", n)
	}
}

func generateRefusesTooLong(t *testing.T, s Subject) {
	loaded := load(t, s, s.Chat)
	a := generate(within(t, s, 60*time.Second), s, llm.GenerateRequest{Tokens: slices.Repeat(prompt(t, s, "word")[:1], loaded.PromptLimit+1)}, nil)
	code(t, a.err, llm.CodeContextLength, "Generate above the prompt limit")
	if len(a.deltas) > 0 {
		t.Error("it said something all the same")
	}
}

func cancelEndsGenerate(t *testing.T, s Subject) {
	load(t, s, s.Chat)
	tokens := prompt(t, s, s.Long)
	ctx, cancel := context.WithCancel(within(t, s, 60*time.Second))
	defer cancel()
	a := generate(ctx, s, llm.GenerateRequest{Tokens: tokens}, func(d llm.Delta) error {
		if d.Tokens >= 2 {
			cancel()
		}
		return nil
	})
	if !errors.Is(a.err, context.Canceled) {
		t.Fatalf("Generate ended with %v, want context.Canceled", a.err)
	}
	if a.stats.CompletionTokens < 2 || a.stats.PromptTokens != len(tokens) {
		t.Errorf("stats of a cancelled answer: %+v", a.stats)
	}
	after := generate(within(t, s, 60*time.Second), s, llm.GenerateRequest{Tokens: prompt(t, s, s.Short), MaxTokens: 4}, nil)
	ok(t, after.err, "Generate after a cancelled one")
}

func emitsErrorEndsGenerate(t *testing.T, s Subject) {
	load(t, s, s.Chat)
	enough := errors.New("enough")
	calls := 0
	a := generate(within(t, s, 60*time.Second), s, llm.GenerateRequest{Tokens: prompt(t, s, s.Long)}, func(llm.Delta) error {
		calls++
		return enough
	})
	if !errors.Is(a.err, enough) || calls != 1 {
		t.Errorf("Generate ended with %v after %d calls of emit, want emit's error after one", a.err, calls)
	}
}

func oneThatLeaves(t *testing.T, s Subject) {
	load(t, s, s.Chat)
	req := llm.GenerateRequest{Tokens: prompt(t, s, s.Short), MaxTokens: 8}
	alone := generate(within(t, s, 60*time.Second), s, req, nil)
	ok(t, alone.err, "Generate")
	long := prompt(t, s, s.Long)
	for range 5 {
		var both sync.WaitGroup
		ctx, cancel := context.WithCancel(within(t, s, 60*time.Second))
		both.Go(func() {
			generate(ctx, s, llm.GenerateRequest{Tokens: long}, func(llm.Delta) error { cancel(); return nil })
		})
		both.Go(func() {
			stays := generate(within(t, s, 60*time.Second), s, req, nil)
			if stays.err != nil || stays.text != alone.text {
				t.Errorf("the one that stayed: %q, %v; want %q", stays.text, stays.err, alone.text)
			}
		})
		both.Wait()
		cancel()
	}
}

func slowReader(t *testing.T, s Subject) {
	if s.OneAtATime {
		return
	}
	load(t, s, s.Chat)
	tokens, long := prompt(t, s, s.Short), prompt(t, s, s.Long)
	reading, resume := make(chan struct{}), make(chan struct{})
	var slow sync.WaitGroup
	slow.Go(func() {
		first := true
		generate(within(t, s, 60*time.Second), s, llm.GenerateRequest{Tokens: long, MaxTokens: 400}, func(llm.Delta) error {
			if first {
				first = false
				close(reading)
				<-resume
			}
			return nil
		})
	})
	<-reading
	a := generate(within(t, s, 60*time.Second), s, llm.GenerateRequest{Tokens: tokens, MaxTokens: 8}, nil)
	close(resume)
	slow.Wait()
	ok(t, a.err, "Generate beside a reader that stands still")
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

func embed(t *testing.T, s Subject, req llm.EmbedRequest) llm.Embedded {
	t.Helper()
	req.Model = s.Embed.Model
	embedded, err := s.Runner.Embed(within(t, s, 60*time.Second), req)
	ok(t, err, "Embed")
	if len(embedded.Vectors) != len(req.Inputs) {
		t.Fatalf("%d vectors for %d inputs", len(embedded.Vectors), len(req.Inputs))
	}
	return embedded
}

func near(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-3 {
			return false
		}
	}
	return true
}

func embedKeepsOrder(t *testing.T, s Subject) {
	if s.Embed.Model.Name == "" {
		return
	}
	load(t, s, s.Embed)
	inputs := []string{"a signal box", "the weather in Oslo", "a signal box", "漢字 and 🌍"}
	all := embed(t, s, llm.EmbedRequest{Inputs: inputs})
	for i, v := range all.Vectors {
		if math.Abs(length(v)-1) > 1e-3 {
			t.Errorf("vector %d has length %f", i, length(v))
		}
		if one := embed(t, s, llm.EmbedRequest{Inputs: inputs[i : i+1]}); !near(one.Vectors[0], v) {
			t.Errorf("vector %d differs from the one of its input alone", i)
		}
	}
	if !near(all.Vectors[0], all.Vectors[2]) || near(all.Vectors[0], all.Vectors[1]) {
		t.Error("equal inputs must have equal vectors, others not")
	}
	if all.Tokens < len(inputs) || len(all.Truncated) > 0 {
		t.Errorf("%d tokens, truncated %v", all.Tokens, all.Truncated)
	}
}

func embedTruncates(t *testing.T, s Subject) {
	if s.Embed.Model.Name == "" {
		return
	}
	load(t, s, s.Embed)
	inputs := []string{"short", strings.Repeat("word ", 20_000)}
	_, err := s.Runner.Embed(within(t, s, 60*time.Second), llm.EmbedRequest{Model: s.Embed.Model, Inputs: inputs})
	code(t, err, llm.CodeContextLength, "Embed what is too long")
	cut := embed(t, s, llm.EmbedRequest{Inputs: inputs, Truncate: true})
	if !slices.Equal(cut.Truncated, []int{1}) {
		t.Errorf("truncated %v, want [1]", cut.Truncated)
	}
}

func embedKeepsDimensions(t *testing.T, s Subject) {
	if s.Embed.Model.Name == "" {
		return
	}
	load(t, s, s.Embed)
	v := embed(t, s, llm.EmbedRequest{Inputs: []string{"a signal box"}, Dimensions: 16}).Vectors[0]
	if len(v) != 16 || math.Abs(length(v)-1) > 1e-3 {
		t.Errorf("%d dimensions of length %f, want 16 of length 1", len(v), length(v))
	}
}

func closeTwice(t *testing.T, s Subject) {
	ok(t, s.Runner.Close(), "Close")
	ok(t, s.Runner.Close(), "Close again")
	if _, err := s.Runner.Devices(within(t, s, 20*time.Second)); err == nil {
		t.Error("Devices after Close, without an error")
	}
}
