package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
)

// The tests here run the fake in this process, where they can, on a synthetic clock.

func TestARequestGoesThroughLoadAndPrefill(t *testing.T) {
	nothingLeft(t)
	b := open(t, engine.Options{})
	var states []string
	var times engine.Times
	j := job(0, "m", "[[say Oslo]]")
	j.Times = &times
	j.OnState = func(p engine.Progress) { states = append(states, p.State+" "+p.Phase.Name) }
	text, err := b.run(t.Context(), j)
	require.NoError(t, err)
	assert.Equal(t, "Oslo", text)
	assert.Equal(t, "prefill ", states[len(states)-1])
	assert.Positive(t, times.Load)
	assert.Zero(t, b.state(0).Running)
	require.Len(t, b.Loaded(), 1)
	assert.Equal(t, "m", b.Loaded()[0].Model.Name)
	b.Close()
}

func TestDevicesAreFoundOnce(t *testing.T) {
	starts := 0
	b := open(t, engine.Options{InProcess: func(d llm.Device) (llm.Runner, error) { starts++; return inProcess(d) }})
	for range 3 {
		states, err := b.Devices(t.Context())
		require.NoError(t, err)
		require.Len(t, states, 2)
		assert.Equal(t, "mock:1", states[1].Device.ID())
		assert.False(t, states[0].Up, "the child that looked has ended")
	}
	assert.Equal(t, 1, starts)
}

func TestEmulateAddsAnNPU(t *testing.T) {
	b := open(t, engine.Options{Emulate: true})
	states, err := b.Devices(t.Context())
	require.NoError(t, err)
	npu := states[len(states)-1]
	assert.Equal(t, "NPU (emulated on CPU)", npu.Device.Label())
	assert.Equal(t, 1, npu.Parallel)
}

func TestTheQueueTellsPositionsAndKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{Parallel: 1})
		first := b.streaming(t.Context(), job(0, "m", "[[slow 1000]]"))
		var mu sync.Mutex
		positions := map[int][]int{}
		var order []int
		var waiting sync.WaitGroup
		leave, left := context.WithCancel(t.Context())
		for i := 1; i <= 3; i++ {
			ctx := t.Context()
			if i == 2 {
				ctx = leave
			}
			waiting.Go(func() {
				j := job(0, "m", "[[slow 10]]")
				j.OnState = func(p engine.Progress) {
					mu.Lock()
					defer mu.Unlock()
					if p.State == engine.Queued {
						positions[i] = append(positions[i], p.Position)
					}
					if p.State == engine.Prefill {
						order = append(order, i)
					}
				}
				started := time.Now()
				if _, err := b.run(ctx, j); i == 2 {
					assert.ErrorIs(t, err, context.Canceled)
					assert.Zero(t, time.Since(started), "who leaves the queue is gone at once")
				} else {
					assert.NoError(t, err)
				}
			})
			synctest.Wait() // in this order
		}
		assert.Equal(t, 3, b.state(0).Queued)
		left()
		synctest.Wait()
		assert.Equal(t, 2, b.state(0).Queued)
		_, err := first()
		require.NoError(t, err)
		waiting.Wait()
		assert.Equal(t, map[int][]int{1: {1}, 2: {2}, 3: {3, 2, 1}}, positions)
		assert.Equal(t, []int{1, 3}, order)
		b.Close()
	})
}

func TestAFullQueueAnswersInOllamasWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{Parallel: 1, QueueLimit: 1})
		ctx, cancel := context.WithCancel(t.Context())
		b.streaming(ctx, job(0, "m", "[[endless]] [[slow 10]]"))
		go b.run(ctx, job(0, "m", "hello"))
		synctest.Wait()
		_, err := b.run(t.Context(), job(0, "m", "hello"))
		assert.Equal(t, llm.CodeOverloaded, llm.CodeOf(err))
		assert.EqualError(t, err, "server busy, please try again.  maximum pending requests exceeded")
		cancel()
		synctest.Wait()
		b.Close()
	})
}

