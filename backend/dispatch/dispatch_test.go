package dispatch

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/models"
)

var (
	cpu = llm.Device{Class: llm.CPU, Runtime: "CPU"}
	npu = llm.Device{Class: llm.NPU, Runtime: "NPU"}
)

type library map[string]models.Model

func (l library) Find(name string) (models.Model, error) {
	if m, ok := l[name]; ok {
		return m, nil
	}
	return models.Model{}, llm.Errorf(llm.CodeModelNotFound, "model '%s' not found", name)
}

// fakeEngine is an engine made of functions: for faults and waits that a real one does not have on demand.
type fakeEngine struct {
	Engine
	devices []engine.State
	tokens  int
	run     func(ctx context.Context, job engine.Job) (llm.Stats, error)
	embed   func(device llm.Device) (llm.Embedded, engine.Times, error)
	prepare func() error // nil: it succeeds
}

func (f *fakeEngine) Devices(context.Context) ([]engine.State, error) { return f.devices, nil }
func (f *fakeEngine) Prepare(_ context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	if f.prepare != nil {
		if err := f.prepare(); err != nil {
			return llm.Prompt{}, err
		}
	}
	if req.Limit > 0 && f.tokens > req.Limit {
		return llm.Prompt{}, llm.PromptTooLong(f.tokens, req.Limit)
	}
	return llm.Prompt{Tokens: make([]int32, f.tokens)}, nil
}
func (f *fakeEngine) Run(ctx context.Context, job engine.Job) (llm.Stats, error) {
	return f.run(ctx, job)
}
func (f *fakeEngine) Embed(_ context.Context, device llm.Device, _ llm.LoadRequest, _ llm.EmbedRequest, _ *time.Duration, _ func(engine.Progress)) (llm.Embedded, engine.Times, error) {
	return f.embed(device)
}

// desk is a dispatcher over a fake engine with an NPU and a CPU.
func desk(t *testing.T, run func(ctx context.Context, job engine.Job) (llm.Stats, error)) (*Dispatcher, *journal.Journal) {
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return deskOver(j, run)
}

func deskOver(j *journal.Journal, run func(ctx context.Context, job engine.Job) (llm.Stats, error)) (*Dispatcher, *journal.Journal) {
	eng := &fakeEngine{devices: []engine.State{{Device: npu}, {Device: cpu}}, tokens: 10, run: run}
	lib := library{"m": {Name: "m:1", Kind: models.KindChat, ContextLength: 8192, NPU: models.Fitness{OK: true}}}
	return New(lib, eng, j, func() Policy { return Policy{Provider: "test"} }), j
}

func call() Call {
	return Call{TraceID: "t", Route: "/api/chat", Request: llm.Request{Model: "m", Messages: []llm.Message{{Role: "user", Content: "hi"}}}}
}

// heard collects an Answer.
type heard struct {
	mu    sync.Mutex
	began []llm.Record // guarded by mu
	text  string
}

func (h *heard) beginnings() []llm.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.began
}

func (h *heard) answer() Answer {
	return Answer{
		Begin: func(r llm.Record) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.began = append(h.began, r)
			return nil
		},
		Delta: func(d llm.Delta) error { h.text += d.Text; return nil },
	}
}

// say is an engine that answers.
func say(text string) func(context.Context, engine.Job) (llm.Stats, error) {
	return func(_ context.Context, job engine.Job) (llm.Stats, error) {
		job.OnState(engine.Progress{State: engine.Prefill})
		err := job.OnDelta(llm.Delta{Text: text, Tokens: 3})
		return llm.Stats{PromptTokens: 10, CompletionTokens: 3, Finish: llm.FinishStop, Prefill: time.Second, Decode: time.Second}, err
	}
}

func TestRecordTellsWhatHappened(t *testing.T) {
	d, j := desk(t, say("hello"))
	var h heard
	record, _, err := d.Generate(t.Context(), call(), h.answer())
	require.NoError(t, err)
	assert.Equal(t, "hello", h.text)
	require.Len(t, h.began, 1)
	assert.Equal(t, "NPU", h.began[0].ExecutionDevice)
	assert.Empty(t, h.began[0].Outcome, "the headers' record is not complete")
	assert.Equal(t, llm.OutcomeCompleted, record.Outcome)
	assert.Equal(t, "m:1", record.ModelUsed)
	assert.Equal(t, 10, *record.PromptTokens)
	require.NotNil(t, record.PrepareMS)
	assert.InDelta(t, 2, *record.TokensPerSecond, 0.001, "two steps in one second: the first token belongs to the prefill")
	assert.Nil(t, record.CancelMS)
	entry, err := j.Get("t")
	require.NoError(t, err)
	assert.Equal(t, record, entry.Record)
	assert.Empty(t, j.Active())
}

