package engine

import (
	"context"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/pipe"
)

// Phases of work in a child: see Exit.Phase.
const (
	phasePrepare = "prepare"
	phaseLoad    = "load"
	phasePrefill = "prefill"
	phaseDecode  = "decode"
	phaseEmbed   = "embed"
)

// model is a model in a child: it is being loaded, ready, or being unloaded. Engine.mu guards all of it.
type model struct {
	child  *child
	req    llm.LoadRequest
	state  modelState
	change chan struct{} // closed and replaced when anything below changes

	phase   llm.Phase // while loading
	anew    bool      // the load compiles the model, whatever was kept of it
	since   time.Time // the load began
	waiters int       // turns that wait for the load
	cancel  func()    // ends the load at the next chance
	err     error     // why the load failed; it is no longer in the child's models then

	loaded  llm.Loaded
	bytes   int64         // what it takes now: after the load, then after each answer
	users   int           // turns that use it
	leaving bool          // Unload was called while it was in use
	keep    time.Duration // after the last use; negative: for ever
	used    uint64        // when it was last used, by Engine.uses: clocks may stand still
	expires time.Time     // zero: not while in use, or never
	timer   *time.Timer
}

type modelState int

const (
	loading modelState = iota
	ready
	unloading
)

func (m *model) broadcast() {
	close(m.change)
	m.change = make(chan struct{})
}

