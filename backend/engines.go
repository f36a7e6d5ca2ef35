package backend

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/machine"
	"signalbox/internal/logs"
)

// engines is the engine as the settings want it now. Before a request it makes sure that the native runtime is there, so
// that a missing one is a sentence to the caller and not a process that cannot start.
type engines struct {
	backend *Backend
	program string // this program, which is its own child

	closing chan struct{}  // closed by Close
	going   sync.WaitGroup // engines of earlier settings that end, and looks for devices; begun only while closed is false

	mu     sync.Mutex
	now    *tenure // guarded by mu
	closed bool    // guarded by mu
}

// engineSettings are those that an engine is made with.
type engineSettings struct {
	emulate              bool
	queueLimit, parallel int
	promptLimit, reserve int
	slotMemoryMB         int
	runtimeDir           string
}

func newEngines(b *Backend) (*engines, error) {
	program, err := engine.Self()
	if err != nil {
		return nil, err
	}
	e := &engines{backend: b, program: program, closing: make(chan struct{})}
	e.refresh()
	return e, nil
}

// refresh makes a new engine when the settings ask for another one. The old one ends what it runs.
func (e *engines) refresh() {
	s := e.backend.Settings()
	want := engineSettings{s.EmulateNPU, s.QueueLimit, s.Parallel, s.NPUPrompt, s.NPUReserve, s.SlotMemoryMB, s.RuntimeDir}
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.now
	if e.closed || old != nil && want == old.settings {
		return
	}
	t := &tenure{settings: want, unused: make(chan struct{})}
	t.Engine = engine.New(e.options(t))
	e.now = t
	if old == nil {
		return
	}
	if old.settings.runtimeDir == want.runtimeDir {
		t.found = old.found
	}
	old.retired = true
	if old.users == 0 {
		close(old.unused)
	}
	e.going.Go(func() { e.retire(old) })
	e.going.Go(func() { e.lookForDevices(context.Background()) }) // Close ends it
}

// keep keeps what a device's process wrote when it crashed.
func (e *engines) keep(device llm.Device, words string) (file string, err error) {
	return logs.Keep(e.backend.options.Dirs.Logs(), "crash-"+strings.ReplaceAll(device.ID(), ":", "-"), words)
}

// options are an engine's with the settings of t.
func (e *engines) options(t *tenure) engine.Options {
	s := t.settings
	return engine.Options{
		Command: func(d llm.Device) engine.Command { return e.command(t, d) },
		Fake:    e.backend.options.Fake, Emulate: s.emulate,
		QueueLimit: s.queueLimit, Parallel: s.parallel, PromptLimit: s.promptLimit, Reserve: s.reserve, Patience: goodbyeLimit / 2,
		Known: e.backend.knowledge.known, Keep: e.keep, Log: e.backend.log, Changed: e.backend.changed.wake,
	}
}

// lookForDevices lets a new engine find them: the window should show them before the next request.
func (e *engines) lookForDevices(ctx context.Context) {
	if _, err := e.Devices(ctx); err != nil && ctx.Err() == nil {
		e.backend.log.Warn("look for devices", "error", err)
	}
	e.backend.changed.wake()
}

// retire closes an engine when its last user has left, or will not.
func (e *engines) retire(old *tenure) {
	select {
	case <-old.unused:
	case <-e.closing:
	case <-time.After(retireLimit):
		e.backend.log.Warn("requests of the engine with the settings of before are ended", "after", retireLimit)
	}
	_ = old.Close()
}

// command starts this same program as the process of a device.
func (e *engines) command(t *tenure, device llm.Device) engine.Command {
	o := e.backend.options
	args := []string{"engine"}
	if o.Fake {
		return engine.Command{Path: e.program, Args: append(args, "--fake")}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	dir := ""
	if t.found != nil {
		dir = t.found.Dir
	}
	args = append(args, "--runtime", dir, "--device", device.Runtime, "--driver", driver(device),
		"--cache", o.Dirs.Compiled(),
		"--slot-memory", strconv.FormatInt(int64(t.settings.slotMemoryMB)<<20, 10))
	if t.settings.emulate {
		args = append(args, "--emulate")
	}
	return engine.Command{Path: e.program, Args: append(args, o.Engine...), Dir: dir}
}

// current is the engine, for looking only: nothing keeps it from being closed.
func (e *engines) current() *engine.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now.Engine
}

