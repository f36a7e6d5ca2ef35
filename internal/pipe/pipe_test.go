package pipe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
	"signalbox/internal/pipe"
)

// TestMain is also the engine process of these tests.
func TestMain(m *testing.M) {
	switch os.Getenv("PIPE_TEST_CHILD") {
	case "fake":
		llmtest.Child(llmtest.Options{})
	case "broken":
		pipe.Main(pipe.Config{}, func(io.Writer) (llm.Runner, error) {
			return nil, llm.Errorf(llm.CodeUnavailable, "no runtime here")
		})
	case "leaving":
		pipe.Main(pipe.Config{}, func(io.Writer) (llm.Runner, error) { return leaving{llmtest.NewFake(llmtest.Options{})}, nil })
	}
	os.Exit(m.Run())
}

// leaving leaves a file.
type leaving struct{ llm.Runner }

func (leaving) Leave() { _ = os.WriteFile(os.Getenv("PIPE_TEST_LEFT"), nil, 0o600) }

var (
	chatModel  = llm.LoadRequest{Model: llm.ModelRef{Name: "smollm2:135m"}}
	embedModel = llm.LoadRequest{Model: llm.ModelRef{Name: "all-minilm"}, Embedding: true}
)

// link is a Client and a Serve in this process.
type link struct {
	*pipe.Client
	toChild io.Writer // the raw stream
	served  chan error
}

func connect(t *testing.T, runner llm.Runner, config pipe.Config) *link {
	t.Helper()
	childIn, parentOut := io.Pipe()
	parentIn, childOut := io.Pipe()
	l := &link{Client: pipe.NewClient(parentIn, parentOut, config), toChild: parentOut, served: make(chan error, 1)}
	go func() {
		err := config.Serve(context.Background(), runner, childIn, childOut)
		childIn.Close()
		childOut.Close()
		l.served <- err
	}()
	t.Cleanup(func() { l.Client.Close() })
	return l
}

func fakeLink(t *testing.T, config pipe.Config) *link {
	fake := llmtest.NewFake(llmtest.Options{})
	t.Cleanup(func() { fake.Close() })
	l := connect(t, fake, config)
	_, err := l.Load(t.Context(), chatModel, nil)
	require.NoError(t, err)
	return l
}

func tokens(t *testing.T, r llm.Runner, text string) []int32 {
	t.Helper()
	prompt, err := r.Prepare(t.Context(), llm.PrepareRequest{Model: chatModel.Model, Messages: []llm.Message{{Role: "user", Content: text}}})
	require.NoError(t, err)
	return prompt.Tokens
}

func say(ctx context.Context, r llm.Runner, tokens []int32, emit func(llm.Delta) error) (string, llm.Stats, error) {
	var text strings.Builder
	stats, err := r.Generate(ctx, llm.GenerateRequest{Model: chatModel.Model, Tokens: tokens}, func(d llm.Delta) error {
		text.WriteString(d.Text)
		if emit != nil {
			return emit(d)
		}
		return nil
	})
	return text.String(), stats, err
}

func TestClientPassesTheConformanceTests(t *testing.T) {
	llmtest.Run(t, func(t *testing.T) llmtest.Subject {
		fake := llmtest.NewFake(llmtest.Options{})
		t.Cleanup(func() { fake.Close() })
		return llmtest.Subject{Runner: connect(t, fake, pipe.Config{}), Chat: chatModel, Embed: embedModel}
	})
}