// loads counts the loads of the fakes it makes.
type loads struct{ n atomic.Int64 }

type countingLoads struct {
	llm.Runner
	n *atomic.Int64
}

func (c countingLoads) Load(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (llm.Loaded, error) {
	c.n.Add(1)
	return c.Runner.Load(ctx, req, progress)
}

func (l *loads) open(d llm.Device) (llm.Runner, error) {
	fake, err := inProcess(d)
	return countingLoads{fake, &l.n}, err
}

func TestAllShareOneLoadAndALeaverDoesNotStopIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loads
		b := open(t, engine.Options{InProcess: l.open})
		leave, left := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 4 {
			ctx := t.Context()
			if i == 0 {
				ctx = leave // the one that began the load
			}
			all.Go(func() {
				started := time.Now()
				_, err := b.run(ctx, job(0, "fake:slow-load-90s", "hello"))
				if i == 0 {
					assert.ErrorIs(t, err, context.Canceled)
					assert.Equal(t, time.Second, time.Since(started))
					return
				}
				assert.NoError(t, err)
				assert.Equal(t, 90*time.Second, time.Since(started))
			})
			synctest.Wait()
		}
		s := b.state(0)
		assert.Equal(t, "fake:slow-load-90s", s.Loading)
		assert.Equal(t, "reading", s.Phase.Name)
		time.Sleep(time.Second)
		left()
		all.Wait()
		assert.EqualValues(t, 1, l.n.Load())
		assert.Equal(t, 90*time.Second, b.state(0).Speeds["fake:slow-load-90s"].Load)
		b.Close()
	})
}

func TestALoadThatNobodyWantsAnyMoreIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{Parallel: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.run(ctx, job(0, "fake:slow-load-90s", "hello"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Zero(t, b.state(0).Running)
		assert.Empty(t, b.state(0).Loading)
		b.answers(0)
		b.Close()
	})
}

// stuck is a runner whose loads are native calls: nothing interrupts them.
type stuck struct{ *llmtest.Fake }

func (s stuck) Load(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (llm.Loaded, error) {
	loaded, err := s.Fake.Load(context.WithoutCancel(ctx), req, progress)
	return loaded, err
}

func TestANativeLoadThatNobodyWantsEndsWithItsChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		b := open(t, engine.Options{Parallel: 1, InProcess: func(llm.Device) (llm.Runner, error) {
			starts++
			return stuck{llmtest.NewFake(llmtest.Options{})}, nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		started := time.Now()
		_, err := b.run(ctx, job(0, "fake:slow-load-90s", "hello"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(started), "the caller is gone at once")
		assert.Equal(t, 1, b.state(0).Running, "the device is not")
		b.answers(0)
		assert.Less(t, time.Since(started), 10*time.Second)
		assert.Equal(t, 2, starts)
		b.Close()
	})
}

func TestALoadPastItsLimitEndsTheChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{LoadLimit: time.Minute})
		for range 3 {
			_, err := b.run(t.Context(), job(0, "fake:slow-load-90s", "hello"))
			exit := exitOf(t, err)
			assert.True(t, exit.Fault)
			assert.Equal(t, "load", exit.Phase)
			assert.ErrorContains(t, err, "loading fake:slow-load-90s took longer than 1m0s")
		}
		assert.Contains(t, b.state(0).Quarantined, "fake:slow-load-90s", "three faults, each with a cause of its own")
		b.Release(mock(0), "fake:slow-load-90s")
		assert.Empty(t, b.state(0).Quarantined)
		b.answers(0)
		b.Close()
	})
}

func TestAFailedLoadIsTheErrorOfAllWhoWait(t *testing.T) {
	b := open(t, engine.Options{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_, err := b.run(t.Context(), job(0, "fake:fail-load", "hello"))
			assert.Equal(t, llm.CodeEngine, llm.CodeOf(err))
			assert.ErrorContains(t, err, "the fake was told to refuse it")
		})
	}
	all.Wait()
	b.answers(0)
}

func TestUnusedModelsAndChildrenEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{})
		b.answers(0)
		assert.Equal(t, time.Now().Add(5*time.Minute), b.Loaded()[0].ExpiresAt)
		time.Sleep(4 * time.Minute)
		b.answers(0)
		time.Sleep(4 * time.Minute)
		assert.Len(t, b.Loaded(), 1, "a use starts the time again")
		time.Sleep(time.Minute + time.Second)
		assert.Empty(t, b.Loaded())
		assert.True(t, b.state(0).Up, "the next request may come")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.False(t, b.state(0).Up, "what a model leaves behind in its process goes with it")
		b.answers(0)
		b.Close()
	})
}

func TestKeepAliveOfARequestWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{})
		with := func(d time.Duration) {
			j := job(0, "m", "hello")
			j.KeepAlive = &d
			_, err := b.run(t.Context(), j)
			require.NoError(t, err)
			synctest.Wait()
		}
		with(-1)
		time.Sleep(24 * time.Hour)
		require.Len(t, b.Loaded(), 1, "for ever")
		assert.Zero(t, b.Loaded()[0].ExpiresAt)
		with(time.Second)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Empty(t, b.Loaded())
		with(0)
		assert.Empty(t, b.Loaded(), "at once")
		b.Close()
	})
}

func TestATokenizersChildEndsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{})
		prompt, err := b.Prepare(t.Context(), llm.PrepareRequest{Messages: []llm.Message{{Role: "user", Content: "hello"}}})
		require.NoError(t, err)
		assert.NotEmpty(t, prompt.Tokens)
		assert.True(t, b.state(0).Up)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		assert.False(t, b.state(0).Up)
		b.Close()
	})
}

func TestUnloadWaitsForTheUserOfAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{})
		wait := b.streaming(t.Context(), job(0, "m", "[[slow 1000]]"))
		require.NoError(t, b.Unload(t.Context(), "m"))
		assert.Len(t, b.Loaded(), 1)
		_, err := wait()
		require.NoError(t, err)
		synctest.Wait()
		assert.Empty(t, b.Loaded())
		b.answers(0)
		require.NoError(t, b.Unload(t.Context(), "m"))
		assert.Empty(t, b.Loaded(), "an unused one is gone when Unload returns")
		require.NoError(t, b.Unload(t.Context(), "never heard of"))
		b.Close()
	})
}

func TestTheLongestUnusedModelMakesRoom(t *testing.T) {
	b := open(t, engine.Options{MaxLoaded: 2})
	for _, model := range []string{"a", "b", "a", "c"} {
		_, err := b.run(t.Context(), job(0, model, "hello"))
		require.NoError(t, err)
	}
	var names []string
	for _, l := range b.Loaded() {
		names = append(names, l.Model.Name)
	}
	assert.Equal(t, []string{"a", "c"}, names)
}

func TestLimitsOfAnNPULoadNothingAgainElsewhere(t *testing.T) {
	b := open(t, engine.Options{})
	b.answers(0)
	j := job(0, "m", "hello")
	j.Load.PromptLimit, j.Load.Reserve = 1024, 128
	var states []string
	j.OnState = func(p engine.Progress) { states = append(states, p.State) }
	_, err := b.run(t.Context(), j)
	require.NoError(t, err)
	assert.NotContains(t, states, engine.Loading)
}

func TestOtherLimitsLoadTheModelAgain(t *testing.T) {
	var l loads
	b := open(t, engine.Options{InProcess: l.open})
	j := job(0, "m", "hello")
	j.Device = llm.Device{Class: llm.NPU, Runtime: "NPU"}
	for _, limit := range []int{100, 100, 200} {
		j.Load.PromptLimit = limit
		_, err := b.run(t.Context(), j)
		require.NoError(t, err)
	}
	assert.EqualValues(t, 2, l.n.Load())
}

