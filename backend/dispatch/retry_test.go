package dispatch

import (
	"context"
	"path/filepath"
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

// ended is the error of a request whose device's process ended.
func ended(device llm.Device, exit engine.Exit) error {
	exit.Device = device
	return llm.Errorf(llm.CodeEngine, "%s of m on %s: %w", exit.Phase, device.Label(), &exit)
}

var (
	killed     = engine.Exit{Status: "signal: killed", Phase: "load"}
	crashed    = engine.Exit{Status: "signal: segmentation fault", Phase: "load", Fault: true}
	tooSlow    = engine.Exit{Status: "signal: killed", Phase: "load", Fault: true, Reason: "loading m took longer than 10m"}
	inPrefill  = engine.Exit{Status: "signal: segmentation fault", Phase: "prefill", Fault: true}
	killedLate = engine.Exit{Status: "signal: killed", Phase: "prefill"}
)

func TestARequestWhoseProcessEndedIsTriedAgainWhereThatMakesSense(t *testing.T) {
	for name, row := range map[string]struct {
		devices []llm.Device
		exits   []engine.Exit // of the first tries
		ran     []string
		fails   bool
	}{
		"killed while loading":                {[]llm.Device{npu, cpu}, []engine.Exit{killed}, []string{"NPU", "CPU"}, false},
		"killed while loading, the only one":  {[]llm.Device{cpu}, []engine.Exit{killed}, []string{"CPU", "CPU"}, false},
		"killed while reading":                {[]llm.Device{cpu}, []engine.Exit{killedLate}, []string{"CPU", "CPU"}, false},
		"killed twice":                        {[]llm.Device{cpu}, []engine.Exit{killed, killed}, []string{"CPU", "CPU"}, true},
		"crashed while loading":               {[]llm.Device{npu, cpu}, []engine.Exit{crashed}, []string{"NPU", "CPU"}, false},
		"crashed while loading, the only one": {[]llm.Device{cpu}, []engine.Exit{crashed}, []string{"CPU", "CPU"}, false},
		"slow while loading, the only one":    {[]llm.Device{cpu}, []engine.Exit{tooSlow}, []string{"CPU"}, true},
		"crashed at it, the only one":         {[]llm.Device{cpu}, []engine.Exit{inPrefill}, []string{"CPU"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"))
			require.NoError(t, err)
			defer j.Close()
			var ran []string
			try := func(device llm.Device) error {
				ran = append(ran, device.Label())
				if len(ran) <= len(row.exits) {
					return ended(device, row.exits[len(ran)-1])
				}
				return nil
			}
			eng := &fakeEngine{
				tokens: 10,
				run: func(ctx context.Context, job engine.Job) (llm.Stats, error) {
					job.Times.Load = time.Second
					if err := try(job.Device); err != nil {
						return llm.Stats{}, err
					}
					return say("hello")(ctx, job)
				},
				embed: func(device llm.Device) (llm.Embedded, engine.Times, error) {
					return llm.Embedded{Tokens: 2}, engine.Times{Load: time.Second}, try(device)
				},
			}
			for _, d := range row.devices {
				eng.devices = append(eng.devices, engine.State{Device: d})
			}
			lib := library{"m": {Name: "m:1", Kind: models.KindChat, ContextLength: 8192, NPU: models.Fitness{OK: true}}, "e": {Name: "e:1", Kind: models.KindEmbedding}}
			d := New(lib, eng, j, func() Policy { return Policy{} })

			var h heard
			record, _, err := d.Generate(t.Context(), call(), h.answer())
			assert.Equal(t, row.ran, ran)
			if row.fails {
				assert.ErrorContains(t, err, row.exits[0].Phase+" of m on CPU: the engine process for CPU")
				assert.Equal(t, llm.OutcomeError, record.Outcome)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "hello", h.text)
			assert.Len(t, h.began, 1)
			assert.Equal(t, ran[len(ran)-1], record.ExecutionDevice)
			assert.InDelta(t, 1000*len(ran), *record.LoadMS, 1, "of all tries")
			if ran[len(ran)-1] == ran[0] {
				assert.Contains(t, record.RouteReason, "it was asked again there, since the engine process for "+ran[0]+" ended by itself: "+row.exits[0].Status)
				assert.Empty(t, record.FallbackReason)
			} else {
				assert.Equal(t, llm.FallbackDevice, record.FallbackReason)
			}

			if len(row.devices) == 1 { // embeddings and the NPU are another matter
				ran = nil
				record, out, err := d.Embed(t.Context(), Call{TraceID: "e", Route: "/api/embed", Request: llm.Request{Model: "e"}}, llm.EmbedRequest{Inputs: []string{"x"}})
				require.NoError(t, err)
				assert.Equal(t, row.ran, ran)
				assert.Equal(t, 2, out.Tokens)
				assert.Contains(t, record.RouteReason, "it was asked again there")
			}
		})
	}
}

func TestWhatWasSaidIsNotSaidAgain(t *testing.T) {
	runs := 0
	d, _ := desk(t, func(_ context.Context, job engine.Job) (llm.Stats, error) {
		runs++
		_ = job.OnDelta(llm.Delta{Text: "half", Tokens: 1})
		return llm.Stats{}, ended(job.Device, killedLate)
	})
	var h heard
	_, _, err := d.Generate(t.Context(), call(), h.answer())
	require.Error(t, err)
	assert.Equal(t, 1, runs)
	assert.Equal(t, "half", h.text)
}

func TestAPromptIsCountedAgainWhenTheProcessWasKilledMeanwhile(t *testing.T) {
	d, _ := desk(t, say("hello"))
	eng := d.engine.(*fakeEngine)
	asked := 0
	eng.prepare = func() error {
		if asked++; asked == 1 {
			return ended(cpu, engine.Exit{Status: "signal: killed", Phase: "prepare"})
		}
		return nil
	}
	_, _, err := d.Generate(t.Context(), call(), (&heard{}).answer())
	require.NoError(t, err)
	assert.Equal(t, 2, asked)
}

// A device whose process crashed is started again after a pause, and the prompt waits for it: without a figure of its own that
// time was nowhere in the record.
func TestTheWaitForThePromptIsInTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"))
		require.NoError(t, err)
		defer j.Close()
		d, _ := deskOver(j, say("hello"))
		d.engine.(*fakeEngine).prepare = func() error { time.Sleep(16 * time.Second); return nil }
		record, _, err := d.Generate(t.Context(), call(), (&heard{}).answer())
		require.NoError(t, err)
		assert.InDelta(t, 16000, *record.PrepareMS, 1)
	})
}