// Whatever is cut because the device has no more room is named, by the caller's name.
func TestAnAnswerThatTheDeviceCutIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		route, device string
		asked, said   int
		finish        llm.Finish
		clamped       []string
	}{
		"the client's limit":                {"/api/chat", "npu", 50, 50, llm.FinishLength, nil},
		"pinned, and more than its room":    {"/api/chat", "npu", 5000, 20, llm.FinishStop, []string{"options.num_predict"}},
		"more than any room":                {"/v1/messages", "", 32000, 20, llm.FinishStop, []string{"max_tokens"}},
		"no limit, and the end of room":     {"/v1/chat/completions", "", 0, 1142, llm.FinishLength, []string{"max_tokens"}},
		"less room than was expected":       {"/v1/responses", "npu", 1000, 500, llm.FinishLength, []string{"max_output_tokens"}},
		"no limit, and the model's own end": {"/api/chat", "", 0, 20, llm.FinishStop, nil},
		"where it fits":                     {"/api/chat", "", 1100, 20, llm.FinishStop, nil},
		"a cap above a long answer":         {"/api/chat", "", 5000, 20, llm.FinishStop, nil}, // it would have gone on on the CPU
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := desk(t, func(_ context.Context, job engine.Job) (llm.Stats, error) {
				job.OnState(engine.Progress{State: engine.Prefill})
				return llm.Stats{PromptTokens: 10, CompletionTokens: c.said, Finish: c.finish}, nil
			})
			ask := call()
			if c.asked > 30000 { // the dialect has cut it already: it is named once
				ask.Request.Clamped = []string{"max_tokens"}
			}
			ask.Route, ask.Request.Device, ask.Request.MaxTokens = c.route, c.device, c.asked
			var h heard
			record, _, err := d.Generate(t.Context(), ask, h.answer())
			require.NoError(t, err)
			assert.Equal(t, c.clamped, record.Clamped)
		})
	}
}

func TestFaultBeforeTheFirstByteGoesToTheNextDevice(t *testing.T) {
	d, _ := desk(t, func(ctx context.Context, job engine.Job) (llm.Stats, error) {
		if job.Device == npu {
			return llm.Stats{}, llm.Errorf(llm.CodeEngine, "the driver crashed")
		}
		return say("hello")(ctx, job)
	})
	var h heard
	record, _, err := d.Generate(t.Context(), call(), h.answer())
	require.NoError(t, err)
	assert.Equal(t, "NPU", record.RoutedDevice)
	assert.Equal(t, "CPU", record.ExecutionDevice)
	assert.Equal(t, llm.FallbackDevice, record.FallbackReason)
	require.NotEmpty(t, record.Rejected)
	assert.Contains(t, record.Rejected[0].Reason, "the driver crashed")
	require.Len(t, h.began, 1, "headers go once, with the device that answers")
	assert.Equal(t, "CPU", h.began[0].ExecutionDevice)
}

func TestFaultOnEveryDeviceIsTheAnswer(t *testing.T) {
	runs := 0
	d, _ := desk(t, func(_ context.Context, job engine.Job) (llm.Stats, error) {
		runs++
		return llm.Stats{}, llm.Errorf(llm.CodeEngine, "%s crashed", job.Device.Class)
	})
	record, _, err := d.Generate(t.Context(), call(), (&heard{}).answer())
	assert.ErrorContains(t, err, "crashed")
	assert.Equal(t, llm.OutcomeError, record.Outcome)
	assert.Equal(t, 2, runs, "tried once more, not again and again")
}

func TestFaultAfterTheFirstByteStaysOnItsDevice(t *testing.T) {
	runs := 0
	d, _ := desk(t, func(ctx context.Context, job engine.Job) (llm.Stats, error) {
		runs++
		_, err := say("half")(ctx, job)
		return llm.Stats{PromptTokens: 10, CompletionTokens: 3}, errors.Join(err, llm.Errorf(llm.CodeEngine, "the driver crashed"))
	})
	var h heard
	record, _, err := d.Generate(t.Context(), call(), h.answer())
	assert.ErrorContains(t, err, "the driver crashed")
	assert.Equal(t, 1, runs)
	assert.Equal(t, 3, *record.CompletionTokens, "what was really produced")
	assert.Equal(t, llm.OutcomeError, record.Outcome)
}

func TestHeadersGoAfterTenSecondsOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"))
		require.NoError(t, err)
		defer j.Close()
		var h heard
		d, _ := deskOver(j, func(ctx context.Context, job engine.Job) (llm.Stats, error) {
			job.OnState(engine.Progress{State: engine.Queued, Position: 3})
			time.Sleep(9 * time.Second)
			assert.Empty(t, h.beginnings())
			time.Sleep(2 * time.Second)
			synctest.Wait()
			assert.Len(t, h.beginnings(), 1)
			return llm.Stats{}, llm.Errorf(llm.CodeEngine, "the driver crashed")
		})
		_, _, err = d.Generate(t.Context(), call(), h.answer())
		assert.ErrorContains(t, err, "the driver crashed", "after the headers it stays on that device")
	})
}

func TestSilentEngineTimesOutPerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"))
		require.NoError(t, err)
		defer j.Close()
		d, _ := deskOver(j, func(ctx context.Context, job engine.Job) (llm.Stats, error) {
			time.Sleep(10 * time.Minute) // queue and load do not count (S34)
			job.OnState(engine.Progress{State: engine.Prefill})
			time.Sleep(179 * time.Second)
			assert.NoError(t, job.OnDelta(llm.Delta{Text: "a", Tokens: 1}))
			time.Sleep(179 * time.Second)
			assert.NoError(t, ctx.Err())
			<-ctx.Done()
			return llm.Stats{CompletionTokens: 1}, ctx.Err()
		})
		record, _, err := d.Generate(t.Context(), call(), (&heard{}).answer())
		assert.Equal(t, llm.CodeTimeout, llm.CodeOf(err))
		assert.Equal(t, llm.OutcomeTimeout, record.Outcome)
	})
}

func TestCancelFromTheWindowSaysSo(t *testing.T) {
	started := make(chan struct{})
	d, _ := desk(t, func(ctx context.Context, job engine.Job) (llm.Stats, error) {
		job.OnState(engine.Progress{State: engine.Prefill})
		close(started)
		<-ctx.Done()
		return llm.Stats{PromptTokens: 10, CompletionTokens: 2}, ctx.Err()
	})
	go func() {
		<-started
		assert.True(t, d.Cancel("t"))
	}()
	record, _, err := d.Generate(t.Context(), call(), (&heard{}).answer())
	assert.ErrorContains(t, err, "cancelled in the Signalbox window")
	assert.Equal(t, llm.OutcomeCancelled, record.Outcome)
	assert.Equal(t, 2, *record.CompletionTokens)
	assert.False(t, d.Cancel("t"), "it has ended")
}

func TestContextLimitOfTheRequestIsNamed(t *testing.T) {
	d, _ := desk(t, say("never"))
	c := call()
	c.Request.ContextLimit = 10
	record, _, err := d.Generate(t.Context(), c, (&heard{}).answer())
	assert.ErrorContains(t, err, "prompt is too long: 10 tokens > 9 maximum")
	assert.ErrorContains(t, err, "num_ctx is 10, for prompt and answer together")
	assert.Equal(t, llm.OutcomeRejected, record.Outcome)
}

// Prompt and answer share num_ctx, as in Ollama.
func TestTheAnswerEndsWhereNumCtxDoes(t *testing.T) {
	for name, c := range map[string]struct {
		window, asked, allowed int
		route, called          string
		clamped                []string
	}{
		"the rest of the window":   {15, 0, 5, "/api/chat", "", []string{"options.num_ctx"}},
		"less than was asked for":  {15, 9, 5, "/api/chat", "", []string{"options.num_predict", "options.num_ctx"}},
		"by another name":          {15, 9, 5, "/api/chat", "max_tokens", []string{"max_tokens", "options.num_ctx"}},
		"as much as was asked for": {15, 5, 5, "/api/chat", "", nil},
		"less was asked for":       {15, 3, 3, "/api/chat", "", nil},
		"one token":                {11, 0, 1, "/api/chat", "", []string{"options.num_ctx"}},
		"a variant's, elsewhere":   {15, 9, 5, "/v1/chat/completions", "max_completion_tokens", []string{"max_completion_tokens", "num_ctx"}},
		"more than the model has":  {9000, 3, 3, "/api/chat", "", []string{"options.num_ctx"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := desk(t, func(_ context.Context, job engine.Job) (llm.Stats, error) {
				job.OnState(engine.Progress{State: engine.Prefill})
				assert.Equal(t, c.allowed, job.Generate.MaxTokens)
				return llm.Stats{PromptTokens: 10, CompletionTokens: job.Generate.MaxTokens, Finish: llm.FinishLength}, nil
			})
			ask := call()
			ask.Route, ask.Request.ContextLimit, ask.Request.MaxTokens, ask.Request.LimitName = c.route, c.window, c.asked, c.called
			record, _, err := d.Generate(t.Context(), ask, new(heard).answer())
			require.NoError(t, err)
			assert.Equal(t, c.clamped, record.Clamped)
		})
	}
}

