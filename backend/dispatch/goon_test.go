package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
)

// fills is an NPU whose program has room for 1,142 tokens behind a prompt of 10, and a CPU that writes the rest.
func fills(jobs *[]engine.Job, said, held string, rest func(engine.Job) (llm.Stats, error)) func(context.Context, engine.Job) (llm.Stats, error) {
	return func(_ context.Context, job engine.Job) (llm.Stats, error) {
		*jobs = append(*jobs, job)
		if job.Device != npu {
			return rest(job)
		}
		job.OnState(engine.Progress{State: engine.Prefill})
		joules := 2.0
		*job.Times = engine.Times{Queue: time.Second, Load: time.Second, Joules: &joules}
		err := job.OnDelta(llm.Delta{Text: said, Tokens: 1142})
		return llm.Stats{PromptTokens: 10, CompletionTokens: 1142, Finish: llm.FinishLength, Held: held, Prefill: time.Second, Decode: time.Second}, err
	}
}

func goesOn(text string) func(engine.Job) (llm.Stats, error) {
	return func(job engine.Job) (llm.Stats, error) {
		joules := 3.0
		*job.Times = engine.Times{Load: 2 * time.Second, Joules: &joules}
		job.OnState(engine.Progress{State: engine.Prefill})
		err := job.OnDelta(llm.Delta{Text: text, Tokens: 8})
		return llm.Stats{PromptTokens: 1152, CompletionTokens: 8, Finish: llm.FinishStop, Prefill: time.Second, Decode: 2 * time.Second}, err
	}
}

func TestAnAnswerThatFillsItsDeviceGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		said, held, rest, want, again string
		limit, left                   int
	}{
		"without a limit":              {"one two", "", " three", "one two three", "", 0, 0},
		"below its limit":              {"one two", "", " three", "one two three", "", 4000, 2858},
		"in the middle of a character": {"one ", "\uFFFD", "\u00e9", "one \u00e9", "", 0, 0},
		"in what may be a stop string": {"one", " t\uFFFD", " ten", "one ten", " t", 0, 0}, // the other engine gives all of it
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []engine.Job
			d, j := desk(t, fills(&jobs, c.said, c.held, goesOn(c.rest)))
			ask := call()
			ask.Request.MaxTokens = c.limit
			var h heard
			record, stats, err := d.Generate(t.Context(), ask, h.answer())
			require.NoError(t, err)
			assert.Equal(t, c.want, h.text)
			require.Len(t, h.began, 1, "one answer, with one set of headers")
			require.Len(t, jobs, 2)
			assert.Equal(t, c.left, jobs[1].Generate.MaxTokens)
			assert.Equal(t, c.again, jobs[1].Generate.Held)
			assert.Equal(t, "NPU", record.ExecutionDevice)
			assert.Equal(t, &llm.Continuation{Device: "CPU", EndpointID: "cpu:0", After: 1142}, record.Continued)
			assert.Contains(t, record.RouteReason, "; the NPU was full after 1142 tokens of the answer, and the CPU went on with it.")
			assert.Equal(t, llm.OutcomeCompleted, record.Outcome)
			assert.Empty(t, record.Clamped, "nothing is cut")
			assert.Equal(t, 10, *record.PromptTokens)
			assert.Equal(t, 1150, stats.CompletionTokens)
			assert.InDelta(t, 3000, *record.LoadMS, 1)
			assert.InDelta(t, 2000, *record.PrefillMS, 1)
			assert.InDelta(t, 5, *record.CostEstimate.DeviceSeconds, 0.001)
			assert.InDelta(t, 5, *record.CostEstimate.EnergyJoules, 0.001)
			entry, err := j.Get("t")
			require.NoError(t, err)
			assert.Equal(t, record, entry.Record)
		})
	}
}