// use makes the turn's model ready in its child, and takes a use of it. It reports phases while it waits.
func (t *turn) use(ctx context.Context, req llm.LoadRequest) error {
	l, e := t.lane, t.lane.engine
	for {
		e.mu.Lock()
		m := t.child.models[req.Model.Name]
		switch {
		case t.child.lost():
			e.mu.Unlock()
			return t.child.client.Err()
		case m == nil && l.evict(t.child):
			// room is being made
			m = l.unloadingOne(t.child)
		case m == nil:
			m = l.load(t.child, req)
			fallthrough
		case m.state == loading && m.req == req && m.waiters > 0:
			m.waiters++
			e.mu.Unlock()
			return t.awaitLoad(ctx, m)
		case m.state == ready && m.req == req:
			t.take(m)
			e.mu.Unlock()
			return nil
		case m.state == ready && m.users == 0: // the same name, other files or limits
			l.unload(m)
		}
		change := m.change
		e.mu.Unlock()
		select {
		case <-change:
		case <-t.child.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take is called with mu held.
func (t *turn) take(m *model) {
	m.users++
	m.stop()
	t.model = m
}

func (m *model) stop() {
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	m.expires = time.Time{}
}

// awaitLoad waits for a load together with others. Who leaves does not end it for the others; the last one does.
func (t *turn) awaitLoad(ctx context.Context, m *model) error {
	l, e := t.lane, t.lane.engine
	var told llm.Phase
	for {
		e.mu.Lock()
		phase, since, state, err, change := m.phase, m.since, m.state, m.err, m.change
		if err == nil && state == ready { // loadEnded has taken a use for each who waited
			t.model = m
			e.mu.Unlock()
			return nil
		}
		e.mu.Unlock()
		if err != nil {
			return err
		}
		if phase != told {
			told = phase
			t.onState(Progress{State: Loading, Phase: phase, Since: since})
		}
		select {
		case <-change:
		case <-ctx.Done():
			return l.giveUp(t, m, ctx.Err())
		}
	}
}

// giveUp leaves a load. When nobody waits for it any more it is cancelled; as a native load cannot be interrupted, the turn
// stays taken until the child has stopped, or has been replaced because it does not.
func (l *lane) giveUp(t *turn, m *model, reason error) error {
	e := l.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if m.err != nil {
		return reason
	}
	if m.state != loading { // the load ended meanwhile, and took a use for this turn
		l.unuse(m, m.keep)
		return reason
	}
	if m.waiters--; m.waiters > 0 {
		return reason
	}
	m.cancel()
	l.finish(t.child, t.work) // the load has its own
	rest := *t                // the turn goes on without its caller
	rest.child = nil
	t.child, t.holds = nil, false
	e.going.Go(func() {
		for {
			e.mu.Lock()
			over, change := m.err != nil || m.state != loading, m.change
			e.mu.Unlock()
			if over {
				rest.end()
				return
			}
			<-change
		}
	})
	return reason
}

// load begins to load a model into a child. mu is held.
func (l *lane) load(c *child, req llm.LoadRequest) *model {
	ctx, cancel := context.WithCancel(context.Background())
	m := &model{
		child: c, req: req, change: make(chan struct{}), cancel: cancel, since: time.Now(), used: l.engine.use(),
		keep: l.engine.options.KeepAlive,
	}
	c.models[req.Model.Name] = m
	w := &work{phase: phaseLoad, model: req.Model.Name, loads: true}
	l.occupy(c, w)
	l.engine.going.Go(func() {
		defer cancel()
		loaded, err := l.loading(ctx, m, w)
		l.loadEnded(m, w, loaded, err)
	})
	l.engine.changed()
	return m
}

// loading returns when the child has ended the load, not before.
func (l *lane) loading(ctx context.Context, m *model, w *work) (llm.Loaded, error) {
	e := l.engine
	limit := time.AfterFunc(e.options.LoadLimit, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if m.state == loading && m.err == nil {
			l.end(m.child, "loading "+m.req.Model.Name+" took longer than "+e.options.LoadLimit.String(), true)
		}
	})
	defer limit.Stop()
	ended := make(chan struct{})
	ctx = pipe.OnEnd(ctx, func() { close(ended) })
	loaded, err := m.child.client.Load(ctx, m.req, func(p llm.Phase) {
		e.mu.Lock()
		defer e.mu.Unlock()
		m.phase, m.anew = p, m.anew || p.Compiles()
		m.broadcast()
		e.changed()
	})
	select {
	case <-ended:
	default: // it was cancelled and did not stop within Patience
		l.doubt(m.child, w, 0)
		<-ended
	}
	return loaded, err
}

func (l *lane) loadEnded(m *model, w *work, loaded llm.Loaded, err error) {
	e := l.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.changed()
	defer m.broadcast()
	if err != nil {
		m.err = err
		delete(m.child.models, m.req.Model.Name)
		l.taint(m.child, err)
		l.finish(m.child, w)
		return
	}
	loaded.Cached = loaded.Cached || !m.anew // not each plugin tells
	m.state, m.loaded, m.bytes = ready, loaded, loaded.Bytes
	if loaded.LoadTime > 0 {
		l.measure(m.req.Model.Name, Speed{Load: loaded.LoadTime})
	}
	// Each who waited has its use from now on: the first to wake may be done, and unload, before the others have looked.
	m.users, m.waiters = m.waiters, 0
	if m.users == 0 {
		l.schedule(m)
	}
	l.finish(m.child, w)
}

// unuse gives back one use. mu is held.
func (l *lane) unuse(m *model, keep time.Duration) {
	m.users--
	m.keep, m.used = keep, l.engine.use()
	if m.leaving {
		m.keep = 0
	}
	if m.users == 0 {
		l.schedule(m)
		m.broadcast() // who wants it with other limits waits for this
	}
}

// schedule unloads an unused model when its time has come. mu is held.
func (l *lane) schedule(m *model) {
	m.stop()
	if m.child.lost() || m.keep < 0 {
		return
	}
	if m.keep == 0 {
		l.unload(m)
		return
	}
	e := l.engine
	m.expires = time.Now().Add(m.keep)
	var timer *time.Timer
	timer = time.AfterFunc(m.keep, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if m.timer == timer && m.state == ready && m.users == 0 {
			l.unload(m)
		}
	})
	m.timer = timer
}

// unload begins to unload a model that is ready and unused. mu is held.
func (l *lane) unload(m *model) {
	e := l.engine
	m.stop()
	if m.child.lost() || m.child.ending {
		return
	}
	m.state = unloading
	w := &work{phase: "unload", model: m.req.Model.Name}
	l.occupy(m.child, w)
	e.changed()
	e.going.Go(func() {
		ended := make(chan struct{})
		ctx, cancel := context.WithTimeout(context.Background(), e.options.HangLimit)
		defer cancel()
		err := m.child.client.Unload(pipe.OnEnd(ctx, func() { close(ended) }), m.req.Model.Name)
		e.mu.Lock()
		defer e.mu.Unlock()
		if err != nil {
			l.engine.log.Warn("unload", "device", l.device.ID(), "model", m.req.Model.Name, "error", err)
			m.child.tainted = true // its memory is in doubt: the child ends as soon as it is free
		}
		if ctx.Err() != nil {
			w.doubted = true
			l.replaceHung(m.child)
		}
		delete(m.child.models, m.req.Model.Name)
		m.child.emptied = true
		l.finish(m.child, w)
		m.broadcast()
		e.changed()
	})
}

// evict makes room for one more model, if there are as many as may stay and one of them is unused. It says whether room is
// being made. mu is held.
func (l *lane) evict(c *child) bool {
	if len(c.models) < l.engine.options.MaxLoaded {
		return false
	}
	if l.unloadingOne(c) != nil {
		return true
	}
	var oldest *model
	for _, m := range c.models {
		if m.state == ready && m.users == 0 && (oldest == nil || m.used < oldest.used) {
			oldest = m
		}
	}
	if oldest == nil {
		return false
	}
	l.unload(oldest)
	return oldest.state == unloading
}

func (l *lane) unloadingOne(c *child) *model {
	for _, m := range c.models {
		if m.state == unloading {
			return m
		}
	}
	return nil
}

// taint notes that the runtime reported an error. What GPUs and NPUs do after one is anybody's guess, an unload may even crash:
// such a child gets no new work and ends when the rest is done. mu is held.
func (l *lane) taint(c *child, err error) {
	if llm.CodeOf(err) == llm.CodeEngine && l.device.Class != llm.CPU && !c.lost() {
		c.tainted = true
	}
}
