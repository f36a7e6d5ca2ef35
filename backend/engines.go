package backend

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/power"
	"signalbox/internal/dirs"
	"signalbox/internal/runtime"
)

// engines is the engine as the settings want it now. Before a request it makes sure that the native runtime is there, so
// that a missing one is a sentence to the caller and not a process that cannot start.
type engines struct {
	backend *Backend
	program string // this program, which is its own child

	mu      sync.Mutex
	engine  *engine.Engine   // guarded by mu
	built   engineSettings   // what it was made with; guarded by mu
	found   *runtime.Runtime // nil until one was found; guarded by mu
	problem error            // why there is none; guarded by mu
	retired sync.WaitGroup   // engines of earlier settings that end their last requests
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
	e := &engines{backend: b, program: program}
	e.refresh()
	return e, nil
}

// refresh makes a new engine when the settings ask for another one. The old one ends what it runs.
func (e *engines) refresh() {
	s := e.backend.Settings()
	want := engineSettings{s.EmulateNPU, s.QueueLimit, s.Parallel, s.NPUPrompt, s.NPUReserve, s.SlotMemoryMB, s.RuntimeDir}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.engine != nil && want == e.built {
		return
	}
	if old := e.engine; old != nil {
		e.retired.Go(func() { retire(old) })
		e.retired.Go(e.look)
	}
	e.built, e.found, e.problem = want, nil, nil
	e.engine = engine.New(engine.Options{
		Command: e.command, Fake: e.backend.options.Fake, Emulate: s.EmulateNPU,
		QueueLimit: s.QueueLimit, Parallel: s.Parallel, PromptLimit: s.NPUPrompt, Reserve: s.NPUReserve, Patience: goodbyeLimit / 2,
		Known: e.backend.knowledge.known, Log: e.backend.log, Changed: e.backend.changed.wake,
	})
}

// look lets a new engine find the devices, which the window shows also before the next request.
func (e *engines) look() {
	if _, err := e.Devices(context.Background()); err != nil { // Close ends it
		e.backend.log.Warn("look for devices", "error", err)
	}
}

// retire closes an engine when its last request has ended.
func retire(old *engine.Engine) {
	for busy := true; busy; {
		busy = false
		for _, state := range old.States() {
			busy = busy || state.Running+state.Queued > 0
		}
		if busy {
			time.Sleep(200 * time.Millisecond)
		}
	}
	_ = old.Close()
}

// command starts this same program as the process of a device.
func (e *engines) command(device llm.Device) engine.Command {
	o := e.backend.options
	args := []string{"engine"}
	if o.Fake {
		return engine.Command{Path: e.program, Args: append(args, "--fake")}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	dir := ""
	if e.found != nil {
		dir = e.found.Dir
	}
	args = append(args, "--runtime", dir, "--device", device.Runtime,
		"--cache", filepath.Join(o.Dirs.Cache, "compiled"),
		"--slot-memory", strconv.FormatInt(int64(e.built.slotMemoryMB)<<20, 10))
	if e.built.emulate {
		args = append(args, "--emulate")
	}
	return engine.Command{Path: e.program, Args: append(args, o.Engine...), Dir: dir}
}

// ready returns the engine, or the sentence that says why nothing can run. What was missing is looked for again each time.
func (e *engines) ready() (*engine.Engine, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.backend.options.Fake || e.found != nil {
		return e.engine, nil
	}
	found, err := runtime.Find(e.built.runtimeDir, dirs.Beside(), e.backend.options.Dirs.Data)
	if err != nil {
		if e.problem == nil || e.problem.Error() != err.Error() {
			e.problem = err
			e.backend.log.Error("no native runtime", "error", err)
			e.backend.changed.wake()
		}
		return nil, err
	}
	e.found, e.problem = &found, nil
	e.backend.changed.wake()
	return e.engine, nil
}

// current is the engine without the check.
func (e *engines) current() *engine.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.engine
}

// provider names the runtime: "openvino/2026.4.1". It is empty while none was found.
func (e *engines) provider() string {
	if e.backend.options.Fake {
		return "fake"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		return ""
	}
	return "openvino/" + e.found.Version
}

func (e *engines) Devices(ctx context.Context) ([]engine.State, error) {
	eng, err := e.ready()
	if err != nil {
		return nil, err
	}
	return eng.Devices(ctx)
}

func (e *engines) Prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	eng, err := e.ready()
	if err != nil {
		return llm.Prompt{}, err
	}
	e.backend.prober.giveWay()
	return eng.Prepare(ctx, req)
}

func (e *engines) Run(ctx context.Context, job engine.Job) (llm.Stats, error) {
	eng, err := e.ready()
	if err != nil {
		return llm.Stats{}, err
	}
	e.backend.prober.giveWay()
	var meter *power.Reading
	tell := job.OnState
	job.OnState = func(p engine.Progress) {
		if p.State == engine.Prefill {
			meter = e.backend.knowledge.meter.Begin()
		}
		if tell != nil {
			tell(p)
		}
	}
	stats, err := eng.Run(ctx, job)
	if meter != nil {
		if joules := meter.End(); job.Times != nil {
			job.Times.Joules = joules
		}
	}
	e.backend.knowledge.settled(eng, job.Device, job.Load, meter != nil, err)
	return stats, err
}

func (e *engines) Embed(ctx context.Context, device llm.Device, load llm.LoadRequest, req llm.EmbedRequest, keepAlive *time.Duration, onState func(engine.Progress)) (llm.Embedded, engine.Times, error) {
	eng, err := e.ready()
	if err != nil {
		return llm.Embedded{}, engine.Times{}, err
	}
	e.backend.prober.giveWay()
	embedded, times, err := eng.Embed(ctx, device, load, req, keepAlive, onState)
	e.backend.knowledge.settled(eng, device, load, true, err)
	return embedded, times, err
}

func (e *engines) Load(ctx context.Context, device llm.Device, load llm.LoadRequest, keepAlive *time.Duration, onState func(engine.Progress)) (llm.Loaded, engine.Times, error) {
	eng, err := e.ready()
	if err != nil {
		return llm.Loaded{}, engine.Times{}, err
	}
	e.backend.prober.giveWay()
	loaded, times, err := eng.Load(ctx, device, load, keepAlive, onState)
	e.backend.knowledge.settled(eng, device, load, false, err)
	return loaded, times, err
}

func (e *engines) Unload(ctx context.Context, model string) error {
	return e.current().Unload(ctx, model)
}

// trim frees every model but those that are used. One that a request is still leaving goes when it has left.
func (e *engines) trim(used map[string]bool) {
	eng := e.current()
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

// Close ends all children and waits for them.
func (e *engines) Close() error {
	err := e.current().Close()
	e.retired.Wait()
	return err
}