func TestLoadAndEmbed(t *testing.T) {
	b := open(t, engine.Options{})
	load := llm.LoadRequest{Model: llm.ModelRef{Name: "all-minilm"}, Embedding: true}
	loaded, _, err := b.Load(t.Context(), mock(1), load, nil, nil)
	require.NoError(t, err)
	assert.Positive(t, loaded.ContextLimit)
	var states []string
	embedded, _, err := b.Embed(t.Context(), mock(1), load, llm.EmbedRequest{Model: load.Model, Inputs: []string{"a", "b"}}, nil,
		func(p engine.Progress) { states = append(states, p.State) })
	require.NoError(t, err)
	assert.Equal(t, []string{engine.Prefill}, states, "the turn was given")
	assert.Len(t, embedded.Vectors, 2)
	assert.Zero(t, b.state(1).Running)
	assert.True(t, b.Loaded()[0].Embedding)
}

func TestACancelledRequestFreesItsTurnBeforeRunReturns(t *testing.T) {
	b := open(t, engine.Options{Parallel: 1})
	for _, prompt := range []string{"[[endless]]", "[[endless]] [[slow 1]]"} {
		ctx, cancel := context.WithCancel(t.Context())
		j := job(0, "m", prompt)
		j.OnDelta = func(d llm.Delta) error {
			if d.Tokens == 5 {
				cancel()
			}
			return nil
		}
		stats, err := b.Run(ctx, j)
		assert.ErrorIs(t, err, context.Canceled)
		assert.GreaterOrEqual(t, stats.CompletionTokens, 5)
		assert.Zero(t, b.state(0).Running)
	}
}

func TestAHangCostsItsTurnThenItsChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{Parallel: 2})
		ctx, cancel := context.WithCancel(t.Context())
		wait := b.streaming(ctx, job(0, "m", "[[hang-after 2]]"))
		synctest.Wait() // it hangs: before that a cancel would still stop it
		cancelled := time.Now()
		cancel()
		_, err := wait()
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 5*time.Second, time.Since(cancelled))
		assert.Equal(t, 1, b.state(0).Running, "the turn is not free before the child has stopped")

		other := b.streaming(t.Context(), job(0, "m", "[[slow 5000]]"))
		_, err = other()
		require.NoError(t, err, "other work goes on, however long it takes")
		require.Greater(t, time.Since(cancelled), 35*time.Second)
		synctest.Wait()
		assert.Zero(t, b.state(0).Running, "then the child is replaced")
		b.answers(0)
		assert.Empty(t, b.state(0).Quarantined)
		b.Close()
	})
}

func TestAReaderThatStopsGivesItsTurnBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{Parallel: 1})
		resume := make(chan struct{})
		j := job(0, "m", "[[tokens 2000]]")
		j.OnDelta = func(llm.Delta) error { <-resume; return nil }
		result := make(chan error, 1)
		go func() { _, err := b.run(t.Context(), j); result <- err }()
		synctest.Wait()
		started := time.Now()
		b.answers(0)
		assert.LessOrEqual(t, time.Since(started), 30*time.Second)
		close(resume)
		assert.Equal(t, llm.CodeCancelled, llm.CodeOf(<-result))
		b.Close()
	})
}

func TestAnErrorOfTheCallersIsNoFaultOfTheDevice(t *testing.T) {
	starts := 0
	b := open(t, engine.Options{InProcess: func(d llm.Device) (llm.Runner, error) {
		starts++
		return inProcess(d)
	}})
	j := job(0, "m", "[[endless]]")
	j.OnDelta = func(llm.Delta) error { return llm.Errorf(llm.CodeEngine, "the caller's own") }
	_, err := b.run(t.Context(), j)
	assert.ErrorContains(t, err, "the caller's own")
	b.answers(0)
	require.Len(t, b.Loaded(), 1)
	assert.EqualValues(t, 1, starts, "its child is not replaced")
}

// unkillable is a runner in a driver that never comes back, not even for a kill.
type unkillable struct {
	llm.Runner
	begun, free chan struct{}
}

func (s unkillable) Generate(context.Context, llm.GenerateRequest, func(llm.Delta) error) (llm.Stats, error) {
	close(s.begun)
	<-s.free
	return llm.Stats{}, nil
}

func (s unkillable) Close() error {
	<-s.free
	return s.Runner.Close()
}

