// Package llmtest has a fake engine, and the tests that every llm.Runner passes.
//
// The fake is part of the program (`signalbox serve --engine fake`), so this package imports no test library.
package llmtest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/backend/llm"
)

// Options shape a Fake. A zero field stands for its default.
type Options struct {
	Device       llm.Device    // what it stands for: mock:0
	Devices      []llm.Device  // what it lists: its own
	ContextLimit int           // 8192
	PromptLimit  int           // ContextLimit - 1
	SlowLoad     time.Duration // what fake:slow-load takes: 5 s
	Die          func()        // ends the process: by default as a native crash does
	Noise        io.Writer     // where [[garbage]] goes: the frame stream, or by default stdout
}

// MockDevice is the fake's device with an index.
func MockDevice(index int) llm.Device {
	return llm.Device{Class: llm.Mock, Index: index, Name: "Fake engine: no model runs", Runtime: fmt.Sprintf("mock.%d", index)}
}

// Fake is an llm.Runner that needs no model. It answers Canned, or what the prompt tells it to (see parse), and fails on
// demand. The model names fake:die-load, fake:fail-load and fake:slow-load (fake:slow-load-90s) do what they say. It takes no
// time unless it is told to.
type Fake struct {
	options Options
	closed  chan struct{}
	once    sync.Once

	mu     sync.Mutex
	loaded map[string]llm.LoadRequest // guarded by mu
	past   map[string][]int32         // guarded by mu; last conversation per owner and model: what CachedTokens tells
}

var _ llm.Runner = (*Fake)(nil)

// NewFake touches nothing.
func NewFake(options Options) *Fake {
	if options.Device.Class == "" {
		options.Device = MockDevice(0)
	}
	if options.Devices == nil {
		options.Devices = []llm.Device{options.Device}
	}
	if options.ContextLimit == 0 {
		options.ContextLimit = 8192
	}
	if options.PromptLimit == 0 {
		options.PromptLimit = options.ContextLimit - 1
	}
	if options.SlowLoad == 0 {
		options.SlowLoad = 5 * time.Second
	}
	if options.Die == nil {
		options.Die = Crash
	}
	if options.Noise == nil {
		options.Noise = os.Stdout
	}
	return &Fake{options: options, closed: make(chan struct{}), loaded: map[string]llm.LoadRequest{}, past: map[string][]int32{}}
}

func (f *Fake) open(ctx context.Context) error {
	select {
	case <-f.closed:
		return llm.Errorf(llm.CodeUnavailable, "the fake engine is closed")
	default:
		return ctx.Err()
	}
}

// Devices lists Options.Devices.
func (f *Fake) Devices(ctx context.Context) ([]llm.Device, error) {
	return slices.Clone(f.options.Devices), f.open(ctx)
}

// Load keeps the name. It reports the phases that a real load has.
func (f *Fake) Load(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (llm.Loaded, error) {
	if err := f.open(ctx); err != nil {
		return llm.Loaded{}, err
	}
	loaded := llm.Loaded{Bytes: 1 << 20, ContextLimit: f.options.ContextLimit, PromptLimit: f.options.PromptLimit}
	if f.options.Device.Class == llm.NPU && req.PromptLimit > 0 && req.PromptLimit < loaded.PromptLimit {
		loaded.PromptLimit = req.PromptLimit
	}
	f.mu.Lock()
	_, known := f.loaded[req.Model.Name]
	f.mu.Unlock()
	if known {
		return loaded, nil
	}
	started := time.Now()
	name := req.Model.Name
	for _, phase := range []string{"reading", "compiling for " + f.options.Device.Label(), "warming up"} {
		if progress != nil {
			progress(llm.Phase{Name: phase})
		}
		if slow, ok := strings.CutPrefix(name, "fake:slow-load"); ok {
			if err := f.pause(ctx, f.slowLoad(slow)/3); err != nil {
				return llm.Loaded{}, err
			}
		}
		if strings.HasPrefix(phase, "compiling") && strings.HasPrefix(name, "fake:die-load") {
			f.die()
		}
		if strings.HasPrefix(phase, "compiling") && strings.HasPrefix(name, "fake:fail-load") {
			return llm.Loaded{}, llm.Errorf(llm.CodeEngine, "load %s on %s: the fake was told to refuse it", name, f.options.Device.Label())
		}
		if err := ctx.Err(); err != nil {
			return llm.Loaded{}, err
		}
	}
	f.mu.Lock()
	f.loaded[name] = req
	f.mu.Unlock()
	loaded.LoadTime = max(time.Since(started), 1)
	return loaded, nil
}

func (f *Fake) slowLoad(suffix string) time.Duration {
	if d, err := time.ParseDuration(strings.TrimPrefix(suffix, "-")); err == nil {
		return d
	}
	return f.options.SlowLoad
}

// die does not come back: where the process lives on (in tests without one), the call is as stuck as a dead one.
func (f *Fake) die() {
	f.options.Die()
	<-f.closed
}

func (f *Fake) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-f.closed:
		return llm.Errorf(llm.CodeUnavailable, "the fake engine is closed")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unload forgets the name.
func (f *Fake) Unload(ctx context.Context, model string) error {
	f.mu.Lock()
	delete(f.loaded, model)
	f.mu.Unlock()
	return f.open(ctx)
}

// Prepare counts one token for up to three bytes of a word; see tokenize.
func (f *Fake) Prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	if err := f.open(ctx); err != nil {
		return llm.Prompt{}, err
	}
	texts := []string{req.Prompt, req.Suffix, string(req.Tools)}
	for _, m := range req.Messages {
		texts = append(texts, m.Role, m.Content)
	}
	if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "\x00") }) {
		return llm.Prompt{}, llm.Errorf(llm.CodeInvalid, "the prompt holds a NUL character").WithHint("remove it")
	}
	tokens := render(req)
	if strings.Contains(read(tokens).message, "[[die-prepare]]") {
		f.die()
	}
	if req.Limit > 0 && len(tokens) > req.Limit {
		return llm.Prompt{}, llm.PromptTooLong(len(tokens), req.Limit)
	}
	return llm.Prompt{Tokens: tokens, Tail: tail(req)}, nil
}

