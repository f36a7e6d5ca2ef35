package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
)

// The tests here use real child processes that run the fake.

func openReal(t testing.TB, options engine.Options) bench {
	options.Command = childProcess
	if options.Pause == 0 {
		options.Pause = time.Millisecond
	}
	return open(t, options)
}

// kill ends the child of a device as kill -9 does.
func (b bench) kill(device int) {
	b.t.Helper()
	pid := b.state(device).PID
	require.NotZero(b.t, pid)
	process, err := os.FindProcess(pid)
	require.NoError(b.t, err)
	require.NoError(b.t, process.Kill())
}

func TestAKilledChildFailsItsRequestsAndNothingElse(t *testing.T) {
	nothingLeft(t)
	b := openReal(t, engine.Options{})
	others, stop := context.WithCancel(t.Context())
	other := b.streaming(others, job(1, "m", "[[endless]] [[slow 1]]"))
	var read atomic.Bool
	reading := job(0, "m", "[[prefill 60000]]")
	reading.OnState = func(p engine.Progress) {
		if p.State == engine.Prefill {
			read.Store(true)
		}
	}
	for phase, c := range map[string]struct {
		job   engine.Job
		ready func() bool
	}{
		"load":    {job(0, "fake:slow-load-60s", "hello"), func() bool { return b.state(0).Phase.Name == "reading" }},
		"prefill": {reading, read.Load},
		"decode":  {job(0, "m", "[[endless]] [[slow 1]]"), nil},
	} {
		t.Run(phase, func(t *testing.T) {
			var err error
			if c.ready == nil {
				wait := b.streaming(t.Context(), c.job)
				b.kill(0)
				_, err = wait()
			} else {
				done := make(chan struct{})
				go func() { defer close(done); _, err = b.run(t.Context(), c.job) }()
				until(t, "ready to be killed", c.ready)
				b.kill(0)
				<-done
			}
			exit := exitOf(t, err)
			assert.Equal(t, phase, exit.Phase)
			assert.False(t, exit.Fault, "the OOM killer and people send that signal")
			assert.Contains(t, err.Error(), phase+" of "+c.job.Load.Model.Name+" on mock")
			assert.Empty(t, exit.Reason)
			b.answers(0)
		})
	}
	assert.True(t, b.state(1).Up)
	stop()
	_, err := other()
	assert.ErrorIs(t, err, context.Canceled, "the other device's stream went on")
	b.Close()
}

func TestTenKillsInARow(t *testing.T) {
	b := openReal(t, engine.Options{})
	for range 10 {
		wait := b.streaming(t.Context(), job(0, "m", "[[endless]] [[slow 1]]"))
		b.kill(0)
		_, err := wait()
		assert.Equal(t, "decode", exitOf(t, err).Phase)
	}
	b.answers(0)
	assert.Empty(t, b.state(0).Quarantined, "a kill is nobody's fault")
	assert.False(t, b.state(0).Restarting)
}

func TestPausesGrowUntilSomethingSucceeds(t *testing.T) {
	b := openReal(t, engine.Options{Pause: time.Second})
	var phases []string
	run := func(model string) error {
		j := job(0, model, "hello")
		phases = nil
		j.OnState = func(p engine.Progress) { phases = append(phases, p.Phase.Name) }
		_, err := b.run(t.Context(), j)
		return err
	}
	const restarting = "restarting the engine process"
	started := time.Now()
	for range 3 {
		exitOf(t, run("fake:die-load"))
	}
	assert.GreaterOrEqual(t, time.Since(started), time.Second, "0, then 1 s")
	require.NoError(t, run("m"))
	assert.Equal(t, restarting, phases[0], "2 s")
	assert.GreaterOrEqual(t, time.Since(started), 3*time.Second)
	for range 2 {
		exitOf(t, run("fake:die-load"))
		assert.NotContains(t, phases, restarting, "what succeeded begins the count again")
	}
}

