package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox/backend/llm"
)

// listing is one look for devices, shared by all who ask meanwhile. A failure is kept for a moment.
type listing struct {
	done chan struct{}
	at   time.Time // set with err
	err  error     // set when done is closed
}

const (
	listLimit = 2 * time.Minute // drivers may be slow the first time
	listAgain = 5 * time.Second // after a failure
)

// Devices lists the devices of this machine and how they stand. The first call starts a child that looks for them and ends
// again; later ones answer at once. When that child crashes, the CPU alone is listed: the driver that crashed it would crash
// others too.
func (e *Engine) Devices(ctx context.Context) ([]State, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, errStopped()
	}
	if e.listed != nil {
		e.mu.Unlock()
		return e.States(), nil
	}
	look := e.listing
	if look == nil || !look.at.IsZero() && time.Since(look.at) > listAgain {
		look = &listing{done: make(chan struct{})}
		e.listing = look
		e.going.Go(func() { e.look(look) })
	}
	e.mu.Unlock()
	if err := await(ctx, e, look.done); err != nil {
		return nil, err
	}
	return e.States(), look.err
}

// Refresh looks for the devices again, in the background: after a suspend, when a driver was installed, when a device failed.
// Until the look is over the devices known before are the ones there are.
func (e *Engine) Refresh() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.listed == nil || e.listing != nil {
		return
	}
	look := &listing{done: make(chan struct{})}
	e.listing = look
	e.going.Go(func() {
		e.look(look)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.listing == look { // it failed: what was known stays
			e.listing = nil
		}
	})
}

// Recycle ends all children: after a suspend nobody knows what is left of their devices. Requests that are at work in them end
// with an error that gives the reason, those that wait go on in new ones.
func (e *Engine) Recycle(reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.lanes {
		if l.child != nil {
			l.end(l.child, reason, false)
		}
	}
}

func (e *Engine) look(look *listing) {
	defer close(look.done)
	devices, err := e.list()
	e.mu.Lock()
	defer e.mu.Unlock()
	if exit, ok := errors.AsType[*Exit](err); ok && exit.Fault {
		e.log.Warn("the look for devices crashed: only the CPU is used", "error", err)
		devices, err = []llm.Device{e.base()}, nil
	}
	if err != nil {
		look.err, look.at = err, time.Now()
		return
	}
	hasNPU := slices.ContainsFunc(devices, func(d llm.Device) bool { return d.Class == llm.NPU })
	if e.options.Emulate && !hasNPU {
		devices = append(devices, llm.Device{Class: llm.NPU, Name: "NPU plugin, computing on the CPU", Runtime: "NPU", Emulated: true})
	}
	e.listed, e.listing = devices, nil
	e.changed()
}

// list asks a child of its own, which ends afterwards: looking loads every driver.
func (e *Engine) list() ([]llm.Device, error) {
	e.mu.Lock()
	base := e.base()
	e.mu.Unlock()
	l := &lane{engine: e, device: base, faults: map[string][]fault{}} // known to nobody
	p, err := l.launch()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), listLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	unhook := e.killOnClose(p)
	defer unhook()
	devices, err := p.client.Devices(ctx)
	reason := p.client.Reason()
	ended := p.bury(e.options.KillLimit)
	if err != nil && reason != nil {
		exit := &Exit{Device: base, Status: ended.text, Phase: "devices", Fault: ended.fault}
		return nil, llm.Errorf(llm.CodeUnavailable, "look for devices: %w", exit)
	}
	return devices, err
}

// killOnClose ends p when the engine closes before the returned function is called.
func (e *Engine) killOnClose(p *process) (unhook func()) {
	done := make(chan struct{})
	e.going.Go(func() {
		select {
		case <-e.closing:
			p.kill()
		case <-done:
		}
	})
	return func() { close(done) }
}

// base is the device that every machine has: it prepares prompts and looks for the others. mu is held.
func (e *Engine) base() llm.Device {
	base := llm.Device{Class: llm.CPU, Name: "CPU", Runtime: "CPU"}
	if e.options.Fake {
		base = llm.Device{Class: llm.Mock, Name: "Fake engine: no model runs", Runtime: "mock.0"}
	}
	for _, d := range e.listed {
		if d.ID() == base.ID() {
			return d
		}
	}
	return base
}