func TestUnknownModelIsInTheJournal(t *testing.T) {
	d, j := desk(t, say("never"))
	c := call()
	c.Request.Model = "nope"
	_, _, err := d.Generate(t.Context(), c, (&heard{}).answer())
	assert.Equal(t, llm.CodeModelNotFound, llm.CodeOf(err))
	entry, err := j.Get("t")
	require.NoError(t, err)
	assert.Equal(t, llm.OutcomeRejected, entry.Outcome)
	assert.Equal(t, "nope", entry.ModelAsked)
}

func TestADamagedModelIsNotAskedForAgain(t *testing.T) {
	d, _ := desk(t, say("never"))
	d.library.(library)["broken"] = models.Model{Name: "broken:1", Kind: models.KindChat, Damaged: "openvino_model.bin is missing"}
	c := call()
	c.Request.Model = "broken"
	record, _, err := d.Generate(t.Context(), c, (&heard{}).answer())
	assert.Equal(t, llm.CodeUnsupported, llm.CodeOf(err), "a 503 would be asked again for ever")
	assert.ErrorContains(t, err, "load broken:1: openvino_model.bin is missing: `signalbox verify broken:1` tells more")
	assert.Equal(t, llm.OutcomeRejected, record.Outcome)
}

func TestF25CountIsWhatGenerateReports(t *testing.T) {
	d, j := desk(t, func(context.Context, engine.Job) (llm.Stats, error) {
		return llm.Stats{PromptTokens: 10, CompletionTokens: 1, Finish: llm.FinishStop}, nil
	})
	n, err := d.Count(t.Context(), call())
	require.NoError(t, err)
	assert.Equal(t, 10, n)
	assert.Empty(t, j.Active())
	record, _, err := d.Generate(t.Context(), call(), new(heard).answer())
	require.NoError(t, err)
	assert.Equal(t, n, *record.PromptTokens)
	unknown := call()
	unknown.Request.Model = "nobody"
	_, err = d.Count(t.Context(), unknown)
	assert.Equal(t, llm.CodeModelNotFound, llm.CodeOf(err))
}

func TestTheTokensOfPromptAndAnswerAreToldToWhoWantsThem(t *testing.T) {
	d, _ := desk(t, func(_ context.Context, job engine.Job) (llm.Stats, error) {
		return llm.Stats{PromptTokens: 10, CompletionTokens: 1, Finish: llm.FinishStop}, job.OnDelta(llm.Delta{Text: "ok", Tokens: 1})
	})
	c := call()
	_, stats, err := d.Generate(t.Context(), c, new(heard).answer())
	require.NoError(t, err)
	assert.Empty(t, stats.Context)
	c.Request.EchoContext = true
	_, stats, err = d.Generate(t.Context(), c, new(heard).answer())
	require.NoError(t, err)
	assert.Len(t, stats.Context, 10, "as many as the fake engine counts")
}

func TestWholeAnswerGoesToTheNextDeviceAfterAFaultInPrefill(t *testing.T) {
	d, _ := desk(t, func(ctx context.Context, job engine.Job) (llm.Stats, error) {
		if job.Device == npu {
			job.OnState(engine.Progress{State: engine.Prefill})
			return llm.Stats{}, llm.Errorf(llm.CodeEngine, "the driver crashed")
		}
		return say("hello")(ctx, job)
	})
	text := ""
	record, _, err := d.Generate(t.Context(), call(), Answer{Delta: func(d llm.Delta) error { text += d.Text; return nil }})
	require.NoError(t, err)
	assert.Equal(t, "hello", text)
	assert.Equal(t, "CPU", record.ExecutionDevice)
}

func TestFaultInPrefillLeavesUnknownNumbersNull(t *testing.T) {
	d, _ := desk(t, func(_ context.Context, job engine.Job) (llm.Stats, error) {
		job.OnState(engine.Progress{State: engine.Prefill})
		return llm.Stats{}, llm.Errorf(llm.CodeEngine, "the driver crashed")
	})
	record, _, err := d.Generate(t.Context(), call(), (&heard{}).answer())
	require.Error(t, err)
	assert.Equal(t, 10, *record.PromptTokens, "counted before it ran")
	assert.Nil(t, record.CachedTokens)
	assert.Nil(t, record.PrefillMS)
	assert.Nil(t, record.CostEstimate.DeviceSeconds)
}

func TestPanicLeavesNothingActive(t *testing.T) {
	d, j := desk(t, func(context.Context, engine.Job) (llm.Stats, error) { panic("a bug") })
	assert.PanicsWithValue(t, "a bug", func() { _, _, _ = d.Generate(t.Context(), call(), (&heard{}).answer()) })
	assert.Empty(t, j.Active())
	assert.False(t, d.Cancel("t"))
	entry, err := j.Get("t")
	require.NoError(t, err)
	assert.Equal(t, llm.OutcomeError, entry.Outcome)
}