func TestAChildThatCannotBeKilledIsGivenUpAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unkillable{begun: make(chan struct{}), free: make(chan struct{})}
		b := open(t, engine.Options{InProcess: func(d llm.Device) (llm.Runner, error) {
			s.Runner, _ = inProcess(d)
			return s, nil
		}})
		result := make(chan error, 1)
		go func() { _, err := b.run(t.Context(), job(0, "m", "hello")); result <- err }()
		<-s.begun
		b.Recycle("this computer was asleep")
		started := time.Now()
		err := <-result
		assert.ErrorContains(t, err, "is stuck: it was killed and had not ended 10s later, its driver may hold it")
		assert.Equal(t, llm.CodeEngine, llm.CodeOf(err))
		assert.LessOrEqual(t, time.Since(started), 15*time.Second)
		require.NoError(t, b.Close(), "Close waits for it no longer either")
		close(s.free)
	})
}

func TestAPanicOfTheCallerFreesTheTurn(t *testing.T) {
	b := open(t, engine.Options{Parallel: 1})
	j := job(0, "m", "[[endless]]")
	j.OnDelta = func(llm.Delta) error { panic("a handler's bug") }
	assert.Panics(t, func() { b.run(t.Context(), j) })
	j.OnState = func(engine.Progress) { panic("another") }
	assert.Panics(t, func() { b.run(t.Context(), j) })
	b.answers(0)
}

func TestAPanicWhileStartingIsTheRequestsError(t *testing.T) {
	b := open(t, engine.Options{InProcess: func(llm.Device) (llm.Runner, error) { panic("no") }})
	_, err := b.run(t.Context(), job(0, "m", "hello"))
	assert.Equal(t, llm.CodeInternal, llm.CodeOf(err))
}

func TestCloseEndsEverything(t *testing.T) {
	nothingLeft(t)
	b := open(t, engine.Options{Parallel: 1})
	running := b.streaming(t.Context(), job(0, "m", "[[endless]] [[slow 5]]"))
	results := make(chan error, 2)
	go func() { _, err := b.run(t.Context(), job(0, "m", "hello")); results <- err }()
	until(t, "one waits", func() bool { return b.state(0).Queued == 1 })
	go func() { _, err := b.run(t.Context(), job(1, "fake:slow-load-90s", "hello")); results <- err }()
	until(t, "one loads", func() bool { return b.state(1).Loading != "" })
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	_, err := running()
	for _, err := range []error{err, <-results, <-results} {
		assert.Equal(t, llm.CodeStopped, llm.CodeOf(err), "%v", err)
	}
	_, err = b.run(t.Context(), job(0, "m", "hello"))
	assert.Equal(t, llm.CodeStopped, llm.CodeOf(err))
	_, err = b.Devices(t.Context())
	assert.Equal(t, llm.CodeStopped, llm.CodeOf(err))
}

func TestChangedIsCalledButNotForEachChange(t *testing.T) {
	var mu sync.Mutex
	var b bench
	calls, slow := 0, make(chan struct{})
	b = open(t, engine.Options{Changed: func() {
		mu.Lock()
		calls++
		mu.Unlock()
		<-slow // a slow window
	}})
	for range 50 {
		b.answers(0)
	}
	until(t, "told about the first change", func() bool { mu.Lock(); defer mu.Unlock(); return calls >= 1 })
	mu.Lock()
	assert.Equal(t, 1, calls, "a slow listener delays no request")
	mu.Unlock()
	close(slow)
	until(t, "told about the last change", func() bool { mu.Lock(); defer mu.Unlock(); return calls >= 2 })
}

func TestSpeedsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{})
		_, err := b.run(t.Context(), job(0, "m", "[[prefill 1000]] [[slow 100]] [[tokens 21]]"))
		require.NoError(t, err)
		speed := b.state(0).Speeds["m"]
		assert.InDelta(t, 10, speed.Decode, 1)
		assert.Positive(t, speed.Prefill)
		assert.Less(t, speed.Prefill, 100.0)
		b.Close()
	})
}