// A prompt that crashes the runtime makes nobody else wait: the process starts fine each time.
func TestACrashingPromptDoesNotHoldUpOthers(t *testing.T) {
	b := openReal(t, engine.Options{Pause: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, prompt := range []string{"[[die-prefill]]", "[[die-after 1]]", "[[die]]", "[[die]]"} {
		_, err := b.run(ctx, job(0, "m", prompt))
		assert.True(t, exitOf(t, err).Fault)
	}
	for i := range 3 {
		_, err := b.Prepare(ctx, llm.PrepareRequest{Model: llm.ModelRef{Name: "m"}, Prompt: fmt.Sprint("[[die-prepare]]", i)})
		exitOf(t, err)
	}
	_, err := b.run(ctx, job(0, "m", "hello"))
	require.NoError(t, err)
}

func TestQuarantineNeedsThreeFaultsWithDifferentCauses(t *testing.T) {
	for name, c := range map[string]struct {
		model   string
		prompts []string
		phase   string
		want    bool
	}{
		"different requests": {"m", []string{"[[die-after 1]] a", "[[die-prefill]] b", "[[die]] c"}, "", true},
		"two of them":        {"m", []string{"[[die-after 1]] a", "[[die-prefill]] b"}, "", false},
		"a poison request":   {"m", []string{"[[die]] x", "[[die]] x", "[[die]] x", "[[die]] x", "[[die]] x"}, "prefill", false},
		"loads":              {"fake:die-load", []string{"x", "x", "x"}, "load", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := openReal(t, engine.Options{})
			for _, prompt := range c.prompts {
				_, err := b.run(t.Context(), job(0, c.model, prompt))
				exit := exitOf(t, err)
				assert.True(t, exit.Fault, exit.Status)
				if c.phase != "" {
					assert.Equal(t, c.phase, exit.Phase)
				}
			}
			if c.want {
				assert.Contains(t, b.state(0).Quarantined[c.model], "crashed mock 3 times")
			} else {
				assert.Empty(t, b.state(0).Quarantined)
			}
			assert.Empty(t, b.state(1).Quarantined)
			b.answers(0)
		})
	}
}

// A poison request beside others: whoever was there has a new print each time, the poison one not.
func TestAPoisonRequestAmongOthersQuarantinesNothing(t *testing.T) {
	b := openReal(t, engine.Options{})
	for i := range 4 {
		wait := b.streaming(t.Context(), job(0, "m", fmt.Sprintf("[[endless]] [[slow 1]] %d", i)))
		_, err := b.run(t.Context(), job(0, "m", "[[die]]"))
		exitOf(t, err)
		_, err = wait()
		exitOf(t, err)
	}
	assert.Empty(t, b.state(0).Quarantined)
	b.answers(0)
}

// A poisonous request of one model, beside a load of another: both were at work, and only one of them each time with something new.
func TestACrashBesideALoadIsNotBlamedOnIt(t *testing.T) {
	const slow = "fake:slow-load-90s"
	for name, poison := range map[string]string{"the same each time": "[[prefill 200]] [[die]]", "others": "[[prefill 200]] [[die]] %d"} {
		t.Run(name, func(t *testing.T) {
			b := openReal(t, engine.Options{})
			for i := range 4 {
				b.answers(0) // so that m is loaded, and no restart has to wait
				failed := make(chan error, 1)
				go func() {
					_, err := b.run(t.Context(), job(0, slow, "hello"))
					failed <- err
				}()
				until(t, "it loads", func() bool { return b.state(0).Loading == slow })
				_, err := b.run(t.Context(), job(0, "m", strings.ReplaceAll(poison, "%d", fmt.Sprint(i))))
				assert.True(t, exitOf(t, err).Fault)
				exitOf(t, <-failed)
			}
			assert.Empty(t, b.state(0).Quarantined)
		})
	}
}

// A load that crashes beside requests of other models is seen by what it does again and again.
func TestALoadThatCrashesIsFoundOutAmongOthers(t *testing.T) {
	b := openReal(t, engine.Options{})
	for _, beside := range []string{"a", "b", "c"} {
		wait := b.streaming(t.Context(), job(0, beside, "[[endless]] [[slow 1]]"))
		_, err := b.run(t.Context(), job(0, "fake:die-load", "hello"))
		exitOf(t, err)
		_, err = wait()
		exitOf(t, err)
	}
	assert.Contains(t, b.state(0).Quarantined["fake:die-load"], "crashed mock 3 times")
	assert.Len(t, b.state(0).Quarantined, 1, "the others were there once each")
}

func TestACrashInPrepareIsNotBlamedOnAnyModel(t *testing.T) {
	b := openReal(t, engine.Options{})
	for i := range 4 {
		_, err := b.Prepare(t.Context(), llm.PrepareRequest{Model: llm.ModelRef{Name: "m"}, Prompt: fmt.Sprint("[[die-prepare]]", i)})
		assert.Equal(t, "prepare", exitOf(t, err).Phase)
	}
	assert.Empty(t, b.state(0).Quarantined)
}

func TestPrepareOutlivesTheCrashOfAnother(t *testing.T) {
	b := openReal(t, engine.Options{})
	b.answers(0)
	for range 5 {
		var both sync.WaitGroup
		both.Go(func() { b.run(t.Context(), job(0, "m", "[[prefill 5]] [[die-prefill]]")) })
		for range 20 {
			_, err := b.Prepare(t.Context(), llm.PrepareRequest{Prompt: "hello"})
			assert.NoError(t, err)
		}
		both.Wait()
	}
}

func TestAFloodOnStderrHoldsUpNothing(t *testing.T) {
	var log bytes.Buffer
	b := openReal(t, engine.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	wait := b.streaming(t.Context(), job(0, "m", "[[endless]] [[slow 20]]"))
	text, err := b.run(t.Context(), job(0, "m", "[[flood 100]]"))
	require.NoError(t, err)
	assert.Equal(t, llmtest.Canned, text)
	b.kill(0)
	_, err = wait()
	exitOf(t, err)
	b.Close()
	assert.Less(t, log.Len(), 4<<20, "the log is bounded")
	assert.Contains(t, log.String(), "a native library has much to say")
}

func TestNoiseInTheFramesEndsTheChildWithOneSentence(t *testing.T) {
	b := openReal(t, engine.Options{})
	_, err := b.run(t.Context(), job(0, "m", "[[garbage]]"))
	exit := exitOf(t, err)
	assert.False(t, exit.Fault)
	assert.Contains(t, exit.Reason, "bytes that are no frame: 5b 57 41 52")
	b.answers(0)
}

func TestAHangingChildIsReplaced(t *testing.T) {
	b := openReal(t, engine.Options{Parallel: 1, Patience: 50 * time.Millisecond, HangLimit: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	wait := b.streaming(ctx, job(0, "m", "[[hang-after 1]]"))
	pid := b.state(0).PID
	cancel()
	_, err := wait()
	assert.ErrorIs(t, err, context.Canceled)
	b.answers(0)
	assert.NotEqual(t, pid, b.state(0).PID)
}

func TestARuntimeErrorReplacesTheChildWhenItIsFree(t *testing.T) {
	b := openReal(t, engine.Options{})
	b.answers(0)
	pid := b.state(0).PID
	_, err := b.run(t.Context(), job(0, "m", "[[error-after 2]]"))
	assert.Equal(t, llm.CodeEngine, llm.CodeOf(err))
	b.answers(0)
	assert.NotEqual(t, pid, b.state(0).PID, "nothing is unloaded from a device that reported an error")
}

func TestAStartThatFailsSaysWhy(t *testing.T) {
	t.Run("no such program", func(t *testing.T) {
		b := open(t, engine.Options{Command: func(llm.Device) engine.Command { return engine.Command{Path: "/no/such/program"} }})
		_, err := b.run(t.Context(), job(0, "m", "hello"))
		assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
		assert.ErrorContains(t, err, "start the engine process for mock")
		assert.ErrorContains(t, err, "install Signalbox again")
	})
	t.Run("it ends at once", func(t *testing.T) {
		b := open(t, engine.Options{Command: func(d llm.Device) engine.Command {
			c := childProcess(d)
			c.Env, c.Args = nil, []string{"-test.run=^$", "-no.such.flag"}
			return c
		}})
		_, err := b.Devices(t.Context())
		assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
		assert.ErrorContains(t, err, "exit status 2")
	})
}

func TestDevicesComeFromAChildThatEnds(t *testing.T) {
	nothingLeft(t)
	b := openReal(t, engine.Options{})
	states, err := b.Devices(t.Context())
	require.NoError(t, err)
	assert.Len(t, states, 2)
	assert.Zero(t, states[0].PID)
	b.Close()
}

func TestRandomLeaversOnRealProcesses(t *testing.T) {
	nothingLeft(t)
	b := openReal(t, engine.Options{})
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i*7%300)*time.Millisecond)
			defer cancel()
			_, err := b.run(ctx, job(i%2, "m", "[[tokens 50]] [[slow 1]]"))
			if err != nil {
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			}
		})
	}
	all.Wait()
	for device := range 2 {
		until(t, "no turn is taken", func() bool { return b.state(device).Running == 0 })
		b.answers(device)
	}
	b.Close()
}

func TestNoChildOutlivesAKilledParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=parent")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var children []int
	lines := bufio.NewScanner(stdout)
	for len(children) < 2 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		require.True(t, running(pid))
		children = append(children, pid)
	}
	require.Len(t, children, 2)
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	for _, pid := range children {
		until(t, fmt.Sprintf("child %d ends", pid), func() bool { return !running(pid) })
	}
}

func TestAnotherVersionOfTheProgramIsNotUsed(t *testing.T) {
	b := open(t, engine.Options{Command: func(d llm.Device) engine.Command {
		c := childProcess(d)
		c.Env = []string{role + "=updated"}
		return c
	}})
	_, err := b.run(t.Context(), job(0, "m", "hello"))
	assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
	assert.ErrorContains(t, err, "restart Signalbox to finish the update")
}