func TestAnAnswerThatCannotGoOnIsCutAndSaysWhy(t *testing.T) {
	broken := func(job engine.Job) (llm.Stats, error) {
		return llm.Stats{}, ended(job.Device, engine.Exit{Status: "signal: killed", Phase: "load"})
	}
	for name, c := range map[string]struct {
		change func(*llm.Request)
		rest   func(engine.Job) (llm.Stats, error)
		runs   int
		reason string
	}{
		"the request names the device": {func(r *llm.Request) { r.Device = "npu" }, goesOn(" three"), 1,
			"the answer ends where the NPU was full, with 1152 tokens of prompt and answer: no device that may take the request has room for more."},
		"a grammar holds it":  {func(r *llm.Request) { r.Constraint = &llm.Constraint{Regex: "[a-z ]+"} }, goesOn(" three"), 1, ""},
		"the other one fails": {func(*llm.Request) {}, broken, 2, "with 1152 tokens of prompt and answer: the engine process for CPU ended by itself: signal: killed."},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []engine.Job
			d, _ := desk(t, fills(&jobs, "one two", "\uFFFD", c.rest))
			ask := call()
			c.change(&ask.Request)
			var h heard
			record, stats, err := d.Generate(t.Context(), ask, h.answer())
			require.NoError(t, err)
			assert.Len(t, jobs, c.runs)
			assert.Equal(t, "one two\uFFFD", h.text)
			assert.Equal(t, llm.FinishLength, stats.Finish)
			assert.Equal(t, llm.OutcomeLength, record.Outcome)
			assert.Equal(t, []string{"options.num_predict"}, record.Clamped)
			assert.Nil(t, record.Continued)
			assert.Contains(t, record.RouteReason, c.reason)
		})
	}
}

func TestAFaultWhereTheAnswerWentOnEndsIt(t *testing.T) {
	var jobs []engine.Job
	d, _ := desk(t, fills(&jobs, "one two", "", func(job engine.Job) (llm.Stats, error) {
		_ = job.OnDelta(llm.Delta{Text: " three", Tokens: 1})
		return llm.Stats{CompletionTokens: 1}, ended(job.Device, engine.Exit{Status: "signal: killed", Phase: "decode"})
	}))
	var h heard
	record, stats, err := d.Generate(t.Context(), call(), h.answer())
	require.ErrorContains(t, err, "signal: killed")
	assert.Equal(t, "one two three", h.text)
	assert.Equal(t, 1143, stats.CompletionTokens)
	assert.Equal(t, llm.OutcomeError, record.Outcome)
	assert.Equal(t, "CPU", record.Continued.Device)
}

// What a device did for a try that came to nothing is used all the same.
func TestAFirstTryThatFailedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			phase   string
			seconds float64
			joules  []float64 // of each try; none: it did not come to run
			want    any
		}{
			"in the prompt":             {"prefill", 7, []float64{4, 3}, 7.0},
			"in the prompt, unmeasured": {"prefill", 7, []float64{-1, 3}, nil},
			"in the load":               {"load", 2, []float64{-1, 3}, 3.0},
		} {
			runs := 0
			d, _ := desk(t, func(ctx context.Context, job engine.Job) (llm.Stats, error) {
				runs++
				measured := c.joules[runs-1]
				if runs == 2 {
					job.Times.Joules = &measured
					return say("hello")(ctx, job)
				}
				if c.phase == "prefill" {
					job.OnState(engine.Progress{State: engine.Prefill})
				}
				time.Sleep(5 * time.Second)
				if measured >= 0 {
					job.Times.Joules = &measured
				}
				return llm.Stats{}, ended(job.Device, engine.Exit{Status: "signal: killed", Phase: c.phase})
			})
			var h heard
			record, _, err := d.Generate(t.Context(), call(), h.answer())
			require.NoError(t, err, name)
			assert.InDelta(t, c.seconds, *record.CostEstimate.DeviceSeconds, 0.001, name)
			if c.want == nil {
				assert.Nil(t, record.CostEstimate.EnergyJoules, name)
			} else {
				require.NotNil(t, record.CostEstimate.EnergyJoules, name)
				assert.InDelta(t, c.want, *record.CostEstimate.EnergyJoules, 0.001, name)
			}
		}
	})
}