// provider names the runtime: "openvino/2026.4.1". It is empty while none was found.
func (e *engines) provider() string {
	if e.backend.options.Fake {
		return "fake"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now.found == nil {
		return ""
	}
	return "openvino/" + e.now.found.Version
}

func (e *engines) Devices(ctx context.Context) ([]engine.State, error) {
	eng, release, err := e.ready(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return eng.Devices(ctx)
}

func (e *engines) Prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	eng, release, err := e.ready(ctx)
	if err != nil {
		return llm.Prompt{}, err
	}
	defer release()
	e.backend.prober.giveWay()
	return eng.Prepare(ctx, req)
}

func (e *engines) Run(ctx context.Context, job engine.Job) (llm.Stats, error) {
	eng, release, err := e.ready(ctx)
	if err != nil {
		return llm.Stats{}, err
	}
	defer release()
	e.backend.prober.giveWay()
	job.Load = e.limited(eng, job.Device, job.Load)
	var meter *machine.Reading
	tell := job.OnState
	job.OnState = func(p engine.Progress) {
		if p.State == engine.Prefill {
			meter = e.backend.knowledge.meter.Begin()
		}
		if tell != nil {
			tell(p)
		}
	}
	job.OnState = e.backend.knowledge.expected(job.Device, job.Load, job.OnState)
	stats, err := eng.Run(ctx, job)
	if meter != nil {
		if joules := meter.End(); job.Times != nil {
			job.Times.Joules = joules
		}
	}
	e.backend.knowledge.settled(eng, job.Device, job.Load, meter != nil, err)
	return stats, err
}

func (e *engines) Embed(
	ctx context.Context, device llm.Device, load llm.LoadRequest, req llm.EmbedRequest, keepAlive *time.Duration, onState func(engine.Progress),
) (llm.Embedded, engine.Times, error) {
	eng, release, err := e.ready(ctx)
	if err != nil {
		return llm.Embedded{}, engine.Times{}, err
	}
	defer release()
	e.backend.prober.giveWay()
	embedded, times, err := eng.Embed(ctx, device, load, req, keepAlive, onState)
	e.backend.knowledge.settled(eng, device, load, true, err)
	return embedded, times, err
}

func (e *engines) Load(
	ctx context.Context, device llm.Device, load llm.LoadRequest, keepAlive *time.Duration, onState func(engine.Progress),
) (llm.Loaded, engine.Times, error) {
	eng, release, err := e.ready(ctx)
	if err != nil {
		return llm.Loaded{}, engine.Times{}, err
	}
	defer release()
	e.backend.prober.giveWay()
	load = e.limited(eng, device, load)
	loaded, times, err := eng.Load(ctx, device, load, keepAlive, e.backend.knowledge.expected(device, load, onState))
	e.backend.knowledge.settled(eng, device, load, false, err)
	return loaded, times, err
}

func (e *engines) Unload(ctx context.Context, model string) error {
	eng, release := e.use()
	defer release()
	return eng.Unload(ctx, model)
}

// trim frees every model but those that are used. One that a request is still leaving goes when it has left.
func (e *engines) trim(used map[string]bool) {
	eng, release := e.use()
	defer release()
	for _, loaded := range eng.Loaded() {
		if used[loaded.Model.Name] {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := eng.Unload(ctx, loaded.Model.Name); err != nil {
			e.backend.log.Warn("unload", "model", loaded.Model.Name, "error", err)
		}
		cancel()
	}
}

// Close ends all children, also those of earlier settings, and waits for them. It may be called twice.
func (e *engines) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.closing)
	}
	e.mu.Unlock()
	err := e.current().Close()
	e.going.Wait()
	return err
}
