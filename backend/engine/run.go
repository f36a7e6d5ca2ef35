package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/pipe"
)

// Run waits for a turn on the job's device, loads the model where needed, and generates. OnState and OnDelta run on the caller's
// goroutine. The turn is free when Run returns; it may be free earlier, when the child is done and OnDelta is slow.
//
// When ctx is done, Run returns its error as soon as the child has stopped, with true Stats. A child that is inside a native
// call gets Options.Patience; the turn then stays taken until it has really stopped, and the child is replaced when it does
// not within Options.HangLimit.
//
// Run does not refuse quarantined pairs, since whether another device is left is the router's knowledge.
func (e *Engine) Run(ctx context.Context, job Job) (llm.Stats, error) {
	w := &work{model: job.Load.Model.Name, tokens: len(job.Generate.Tokens), cause: causeOfTokens(job.Load.Model.Name, job.Generate.Tokens)}
	t := e.newTurn(job.Device, w, job.KeepAlive, job.OnState)
	var stats llm.Stats
	honest := false // the time of the prompt says how fast this device reads
	err := t.run(ctx, job.Load, job.Times, phasePrefill, func(ctx context.Context, c *child, _ llm.Loaded) error {
		decoding, m := false, t.model
		honest = t.lane.wholly(job.Load.Model.Name, job.Generate.Tokens)
		var err error
		stats, err = c.client.Generate(ctx, job.Generate, func(d llm.Delta) error {
			if !decoding {
				decoding = true
				t.lane.phase(w, phaseDecode)
			}
			err := job.OnDelta(d)
			t.refused = err != nil
			return err
		})
		t.lane.takes(m, stats.Memory)
		return err
	})
	if err == nil {
		t.lane.measured(job.Load.Model.Name, stats, honest)
	}
	return stats, err
}

// Embed waits for a turn, loads the model where needed, and embeds.
func (e *Engine) Embed(ctx context.Context, device llm.Device, load llm.LoadRequest, req llm.EmbedRequest, keepAlive *time.Duration, onState func(Progress)) (llm.Embedded, Times, error) {
	w := &work{model: load.Model.Name, cause: causeOfTexts(load.Model.Name, req.Inputs)}
	t := e.newTurn(device, w, keepAlive, onState)
	var times Times
	var embedded llm.Embedded
	err := t.run(ctx, load, &times, phaseEmbed, func(ctx context.Context, c *child, _ llm.Loaded) error {
		m := t.model
		var err error
		embedded, err = c.client.Embed(ctx, req)
		t.lane.takes(m, embedded.Memory)
		return err
	})
	if err == nil && embedded.Duration > 0 {
		t.lane.engine.mu.Lock()
		t.lane.measure(load.Model.Name, Speed{Prefill: rate(embedded.Tokens, embedded.Duration)})
		t.lane.engine.mu.Unlock()
	}
	return embedded, times, err
}

// takes notes what a model takes of its device's memory; 0: that is not known.
func (l *lane) takes(m *model, bytes int64) {
	if bytes == 0 {
		return
	}
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	m.bytes = bytes
	l.engine.changed()
}

// Load makes a model ready, or keeps one ready for longer.
func (e *Engine) Load(ctx context.Context, device llm.Device, load llm.LoadRequest, keepAlive *time.Duration, onState func(Progress)) (llm.Loaded, Times, error) {
	t := e.newTurn(device, &work{model: load.Model.Name}, keepAlive, onState)
	var times Times
	var loaded llm.Loaded
	err := t.run(ctx, load, &times, phaseLoad, func(_ context.Context, _ *child, l llm.Loaded) error {
		loaded = l
		t.end()
		return nil
	})
	return loaded, times, err
}

// run takes the turn through the queue, the child and the model to do, which must make one call of a Client with the ctx it is
// given, or end the turn itself.
func (t *turn) run(ctx context.Context, load llm.LoadRequest, times *Times, phase string, do func(context.Context, *child, llm.Loaded) error) error {
	if times == nil {
		times = &Times{}
	}
	begun := false
	defer func() {
		if !begun {
			t.end() // also when OnState panics
		}
	}()
	defer context.AfterFunc(ctx, func() { t.lane.unwanted(t.work) })()
	arrived := time.Now()
	err := t.enter(ctx)
	times.Queue = time.Since(arrived)
	if err != nil {
		return err
	}
	granted := time.Now()
	loaded, err := t.ready(ctx, t.lane.limits(load))
	times.Load = time.Since(granted)
	if err != nil {
		return err
	}
	t.lane.phase(t.work, phase)
	if phase != phaseLoad {
		t.onState(Progress{State: Prefill})
	}
	child := t.child
	begun = true
	err = do(pipe.OnEnd(ctx, t.end), child, loaded)
	return t.conclude(ctx, child, err)
}