// An answer that is given whole is tried again also after its first piece: its client was sent nothing.
func TestAnAnswerThatIsGivenWholeIsMadeAgain(t *testing.T) {
	inDecode := engine.Exit{Status: "signal: segmentation fault", Phase: "decode", Fault: true}
	killedInDecode := engine.Exit{Status: "signal: killed", Phase: "decode"}
	for name, row := range map[string]struct {
		devices []llm.Device
		exit    engine.Exit
		ran     []string
		fails   bool
	}{
		"killed, the only one":  {[]llm.Device{cpu}, killedInDecode, []string{"CPU", "CPU"}, false},
		"crashed, and a second": {[]llm.Device{npu, cpu}, inDecode, []string{"NPU", "CPU"}, false},
		"crashed, the only one": {[]llm.Device{cpu}, inDecode, []string{"CPU"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			d, j := desk(t, func(ctx context.Context, job engine.Job) (llm.Stats, error) {
				if ran = append(ran, job.Device.Label()); len(ran) == 1 {
					_ = job.OnDelta(llm.Delta{Text: "half", Tokens: 1})
					return llm.Stats{}, ended(job.Device, row.exit)
				}
				return say("hello")(ctx, job)
			})
			j.SetBodies(time.Hour)
			eng := d.engine.(*fakeEngine)
			eng.devices = nil
			for _, device := range row.devices {
				eng.devices = append(eng.devices, engine.State{Device: device})
			}
			var text string
			whole := Answer{
				Delta: func(d llm.Delta) error { text += d.Text; return nil },
				Again: func() { text = "" },
			}
			record, _, err := d.Generate(t.Context(), call(), whole)
			assert.Equal(t, row.ran, ran)
			if row.fails {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "hello", text)
			assert.Equal(t, ran[1], record.ExecutionDevice)
			body, err := j.Body("t")
			require.NoError(t, err)
			assert.Equal(t, "hello", body.Answer, "what was taken back is not kept")
		})
	}
}

func TestAProcessThatWasKilledSaysWhatToDo(t *testing.T) {
	var exits []error
	d, _ := desk(t, func(_ context.Context, job engine.Job) (llm.Stats, error) {
		exits = append(exits, ended(job.Device, killedLate))
		return llm.Stats{}, exits[len(exits)-1]
	})
	_, _, err := d.Generate(t.Context(), call(), (&heard{}).answer())
	assert.ErrorContains(t, err, "ended by itself: signal: killed: something outside Signalbox ended it, as systems do when memory runs out; try again,")
	for _, exit := range exits {
		assert.NotContains(t, exit.Error(), "try again", "others may have the same error")
	}
}