// startChild starts this test program as an engine process.
func startChild(t *testing.T, env ...string) (*pipe.Client, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "PIPE_TEST_CHILD=fake"), env...)
	childIn, in, err := os.Pipe()
	require.NoError(t, err)
	out, childOut, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout = childIn, childOut
	require.NoError(t, cmd.Start())
	childIn.Close()
	childOut.Close()
	client := pipe.NewClient(out, in, pipe.Config{})
	t.Cleanup(func() {
		client.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return client, cmd
}

func TestRealProcessPassesTheConformanceTests(t *testing.T) {
	llmtest.Run(t, func(t *testing.T) llmtest.Subject {
		client, _ := startChild(t)
		return llmtest.Subject{Runner: client, Chat: chatModel, Embed: embedModel}
	})
}

func TestRunnerIsToldThatItsParentEndsTheProcess(t *testing.T) {
	left := filepath.Join(t.TempDir(), "left")
	client, cmd := startChild(t, "PIPE_TEST_CHILD=leaving", "PIPE_TEST_LEFT="+left)
	_, err := client.Load(t.Context(), chatModel, nil)
	require.NoError(t, err)
	assert.NoFileExists(t, left)
	client.Close()
	require.NoError(t, cmd.Wait())
	assert.FileExists(t, left)
}

func TestHelloNamesBuildAndProcess(t *testing.T) {
	client, cmd := startChild(t)
	hello, err := client.Hello(t.Context())
	require.NoError(t, err)
	assert.Equal(t, pipe.Hello{Build: pipe.Build(), PID: cmd.Process.Pid}, hello)
}

func TestChildEndsWithItsParentsStreamEvenInANativeCall(t *testing.T) {
	client, cmd := startChild(t)
	_, err := client.Load(t.Context(), chatModel, nil)
	require.NoError(t, err)
	prompt := tokens(t, client, "[[hang-after 1]]")
	hanging := make(chan struct{})
	go say(context.Background(), client, prompt, func(llm.Delta) error { close(hanging); return nil })
	<-hanging
	client.Close()
	require.NoError(t, cmd.Wait(), "it ends with status 0")
}

func TestAChildLostInItsPromptLeavesTheSizeOfThePrompt(t *testing.T) {
	client, _ := startChild(t)
	_, err := client.Load(t.Context(), chatModel, nil)
	require.NoError(t, err)
	prompt := tokens(t, client, "[[die-prefill]]")
	_, stats, err := say(t.Context(), client, prompt, nil)
	assert.ErrorIs(t, err, pipe.ErrLost)
	assert.Equal(t, llm.Stats{PromptTokens: len(prompt)}, stats)
}

func TestPrintingOnStdoutDoesNotReachTheFrames(t *testing.T) {
	client, _ := startChild(t)
	_, err := client.Load(t.Context(), chatModel, nil)
	require.NoError(t, err)
	// the child's stderr is the null device here
	text, _, err := say(t.Context(), client, tokens(t, client, "[[flood 2]]"), nil)
	require.NoError(t, err)
	assert.Equal(t, llmtest.Canned, text)
}

func TestNoiseInTheStreamEndsTheConnection(t *testing.T) {
	client, _ := startChild(t)
	_, err := client.Load(t.Context(), chatModel, nil)
	require.NoError(t, err)
	_, _, err = say(t.Context(), client, tokens(t, client, "[[garbage]]"), nil)
	require.ErrorIs(t, err, pipe.ErrLost)
	assert.Equal(t, llm.CodeEngine, llm.CodeOf(err))
	assert.ErrorContains(t, client.Reason(), "bytes that are no frame")
	assert.NotErrorIs(t, client.Reason(), pipe.ErrEnded)
	<-client.Done()
	_, err = client.Devices(t.Context())
	assert.ErrorIs(t, err, pipe.ErrLost, "later calls know too")
}

func TestErrorsTravelWhole(t *testing.T) {
	l := fakeLink(t, pipe.Config{})
	_, err := l.Prepare(t.Context(), llm.PrepareRequest{Prompt: strings.Repeat("word ", 100), Limit: 9})
	e, ok := errors.AsType[*llm.Error](err)
	require.True(t, ok)
	assert.Equal(t, llm.CodeContextLength, e.Code)
	assert.Equal(t, 9, e.Limit)
	assert.Greater(t, e.Value, 9)
}

func TestAPanicIsTheErrorOfItsRequestAlone(t *testing.T) {
	l := fakeLink(t, pipe.Config{})
	_, stats, err := say(t.Context(), l, tokens(t, l, "[[panic]]"), nil)
	assert.Equal(t, llm.CodeInternal, llm.CodeOf(err))
	assert.ErrorContains(t, err, "panicked during generate")
	assert.Equal(t, 2, stats.CompletionTokens, "what was seen until then")
	_, _, err = say(t.Context(), l, tokens(t, l, "hello"), nil)
	assert.NoError(t, err)
}

func TestARequestThatIsTooLargeIsRefusedBeforeItLeaves(t *testing.T) {
	l := fakeLink(t, pipe.Config{})
	_, err := l.Prepare(t.Context(), llm.PrepareRequest{Prompt: strings.Repeat("x", pipe.MaxFrame)})
	assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
	_, err = l.Devices(t.Context())
	assert.NoError(t, err)
}

func TestManyLargeEmbeddingsComeInOrder(t *testing.T) {
	l := fakeLink(t, pipe.Config{})
	_, err := l.Load(t.Context(), embedModel, nil)
	require.NoError(t, err)
	var inputs []string
	for i := range 12_000 { // 24 MB of vectors, 6 MB of text: neither fits one frame
		inputs = append(inputs, fmt.Sprintf("%05d %s", i, strings.Repeat("x", 500)))
	}
	ended := 0
	all, err := l.Embed(pipe.OnEnd(t.Context(), func() { ended++ }), llm.EmbedRequest{Model: embedModel.Model, Inputs: inputs})
	require.NoError(t, err)
	require.Len(t, all.Vectors, len(inputs))
	assert.Equal(t, 1, ended)
	for _, i := range []int{0, 5_000, 11_999} {
		one, err := l.Embed(t.Context(), llm.EmbedRequest{Model: embedModel.Model, Inputs: inputs[i : i+1]})
		require.NoError(t, err)
		assert.Equal(t, one.Vectors[0], all.Vectors[i])
	}
}

// counting is a runner that emits as fast as it is let, and counts.
type counting struct {
	llm.Runner
	emitted atomic.Int64
	total   int
	ended   chan error
}

func (c *counting) Generate(ctx context.Context, _ llm.GenerateRequest, emit func(llm.Delta) error) (llm.Stats, error) {
	var stats llm.Stats
	for i := range c.total {
		if err := emit(llm.Delta{Text: "x", Tokens: i + 1}); err != nil {
			c.ended <- err
			return stats, err
		}
		c.emitted.Add(1)
		stats.CompletionTokens++
	}
	c.ended <- nil
	return stats, nil
}

func (c *counting) Devices(context.Context) ([]llm.Device, error) {
	return []llm.Device{llmtest.MockDevice(0)}, nil
}

func TestAtMostAWindowOfDeltasWaitsForAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner := &counting{total: 5000, ended: make(chan error, 1)}
		l := connect(t, runner, pipe.Config{})
		resume := make(chan struct{})
		result := make(chan error, 1)
		var read atomic.Int64
		go func() {
			_, _, err := say(t.Context(), l, nil, func(llm.Delta) error {
				if read.Add(1) == 1 {
					<-resume
				}
				return nil
			})
			result <- err
		}()
		synctest.Wait()
		assert.EqualValues(t, 256, runner.emitted.Load())
		_, err := l.Devices(t.Context())
		require.NoError(t, err, "others are not held up")
		close(resume)
		require.NoError(t, <-result)
		assert.EqualValues(t, 5000, read.Load())
		l.Close()
		<-l.served
	})
}

func TestAReaderThatStopsIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner := &counting{total: 5000, ended: make(chan error, 1)}
		l := connect(t, runner, pipe.Config{})
		resume := make(chan struct{})
		result := make(chan error, 1)
		freed := make(chan time.Duration, 1)
		started := time.Now()
		go func() {
			ctx := pipe.OnEnd(t.Context(), func() { freed <- time.Since(started) })
			_, _, err := say(ctx, l, nil, func(llm.Delta) error { <-resume; return nil })
			result <- err
		}()
		assert.Equal(t, llm.CodeCancelled, llm.CodeOf(<-runner.ended))
		assert.Equal(t, 30*time.Second, <-freed, "the child is free although the caller still stands")
		close(resume)
		assert.ErrorContains(t, <-result, "took nothing of the answer for 30s")
		l.Close()
		<-l.served
	})
}

func TestASlowButSteadyReaderIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner := &counting{total: 300, ended: make(chan error, 1)}
		l := connect(t, runner, pipe.Config{})
		_, stats, err := say(t.Context(), l, nil, func(llm.Delta) error { time.Sleep(20 * time.Second); return nil })
		require.NoError(t, err)
		assert.Equal(t, 300, stats.CompletionTokens)
		l.Close()
		<-l.served
	})
}

func TestACallThatCannotBeInterruptedIsLeftAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := llmtest.NewFake(llmtest.Options{})
		l := connect(t, fake, pipe.Config{})
		_, err := l.Load(t.Context(), chatModel, nil)
		require.NoError(t, err)
		prompt := tokens(t, l, "[[prefill 20000]]")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		ended := make(chan time.Duration, 1)
		started := time.Now()
		_, _, err = say(pipe.OnEnd(ctx, func() { ended <- time.Since(started) }), l, prompt, nil)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 6*time.Second, time.Since(started))
		assert.Equal(t, 20*time.Second, <-ended, "the child says when it was really done")
		l.Close()
		<-l.served
		fake.Close()
	})
}

func TestASilentChildIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := io.Pipe()
		_, out := io.Pipe()
		toNobody := &swallow{out}
		client := pipe.NewClient(in, toNobody, pipe.Config{})
		started := time.Now()
		_, err := client.Devices(t.Context())
		assert.ErrorIs(t, err, pipe.ErrLost)
		assert.ErrorContains(t, err, "did not answer for 30s")
		assert.LessOrEqual(t, time.Since(started), 34*time.Second)
		client.Close()
	})
}

// swallow takes everything and answers nothing.
type swallow struct{ *io.PipeWriter }

func (swallow) Write(p []byte) (int, error) { return len(p), nil }

func TestPingsAreAnsweredDuringANativeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := llmtest.NewFake(llmtest.Options{})
		l := connect(t, fake, pipe.Config{})
		_, err := l.Load(t.Context(), chatModel, nil)
		require.NoError(t, err)
		_, _, err = say(t.Context(), l, tokens(t, l, "[[prefill 600000]]"), nil)
		require.NoError(t, err, "ten minutes of silence from the runner are none from the process")
		l.Close()
		<-l.served
		fake.Close()
	})
}

func TestAWriteThatNobodyTakesEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := io.Pipe()
		_, out := io.Pipe()
		client := pipe.NewClient(in, out, pipe.Config{Write: 10 * time.Second, Silence: time.Hour})
		_, err := client.Devices(t.Context())
		assert.ErrorContains(t, err, "was not taken within 10s")
		client.Close()
	})
}

func TestACancelIsNotHeldUpByABlockedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := io.Pipe()
		_, out := io.Pipe() // nobody reads
		client := pipe.NewClient(in, out, pipe.Config{Write: time.Hour, Silence: time.Hour})
		go client.Devices(t.Context()) // its write blocks
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		ended := make(chan struct{})
		go func() { _, err := client.Devices(pipe.OnEnd(ctx, func() { close(ended) })); result <- err }()
		synctest.Wait()
		started := time.Now()
		cancel()
		assert.ErrorIs(t, <-result, context.Canceled)
		<-ended
		assert.Zero(t, time.Since(started), "its request had not left: it is taken back at once")
		client.Close()
	})
}

func TestFramesOutOfPlaceEndTheConnection(t *testing.T) {
	l := fakeLink(t, pipe.Config{})
	fmt.Fprint(l.toChild, "GET / HTTP/1.1\r\n\r\n")
	assert.ErrorContains(t, <-l.served, "bytes that are no frame: 47 45 54 20")
	<-l.Done()
}

func TestManyStreamsWithRandomLeaversStayWhole(t *testing.T) {
	l := fakeLink(t, pipe.Config{Window: 8})
	long := tokens(t, l, "[[tokens 300]]")
	want, _, err := say(t.Context(), l, long, nil)
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			text, _, err := say(ctx, l, long, func(llm.Delta) error {
				if n++; i%3 == 0 && n == i {
					cancel()
				}
				return nil
			})
			if i%3 == 0 && i > 0 {
				assert.ErrorIs(t, err, context.Canceled)
			} else if assert.NoError(t, err) {
				assert.Equal(t, want, text)
			}
		})
	}
	all.Wait()
}

// The engine ends a child and buries it at once: both close its connection.
func TestSeveralMayCloseAtOnce(t *testing.T) {
	for range 300 {
		l := connect(t, llmtest.NewFake(llmtest.Options{}), pipe.Config{})
		l.toChild.(io.Closer).Close() // its goroutines end by themselves meanwhile
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { l.Client.Close() })
		}
		all.Wait()
	}
}

func TestNoGoroutineIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		l := fakeLink(t, pipe.Config{})
		_, _, err := say(t.Context(), l, tokens(t, l, "hello"), nil)
		require.NoError(t, err)
		l.Close()
		<-l.served
	}
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(bytes.TrimSpace(buf[:runtime.Stack(buf, true)]))
}

func TestAnEngineThatCannotOpenAnswersEveryRequestWithTheReason(t *testing.T) {
	client, _ := startChild(t, "PIPE_TEST_CHILD=broken")
	for range 2 {
		_, err := client.Devices(t.Context())
		assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
		assert.ErrorContains(t, err, "no runtime here")
	}
}