// The plugin of an NPU answers from the beginnings of earlier prompts, and does not tell.
func TestOnlyNewPromptsSayHowFastAnNPUReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, engine.Options{})
		npu := llm.Device{Class: llm.NPU, Runtime: "NPU"}
		ask := func(prompt string) engine.Speed {
			j := job(0, "m", prompt)
			j.Device = npu
			_, err := b.run(t.Context(), j)
			require.NoError(t, err)
			for _, s := range b.States() {
				if s.Device.ID() == npu.ID() {
					return s.Speeds["m"]
				}
			}
			return engine.Speed{}
		}
		long := func(first string) string { return first + strings.Repeat(" word", 400) }
		assert.Zero(t, ask("[[prefill 1000]] short").Prefill, "a short prompt takes as long as a whole step")
		slow := ask("[[prefill 2000]]" + long("a new one")).Prefill
		assert.Positive(t, slow)
		assert.Equal(t, slow, ask("[[prefill 2000]]"+long("a new one")).Prefill, "the same again says nothing")
		assert.Equal(t, slow, ask("[[prefill 2000]]"+long("a new one")+" and more").Prefill, "nor does a longer one")
		assert.NotEqual(t, slow, ask("[[prefill 9000]]"+long("another one")).Prefill)
		b.Close()
	})
}

// Two requests overlap and one leaves: the other is whole, whatever the interleaving (NoLlama#40).
func TestOneThatLeavesNeverCancelsAnother(t *testing.T) {
	b := open(t, engine.Options{})
	long, short := job(0, "m", "[[tokens 40]]"), job(0, "m", "hello")
	rounds := 10_000
	if testing.Short() {
		rounds = 500
	}
	var workers sync.WaitGroup
	for w := range 2 {
		random := rand.New(rand.NewPCG(uint64(w), 1))
		workers.Go(func() {
			for range rounds / 2 {
				at := random.IntN(12)
				var both sync.WaitGroup
				both.Go(func() {
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					leaver := long
					if at == 0 {
						cancel()
					}
					n := 0
					leaver.OnDelta = func(llm.Delta) error {
						if n++; n == at {
							cancel()
						}
						return nil
					}
					if _, err := b.run(ctx, leaver); !errors.Is(err, context.Canceled) {
						t.Errorf("the leaver: %v", err)
					}
				})
				text, err := b.run(context.Background(), short)
				if err != nil || text != llmtest.Canned {
					t.Errorf("the other one: %q, %v", text, err)
				}
				both.Wait()
			}
		})
	}
	workers.Wait()
	assert.Zero(t, b.state(0).Running)
}

func TestSixtyStreamsWithRandomLeaversLeaveNothingBusy(t *testing.T) {
	nothingLeft(t)
	b := open(t, engine.Options{})
	var all sync.WaitGroup
	for i := range 60 {
		random := rand.New(rand.NewPCG(uint64(i), 2))
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(400))*time.Millisecond)
			defer cancel()
			j := job(i%2, fmt.Sprint("m", i%3), "[[tokens 200]] [[slow 1]]")
			if i%4 == 0 {
				ctx = context.Background()
			}
			_, err := b.run(ctx, j)
			if i%4 == 0 {
				assert.NoError(t, err)
			} else if err != nil {
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			}
		})
	}
	all.Wait()
	for device := range 2 {
		until(t, "no turn is taken", func() bool { s := b.state(device); return s.Running == 0 && s.Queued == 0 })
		for _, l := range b.Loaded() {
			assert.Zero(t, l.InUse)
		}
		b.answers(device)
	}
	b.Close()
}

func TestStatesAreSortedAndComplete(t *testing.T) {
	b := open(t, engine.Options{})
	assert.Empty(t, b.States())
	b.answers(1)
	b.answers(0)
	var ids []string
	for _, s := range b.States() {
		ids = append(ids, s.Device.ID())
		assert.Equal(t, 4, s.Parallel)
	}
	assert.True(t, slices.Equal([]string{"mock:0", "mock:1"}, ids))
}
