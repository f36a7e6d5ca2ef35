package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
)

func TestADeviceThatDisappearsStaysWithTheReason(t *testing.T) {
	var gone atomic.Bool
	b := open(t, engine.Options{InProcess: func(llm.Device) (llm.Runner, error) {
		devices := []llm.Device{mock(0), mock(1)}
		if gone.Load() {
			devices = devices[:1]
		}
		return llmtest.NewFake(llmtest.Options{Devices: devices}), nil
	}})
	_, err := b.Devices(t.Context())
	require.NoError(t, err)
	b.answers(1)
	gone.Store(true)
	b.Refresh()
	until(t, "mock:1 is missed", func() bool { return b.state(1).Absent != "" })
	assert.Empty(t, b.state(0).Absent)
	gone.Store(false)
	b.Refresh()
	until(t, "mock:1 is back", func() bool { return b.state(1).Absent == "" })
}

func TestWhatAnEarlierEngineKnewIsKnown(t *testing.T) {
	b := open(t, engine.Options{Known: func(llm.Device) engine.Known {
		return engine.Known{
			Speeds: map[string]engine.Speed{"m": {Prefill: 100, Decode: 10, Load: time.Second}}, Quarantined: map[string]string{"n": "it crashed"},
		}
	}})
	_, err := b.Devices(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 100.0, b.state(0).Speeds["m"].Prefill)
	assert.Equal(t, map[string]string{"n": "it crashed"}, b.state(0).Quarantined)
	b.Release(mock(0), "n")
	assert.Empty(t, b.state(0).Quarantined)
}

func TestStatesTellTheLongestPrompt(t *testing.T) {
	b := open(t, engine.Options{Parallel: 1})
	long := job(0, "m", strings.Repeat("word ", 300)+"[[endless]] [[slow 5]]")
	wait := b.streaming(t.Context(), long)
	assert.Equal(t, len(long.Generate.Tokens), b.state(0).Longest)
	require.NoError(t, b.Close())
	_, err := wait()
	assert.Error(t, err)
	assert.Zero(t, b.state(0).Longest)
}

func TestRecyclingEndsRequestsWithTheReasonAndTheNextOneWorks(t *testing.T) {
	for name, options := range map[string]engine.Options{"in this process": {}, "processes": {Command: childProcess}} {
		t.Run(name, func(t *testing.T) {
			b := open(t, options)
			wait := b.streaming(t.Context(), job(0, "m", "[[endless]] [[slow 5]]"))
			b.Recycle("this computer was asleep")
			_, err := wait()
			assert.ErrorContains(t, err, "this computer was asleep")
			assert.False(t, exitOf(t, err).Fault)
			b.answers(0)
			assert.Empty(t, b.state(0).Quarantined)
		})
	}
}

func TestRecyclingInALoadEndsItAndTheNextOneWorks(t *testing.T) { // field report 40a
	b := open(t, engine.Options{Command: childProcess})
	failed := make(chan error, 1)
	go func() {
		_, err := b.run(t.Context(), job(0, "fake:slow-load-90s", "hello"))
		failed <- err
	}()
	until(t, "it loads", func() bool { return b.state(0).Loading != "" })
	b.Recycle("this computer was asleep")
	assert.ErrorContains(t, <-failed, "this computer was asleep")
	b.answers(0)
	assert.Empty(t, b.state(0).Quarantined)
}

func TestALoadThatNeverReturnsEndsWithItsProcess(t *testing.T) {
	b := open(t, engine.Options{Command: childProcess, LoadLimit: 2 * time.Second})
	_, err := b.run(t.Context(), job(0, "fake:slow-load-90s", "hello"))
	exit := exitOf(t, err)
	assert.True(t, exit.Fault)
	assert.ErrorContains(t, err, "took longer than 2s")
	b.answers(0)
}