// limits fills in what the request leaves to the settings.
func (l *lane) limits(load llm.LoadRequest) llm.LoadRequest {
	if l.device.Class == llm.NPU && !load.Embedding {
		orDefault(&load.PromptLimit, l.engine.options.PromptLimit)
		orDefault(&load.Reserve, l.engine.options.Reserve)
	} else {
		load.PromptLimit, load.Reserve = 0, 0 // others take prompts of any length
	}
	return load
}

// ready gives the turn its child and its model.
func (t *turn) ready(ctx context.Context, load llm.LoadRequest) (llm.Loaded, error) {
	t.work.phase = phaseLoad
	c, err := t.lane.acquire(ctx, t.work, func(since time.Time) {
		t.onState(Progress{State: Loading, Phase: llm.Phase{Name: "restarting the engine process"}, Since: since})
	})
	if err != nil {
		return llm.Loaded{}, err
	}
	e := t.lane.engine
	e.mu.Lock()
	t.child = c
	e.mu.Unlock()
	if err := t.use(ctx, load); err != nil {
		t.end()
		return llm.Loaded{}, t.lane.explain(c, t.work, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return t.model.loaded, nil
}

// unwanted notes that nobody waits for w any more: the device may be at work on it for a while.
func (l *lane) unwanted(w *work) {
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	w.left = true
	l.engine.changed()
}

func (l *lane) phase(w *work, phase string) {
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	w.phase = phase
}

// conclude looks at how the child took the call.
func (t *turn) conclude(ctx context.Context, c *child, err error) error {
	l, e := t.lane, t.lane.engine
	if errors.Is(err, pipe.ErrLost) {
		return l.explain(c, t.work, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil && t.work.phase != phaseLoad:
		l.succeeded()
	case err == nil:
		// a model that loads may still crash at its first token
	case t.child != nil: // it has not stopped yet
		t.work.left = true
		l.doubt(c, t.work, e.options.HangLimit)
	case t.refused: // it worked, whatever the caller's error looks like
		if !c.lost() {
			l.succeeded()
		}
		l.rest(c)
	default:
		l.taint(c, err)
		l.rest(c)
	}
	return err
}

// Prepare turns a conversation into tokens, in the child of the CPU. It takes no turn. A child that ends meanwhile because of
// other work is replaced and asked again.
func (e *Engine) Prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	e.mu.Lock()
	l := e.lane(e.base())
	e.mu.Unlock()
	for again := false; ; again = true {
		prompt, alone, err := l.prepare(ctx, req)
		if _, crashed := errors.AsType[*Exit](err); crashed && !alone && !again {
			continue
		}
		return prompt, err
	}
}

// prepare asks once. alone says that nothing else was at work when it ended.
func (l *lane) prepare(ctx context.Context, req llm.PrepareRequest) (prompt llm.Prompt, alone bool, err error) {
	w := &work{phase: phasePrepare, model: req.Model.Name}
	c, err := l.acquire(ctx, w, nil)
	if err != nil {
		return prompt, true, err
	}
	prompt, err = c.client.Prepare(pipe.OnEnd(ctx, func() {
		l.engine.mu.Lock()
		defer l.engine.mu.Unlock()
		l.finish(c, w)
	}), req)
	if errors.Is(err, pipe.ErrLost) {
		err = l.explain(c, w, err)
	}
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	if _, busy := c.working[w]; busy && !c.lost() {
		l.doubt(c, w, l.engine.options.HangLimit)
	}
	return prompt, len(c.working) <= 1, err
}

// Unload frees a model on all devices. Where it is in use, it goes as soon as it is not; Unload does not wait for that.
func (e *Engine) Unload(ctx context.Context, name string) error {
	e.mu.Lock()
	var waits []<-chan struct{}
	for _, l := range e.lanes {
		if l.child == nil || l.child.models[name] == nil {
			continue
		}
		m := l.child.models[name]
		m.keep, m.leaving = 0, true
		if m.state == ready && m.users == 0 {
			l.unload(m)
		}
		if m.state == unloading {
			waits = append(waits, m.change)
		}
	}
	e.mu.Unlock()
	for _, wait := range waits {
		if err := await(ctx, e, wait); err != nil {
			return err
		}
	}
	return nil
}

func causeOfTokens(model string, tokens []int32) cause {
	return fingerprint(func(add func([]byte)) {
		add([]byte(model))
		var raw [4]byte
		for _, token := range tokens {
			binary.LittleEndian.PutUint32(raw[:], uint32(token))
			add(raw[:])
		}
	})
}

// causeOfModel stands for whatever a model was doing.
func causeOfModel(name string) cause {
	return fingerprint(func(add func([]byte)) { add([]byte("model " + name)) })
}

func causeOfTexts(model string, texts []string) cause {
	return fingerprint(func(add func([]byte)) {
		add([]byte(model))
		for _, text := range texts {
			add([]byte{0})
			add([]byte(text))
		}
	})
}
