package engine

import (
	"context"
	"crypto/sha256"
	"maps"
	"time"

	"signalbox/backend/llm"
)

// queueFull is Ollama's text, to the letter: clients look for it.
const queueFull = "server busy, please try again.  maximum pending requests exceeded"

// lane is one device with its queue and its child. Engine.mu guards all of it.
type lane struct {
	engine *Engine
	device llm.Device
	turns  int // requests that the device works on at once

	held    int                // turns that are taken
	turnsOf map[*work]struct{} // what they were taken for
	queue   []*turn            // waiting, in order

	child    *child    // nil: none
	starting *starting // nil: no start is under way
	failures int       // starts and loads that failed since the last success; at least 1 after a crash
	earliest time.Time // no start before

	speeds      map[string]Speed
	beginnings  []cause // of the latest prompts; NPU, see wholly
	faults      map[string][]fault
	quarantined map[string]string
}

func (e *Engine) lane(device llm.Device) *lane {
	l := e.lanes[device.ID()]
	if l == nil {
		l = &lane{
			engine: e, device: device, turns: e.options.Parallel,
			speeds: map[string]Speed{}, faults: map[string][]fault{}, quarantined: map[string]string{}, turnsOf: map[*work]struct{}{},
		}
		if e.options.Known != nil {
			known := e.options.Known(device)
			maps.Copy(l.speeds, known.Speeds)
			maps.Copy(l.quarantined, known.Quarantined)
		}
		if device.Class == llm.NPU {
			l.turns = 1
		}
		e.lanes[device.ID()] = l
	}
	return l
}

// turn is one request on its way through a lane: it waits in the queue, takes one of the turns, has its work in the child and
// uses a model there. end gives all of that back.
type turn struct {
	lane    *lane
	onState func(Progress) // never nil
	keep    time.Duration  // how long the model stays afterwards

	granted chan struct{} // closed when it has a turn
	moved   chan struct{} // holds one token when position or granted changed

	position int // guarded by Engine.mu, as all below; 1 is next, 0: not in the queue
	holds    bool
	child    *child
	work     *work
	model    *model

	refused bool // OnDelta returned an error; the caller's goroutine alone
}

func (e *Engine) newTurn(device llm.Device, w *work, keepAlive *time.Duration, onState func(Progress)) *turn {
	if onState == nil {
		onState = func(Progress) {}
	}
	keep := e.options.KeepAlive
	if keepAlive != nil {
		keep = *keepAlive
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return &turn{
		lane: e.lane(device), onState: onState, keep: keep, work: w,
		granted: make(chan struct{}), moved: make(chan struct{}, 1),
	}
}

// enter waits in the queue until t has a turn. With an error, it has none and is not in the queue.
func (t *turn) enter(ctx context.Context) error {
	if err := t.join(ctx); err != nil {
		return err
	}
	told := 0
	for {
		t.lane.engine.mu.Lock()
		position := t.position
		t.lane.engine.mu.Unlock()
		if position != 0 && position != told {
			told = position
			t.onState(Progress{State: Queued, Position: position})
		}
		select {
		case <-t.granted:
			return nil
		case <-t.moved:
		case <-ctx.Done():
			t.end()
			return ctx.Err()
		case <-t.lane.engine.closing:
			t.end()
			return errStopped()
		}
	}
}

func (t *turn) join(ctx context.Context) error {
	l, e := t.lane, t.lane.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return errStopped()
	case ctx.Err() != nil:
		return ctx.Err()
	case l.held < l.turns && len(l.queue) == 0:
		l.grant(t)
	case len(l.queue) >= e.options.QueueLimit:
		return llm.Errorf(llm.CodeOverloaded, queueFull)
	default:
		l.queue = append(l.queue, t)
		t.position = len(l.queue)
	}
	e.changed()
	return nil
}

func (l *lane) grant(t *turn) {
	l.held++
	l.turnsOf[t.work] = struct{}{}
	t.holds, t.position = true, 0
	close(t.granted)
}

// end gives back what t has: its use of the model, its work in the child, its turn, its place. It may be called often, from
// anywhere. It comes before the caller's last frame: the client may send its next request the moment the answer ends.
func (t *turn) end() {
	e := t.lane.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	t.leave()
}

// leave is end with mu held.
func (t *turn) leave() {
	l := t.lane
	if t.model != nil {
		l.unuse(t.model, t.keep)
		t.model = nil
	}
	if t.child != nil {
		l.finish(t.child, t.work)
		t.child = nil
	}
	if t.holds {
		t.holds = false
		l.held--
		delete(l.turnsOf, t.work)
		l.advance()
	} else if t.position != 0 {
		l.queue = append(l.queue[:t.position-1:t.position-1], l.queue[t.position:]...)
		t.position = 0
		l.renumber()
	} else {
		return
	}
	l.engine.changed()
}

// advance grants free turns in order.
func (l *lane) advance() {
	for l.held < l.turns && len(l.queue) > 0 {
		next := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		l.grant(next)
	}
	l.renumber()
}

func (l *lane) renumber() {
	for i, t := range l.queue {
		if t.position != i+1 {
			t.position = i + 1
			select {
			case t.moved <- struct{}{}:
			default:
			}
		}
	}
}

// work is something a child is doing, for the autopsy. Engine.mu guards phase, left and doubted.
type work struct {
	phase   string // see Exit.Phase
	model   string
	tokens  int  // of its prompt
	loads   bool // it is a load; other work in phase load waits for one
	cause   cause
	left    bool // nobody waits for it any more, and the child has been told
	doubted bool // left, and the child does not stop
}

// cause tells two requests apart that may be the cause of a crash.
type cause [sha256.Size]byte

func fingerprint(write func(add func([]byte))) cause {
	hash := sha256.New()
	write(func(b []byte) { hash.Write(b) })
	return cause(hash.Sum(nil))
}
