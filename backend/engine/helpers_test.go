package engine_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
	"signalbox/internal/pipe"
)

const role = "SIGNALBOX_TEST_ROLE"

// raceEndsAtOnce keeps the race detector from holding each child for a second when it exits.
const raceEndsAtOnce = "GORACE=atexit_sleep_ms=0"

// TestMain is also the engine process of these tests, and the parent of one that is to be killed.
func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "child":
		llmtest.Child(llmtest.Options{Devices: []llm.Device{mock(0), mock(1)}})
	case "updated":
		pipe.Main(pipe.Config{Build: "0.0.1"}, func(io.Writer) (llm.Runner, error) { return llmtest.NewFake(llmtest.Options{}), nil })
	case "parent":
		beParent()
	}
	os.Exit(m.Run())
}

func mock(index int) llm.Device { return llmtest.MockDevice(index) }

// childProcess starts this test program as the fake engine.
func childProcess(llm.Device) engine.Command {
	path, err := engine.Self()
	if err != nil {
		panic(err)
	}
	return engine.Command{Path: path, Env: []string{role + "=child", raceEndsAtOnce}}
}

// inProcess runs a fake per start, without processes.
func inProcess(llm.Device) (llm.Runner, error) {
	return llmtest.NewFake(llmtest.Options{Devices: []llm.Device{mock(0), mock(1)}}), nil
}

// bench is an engine under test.
type bench struct {
	*engine.Engine
	t testing.TB
}

func open(t testing.TB, options engine.Options) bench {
	options.Fake = true
	if options.InProcess == nil && options.Command == nil {
		options.InProcess = inProcess
	}
	b := bench{engine.New(options), t}
	t.Cleanup(func() { b.Close() })
	return b
}

func chatModel(name string) llm.LoadRequest {
	return llm.LoadRequest{Model: llm.ModelRef{Name: name, Dir: "/models/" + name}}
}

// job is a request with a prompt for the fake. Nothing is prepared in the engine: tokens come from a fake of their own.
func job(device int, model, prompt string) engine.Job {
	fake := llmtest.NewFake(llmtest.Options{})
	defer fake.Close()
	prepared, err := fake.Prepare(context.Background(), llm.PrepareRequest{Messages: []llm.Message{{Role: "user", Content: prompt}}})
	if err != nil {
		panic(err)
	}
	load := chatModel(model)
	return engine.Job{
		Device: mock(device), Load: load,
		Generate: llm.GenerateRequest{Model: load.Model, Tokens: prepared.Tokens},
		OnDelta:  func(llm.Delta) error { return nil },
	}
}

// run runs a job and returns its text.
func (b bench) run(ctx context.Context, j engine.Job) (string, error) {
	var text strings.Builder
	tell := j.OnDelta
	j.OnDelta = func(d llm.Delta) error {
		text.WriteString(d.Text)
		return tell(d)
	}
	_, err := b.Run(ctx, j)
	return text.String(), err
}

func (b bench) answers(device int) {
	b.t.Helper()
	text, err := b.run(b.t.Context(), job(device, "m", "hello"))
	require.NoError(b.t, err)
	require.Equal(b.t, llmtest.Canned, text)
}

func (b bench) state(device int) engine.State {
	for _, s := range b.States() {
		if s.Device.ID() == mock(device).ID() {
			return s
		}
	}
	return engine.State{}
}

// until waits for a condition that another goroutine brings about.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("not in 20 s: %s\n%s", what, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// nothingLeft checks that the test leaves no goroutine.
func nothingLeft(t testing.TB) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		until(t, fmt.Sprintf("back to %d goroutines", before), func() bool { return runtime.NumGoroutine() <= before })
	})
}

// streaming starts a job and returns when its first delta has come. wait returns its result.
func (b bench) streaming(ctx context.Context, j engine.Job) (wait func() (string, error)) {
	b.t.Helper()
	first := make(chan struct{})
	var once sync.Once
	j.OnDelta = func(llm.Delta) error {
		once.Do(func() { close(first) })
		return nil
	}
	var text string
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, err = b.run(ctx, j)
	}()
	select {
	case <-first:
	case <-done:
		require.NoError(b.t, err, "before the first delta")
	}
	return func() (string, error) { <-done; return text, err }
}

func exitOf(t testing.TB, err error) *engine.Exit {
	t.Helper()
	var exit *engine.Exit
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, llm.CodeEngine, llm.CodeOf(err))
	return exit
}
