package backend

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/internal/config"
	"signalbox/internal/runtime"
)

func changeEngine(t *testing.T, b *Backend, queueLimit int) {
	t.Helper()
	require.NoError(t, b.ChangeSettings(func(s *config.Settings) error {
		s.QueueLimit = queueLimit
		return nil
	}))
}

func prepare(b *Backend, eng *engine.Engine) error {
	model, err := b.library.Find(starter)
	if err == nil {
		_, err = eng.Prepare(context.Background(), llm.PrepareRequest{Model: model.Ref(), Messages: []llm.Message{{Role: "user", Content: "hello"}}})
	}
	return err
}

func TestAnEngineOfEarlierSettingsEndsWithItsLastUser(t *testing.T) {
	b, _ := start(t, t.TempDir())
	old, release, err := b.engine.ready(t.Context())
	require.NoError(t, err)
	_, other := b.engine.use()
	changeEngine(t, b, 7)
	require.NotSame(t, old, b.engine.current())
	other()
	other() // counts once
	require.NoError(t, prepare(b, old), "who has it, although nothing runs in it now, goes on")
	release()
	eventually(t, "it is closed", func() bool { return llm.CodeOf(prepare(b, old)) == llm.CodeStopped })
	require.NoError(t, prepare(b, b.engine.current()))
}

func TestAnEngineThatIsNotLeftIsClosedAfterAWhileAndAtTheEnd(t *testing.T) {
	usual := retireLimit
	b, stop := start(t, t.TempDir())
	defer func() { retireLimit = usual }()
	retireLimit = 10 * time.Millisecond
	slow, _ := b.engine.use()
	changeEngine(t, b, 7)
	eventually(t, "it is closed", func() bool { return llm.CodeOf(prepare(b, slow)) == llm.CodeStopped })
	stop()

	b, stop = start(t, t.TempDir())
	held, _ := b.engine.use()
	retireLimit = time.Hour
	changeEngine(t, b, 8)
	stop()
	assert.Equal(t, llm.CodeStopped, llm.CodeOf(prepare(b, held)))
}

// finding is engines whose runtime is looked for by find.
func finding(t *testing.T, find func() (runtime.Runtime, error)) *engines {
	usual := findRuntime
	findRuntime = func(string, string, string) (runtime.Runtime, error) { return find() }
	b := &Backend{log: slog.New(slog.DiscardHandler), settings: config.Default()}
	e, err := newEngines(b)
	require.NoError(t, err)
	b.engine = e
	t.Cleanup(func() {
		assert.NoError(t, e.Close())
		findRuntime = usual
	})
	return e
}

func TestTheRuntimeIsLookedForOnceWhileTheStatusIsDrawn(t *testing.T) {
	var looks atomic.Int32
	let := make(chan struct{})
	e := finding(t, func() (runtime.Runtime, error) {
		looks.Add(1)
		<-let
		return runtime.Runtime{}, errors.New("it is missing")
	})
	results := make(chan error)
	for range 3 {
		go func() { _, err := e.Devices(context.Background()); results <- err }()
	}
	eventually(t, "one looks", func() bool { return looks.Load() == 1 })
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := e.Devices(gone)
	assert.ErrorIs(t, err, context.Canceled, "who leaves does not wait")
	assert.Zero(t, e.runtimeStatus(), "nor does the status")
	e.mu.Lock()
	assert.Equal(t, e.look(e.now), e.look(e.now), "they share one look")
	e.mu.Unlock()
	assert.EqualValues(t, 1, looks.Load())
	close(let)
	for range 3 {
		assert.EqualError(t, <-results, "it is missing")
	}
	assert.Equal(t, "it is missing", e.runtimeStatus().Error)
	before := looks.Load()
	_, err = e.Devices(t.Context())
	assert.EqualError(t, err, "it is missing")
	assert.Equal(t, before+1, looks.Load(), "the next one looks again")
}

func TestTheFirstRecordNamesTheRuntime(t *testing.T) { // L14
	e := finding(t, func() (runtime.Runtime, error) { return runtime.Runtime{Version: "1.2.3"}, nil })
	assert.Empty(t, e.provider())
	assert.Equal(t, "openvino/1.2.3", e.named())
	assert.Equal(t, "openvino/1.2.3", e.provider())
}

func TestNoMemoryForConversationsIsPassedOnAsNone(t *testing.T) {
	e := finding(t, func() (runtime.Runtime, error) { return runtime.Runtime{}, errors.New("not needed") })
	args := e.command(&tenure{settings: engineSettings{slotMemoryMB: 0}}, llm.Device{Class: llm.CPU, Runtime: "CPU"}).Args
	at := slices.Index(args, "--slot-memory")
	require.Positive(t, at)
	assert.Equal(t, "0", args[at+1])
}