// tail is the end of what render makes.
func tail(req llm.PrepareRequest) string {
	if req.Messages != nil {
		return "assistant\n"
	}
	return req.Prompt[max(0, len(req.Prompt)-100):]
}

func (f *Fake) ready(model string, embedding bool) (llm.LoadRequest, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	req, ok := f.loaded[model]
	switch {
	case !ok:
		return req, llm.Errorf(llm.CodeEngine, "%s is not loaded on %s", model, f.options.Device.Label())
	case req.Embedding && !embedding:
		return req, llm.Errorf(llm.CodeUnsupported, "%s makes embeddings and cannot chat", model)
	case embedding && !req.Embedding:
		return req, llm.Errorf(llm.CodeUnsupported, "%s chats and makes no embeddings", model)
	}
	return req, nil
}

// Embed derives each vector from its input alone.
func (f *Fake) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embedded, error) {
	if err := f.open(ctx); err != nil {
		return llm.Embedded{}, err
	}
	if _, err := f.ready(req.Model.Name, true); err != nil {
		return llm.Embedded{}, err
	}
	started := time.Now()
	var result llm.Embedded
	for i, input := range req.Inputs {
		tokens := tokenize(input)
		if limit := f.options.PromptLimit; len(tokens) > limit {
			if !req.Truncate {
				return llm.Embedded{}, llm.PromptTooLong(len(tokens), limit)
			}
			tokens = tokens[:limit]
			result.Truncated = append(result.Truncated, i)
		}
		result.Tokens += len(tokens)
		result.Vectors = append(result.Vectors, vector(tokens, req.Dimensions, req.Raw))
		if err := ctx.Err(); err != nil {
			return llm.Embedded{}, err
		}
		if s := parse(talk{message: input}); s.die != "" {
			f.die()
		} else if err := f.pause(ctx, s.slow); err != nil {
			return llm.Embedded{}, err
		}
	}
	result.Duration = time.Since(started)
	return result, nil
}

// Dimensions is the length of the fake's vectors.
const Dimensions = 384

func vector(tokens []int32, dimensions int, raw bool) []float32 {
	hash := sha256.New()
	for _, token := range tokens {
		binary.Write(hash, binary.LittleEndian, token)
	}
	seed := hash.Sum(nil)
	vector := make([]float32, Dimensions)
	state := binary.LittleEndian.Uint64(seed)
	for i := range vector {
		state = state*6364136223846793005 + 1442695040888963407
		vector[i] = float32(int32(state>>33)-1<<30) / (1 << 30)
	}
	if dimensions > 0 && dimensions < len(vector) {
		vector = vector[:dimensions]
	}
	if !raw {
		normalise(vector)
	}
	return vector
}

func normalise(vector []float32) {
	sum := 0.0
	for _, x := range vector {
		sum += float64(x) * float64(x)
	}
	for i := range vector {
		vector[i] = float32(float64(vector[i]) / math.Sqrt(sum))
	}
}

// Close lets hanging calls go. It may be called twice.
func (f *Fake) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}