// States says how the devices stand that are known by now: those that Devices has found, then those that were used before.
// It never waits for a child.
func (e *Engine) States() []State {
	e.mu.Lock()
	defer e.mu.Unlock()
	var states []State
	for _, d := range e.listed {
		states = append(states, e.lane(d).state(d))
	}
	for _, id := range slices.Sorted(maps.Keys(e.lanes)) {
		if !slices.ContainsFunc(e.listed, func(d llm.Device) bool { return d.ID() == id }) {
			s := e.lanes[id].state(e.lanes[id].device)
			if e.listed != nil {
				s.Absent = "it was here when Signalbox started, and the runtime does not find it any more"
			}
			states = append(states, s)
		}
	}
	return states
}

// Loaded lists what is loaded, on all devices.
func (e *Engine) Loaded() []LoadedModel {
	var all []LoadedModel
	for _, s := range e.States() {
		all = append(all, s.Loaded...)
	}
	return all
}

func (l *lane) state(device llm.Device) State {
	s := State{
		Device: device, Up: l.child != nil, Restarting: l.child == nil && l.failures > 0 && l.starting != nil,
		Running: l.held, Queued: len(l.queue), Parallel: l.turns,
		Speeds: maps.Clone(l.speeds), Quarantined: maps.Clone(l.quarantined),
	}
	for w := range l.turnsOf {
		s.Longest = max(s.Longest, w.tokens)
		if w.left {
			s.Finishing++
		}
	}
	for _, t := range l.queue {
		s.Longest = max(s.Longest, t.work.tokens)
	}
	if l.child == nil {
		return s
	}
	s.PID, s.Silent = l.child.pid, l.child.client.Silent()
	for name, m := range l.child.models {
		switch m.state {
		case loading:
			s.Loading, s.Phase, s.Since = name, m.phase, m.since
		case ready:
			s.Loaded = append(s.Loaded, LoadedModel{
				Model: m.req.Model, Device: device, Loaded: m.loaded, Bytes: m.bytes, Embedding: m.req.Embedding, InUse: m.users, ExpiresAt: m.expires,
			})
		}
	}
	slices.SortFunc(s.Loaded, func(a, b LoadedModel) int { return strings.Compare(a.Model.Name, b.Model.Name) })
	return s
}

const (
	newestWeight = 0.3 // of a measurement, against those before
	fewestTokens = 8   // what is measured over fewer is noise
)

// An NPU's plugin keeps the beginnings of prompts and does not tell when it uses one, and it reads in steps of a fixed length, so
// that a short prompt takes as long as a whole step. Speeds made of such times would be off by several times.
const (
	npuBeginning = 32   // tokens that two prompts must share for the plugin to have something of the one for the other, or fewer
	npuShortest  = 128  // prompt tokens that come near enough to a whole step
	npuRemembers = 1024 // beginnings; the plugin keeps fewer
)

// wholly notes a prompt that is about to run, and tells whether the device will read all of it, at its usual speed. Of devices whose
// children tell what they reused it is always true.
func (l *lane) wholly(model string, tokens []int32) bool {
	if l.device.Class != llm.NPU {
		return true
	}
	beginning := causeOfTokens(model, tokens[:min(len(tokens), npuBeginning)])
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	seen := slices.Contains(l.beginnings, beginning)
	if !seen {
		l.beginnings = append(l.beginnings, beginning)
		l.beginnings = l.beginnings[max(0, len(l.beginnings)-npuRemembers):]
	}
	return !seen && len(tokens) >= npuShortest
}

// measured takes the speeds of an answer. honest says that the time of its prompt tells how fast the device reads.
func (l *lane) measured(model string, s llm.Stats, honest bool) {
	var speed Speed
	if n := s.PromptTokens - s.CachedTokens; n >= fewestTokens && honest {
		speed.Prefill = rate(n, s.Prefill)
	}
	if n := s.CompletionTokens - 1; n >= fewestTokens {
		speed.Decode = rate(n, s.Decode)
	}
	l.engine.mu.Lock()
	defer l.engine.mu.Unlock()
	l.measure(model, speed)
}

// measure mixes new figures into the known ones; zero fields say nothing. mu is held.
func (l *lane) measure(model string, s Speed) {
	known := l.speeds[model]
	known.Prefill = mix(known.Prefill, s.Prefill)
	known.Decode = mix(known.Decode, s.Decode)
	known.Load = time.Duration(mix(float64(known.Load), float64(s.Load)))
	l.speeds[model] = known
}

func mix(known, newest float64) float64 {
	switch {
	case newest <= 0:
		return known
	case known <= 0:
		return newest
	}
	return known + newestWeight*(newest-known)
}

func rate(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
