package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/pipe"
)

// child is a running engine process of a lane. Engine.mu guards all but process and gone.
type child struct {
	*process
	started time.Time
	gone    chan struct{} // closed when it has ended and all is written down
	exit    *Exit         // set when gone is closed; without a phase

	models  map[string]*model
	working map[*work]struct{}
	idle    *time.Timer // runs while it has neither models nor work
	emptied bool        // a model was unloaded from it: it holds memory that no one needs, and the runtime gives little of that back
	tainted bool        // its runtime reported an error: it gets no new work, and ends when what it has is done
	ending  bool        // end has been called
	reason  string      // why we ended it; empty: we did not
	blamed  bool        // it ended by our hand, and that counts as a fault
}

// lost says that nothing can be asked of it any more.
func (c *child) lost() bool {
	select {
	case <-c.client.Done():
		return true
	default:
		return false
	}
}

// starting is a start under way: all who need the child wait for it.
type starting struct {
	done chan struct{}
	err  error // set when done is closed
}

// acquire returns the lane's child with w among its work, and starts one where none is. waiting is called on this goroutine
// when it takes a pause after failures.
func (l *lane) acquire(ctx context.Context, w *work, waiting func(since time.Time)) (*child, error) {
	e := l.engine
	for {
		e.mu.Lock()
		c := l.child
		switch {
		case e.closed:
			e.mu.Unlock()
			return nil, errStopped()
		case c != nil && !c.ending && !c.tainted && !c.lost():
			l.occupy(c, w)
			e.mu.Unlock()
			return c, nil
		case c != nil: // on its way out
			e.mu.Unlock()
			if err := await(ctx, e, c.gone); err != nil {
				return nil, err
			}
			continue
		}
		s := l.starting
		if s == nil {
			s = &starting{done: make(chan struct{})}
			l.starting = s
			e.going.Go(func() { l.begin(s) })
			e.changed()
		}
		pause := time.Until(l.earliest)
		e.mu.Unlock()
		if pause > 0 && waiting != nil {
			waiting(time.Now())
		}
		if err := await(ctx, e, s.done); err != nil {
			return nil, err
		}
		if s.err != nil {
			return nil, s.err
		}
	}
}

func await(ctx context.Context, e *Engine, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closing:
		return errStopped()
	}
}

// begin starts the child, after the pause that failed starts and loads have earned.
func (l *lane) begin(s *starting) {
	e := l.engine
	e.mu.Lock()
	pause := time.Until(l.earliest)
	e.mu.Unlock()
	var p *process
	err := await(context.Background(), e, after(pause))
	if err == nil {
		p, err = l.launch()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(s.done)
	l.starting = nil
	e.changed()
	if err != nil {
		s.err = err
		l.failed()
		e.log.Warn("engine process did not start", "device", l.device.ID(), "error", err)
		return
	}
	c := &child{process: p, started: time.Now(), gone: make(chan struct{}), models: map[string]*model{}, working: map[*work]struct{}{}}
	l.child = c
	e.going.Go(func() { l.watch(c) }) // this goroutine is one of going: Close still waits
	if e.closed {
		l.end(c, "the engine was closed", false)
		return
	}
	l.rest(c)
}

// launch turns a panic into the error of those who wait.
func (l *lane) launch() (p *process, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = llm.Errorf(llm.CodeInternal, "start the engine process for %s: panic: %v", l.device.Label(), v)
		}
	}()
	return l.engine.start(l.device)
}

func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	if d <= 0 {
		close(done)
	} else {
		time.AfterFunc(d, func() { close(done) })
	}
	return done
}

const longestPause = time.Minute

// youth is how long a child that ends without any work counts as one that did not start well.
const youth = 5 * time.Second

// count counts the end of a child where the next one may well end the same way: one that ended in a load, or soon after its start
// without any work. What a request made crash starts fine: others need not wait for the next child because of it.
func (l *lane) count(c *child) {
	loading, preparing := false, false
	for w := range c.working {
		switch w.phase {
		case phasePrefill, phaseDecode, phaseEmbed:
			l.failures = max(l.failures, 1) // so that the lane is seen to restart
			return
		case phasePrepare:
			preparing = true
		default:
			loading = true
		}
	}
	if loading || !preparing && time.Since(c.started) < youth {
		l.failed()
		return
	}
	l.failures = max(l.failures, 1)
}

// failed counts a start or a load that failed. The first restart follows at once, the next ones wait longer and longer.
func (l *lane) failed() {
	l.failures++
	if l.failures < 2 {
		return
	}
	pause := longestPause
	if shift := l.failures - 2; shift < 16 {
		pause = min(pause, l.engine.options.Pause<<shift)
	}
	l.earliest = time.Now().Add(pause)
}

func (l *lane) succeeded() { l.failures, l.earliest = 0, time.Time{} }

func (l *lane) occupy(c *child, w *work) {
	c.working[w] = struct{}{}
	if c.idle != nil {
		c.idle.Stop()
		c.idle = nil
	}
}

// finish takes w off the child. What a lost child was doing stays, for the autopsy.
func (l *lane) finish(c *child, w *work) {
	if c.lost() {
		return
	}
	delete(c.working, w)
	l.rest(c)
	l.replaceHung(c)
}

// emptiedIdle is how long a child stays from which a model was unloaded: long enough for the next request of somebody who wants
// every model unloaded at once, so that not each of them pays for the start of a process.
const emptiedIdle = 5 * time.Second

// rest ends a child with nothing to do: a tainted one at once, one without models after a while.
func (l *lane) rest(c *child) {
	if c.ending || len(c.working) > 0 {
		return
	}
	if c.tainted {
		l.end(c, "its runtime had reported an error", false)
		return
	}
	if len(c.models) > 0 || c.idle != nil {
		return
	}
	e := l.engine
	after := e.options.IdleAfter
	if c.emptied {
		after = min(after, emptiedIdle)
	}
	c.idle = time.AfterFunc(after, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.idle != nil && len(c.working) == 0 && len(c.models) == 0 {
			l.end(c, "it had nothing to do", false)
		}
	})
}

// end ends a child. The connection goes first, and the process follows by itself; watch kills one that does not.
func (l *lane) end(c *child, reason string, blamed bool) {
	if c.ending || c.lost() {
		return
	}
	c.ending, c.reason, c.blamed = true, reason, blamed
	l.engine.log.Debug("engine process ends", "device", l.device.ID(), "reason", reason)
	go c.client.Close() // watch waits for it, but not for ever
}

// doubt begins to doubt the child when it is still busy with w, which nobody wants any more, after some time.
func (l *lane) doubt(c *child, w *work, patience time.Duration) {
	e := l.engine
	time.AfterFunc(patience, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, busy := c.working[w]; busy {
			w.doubted = true
			l.replaceHung(c)
		}
	})
}

// replaceHung ends a child when all that it does is work that it does not stop. As long as other work goes on, the hung one
// costs its turn only.
func (l *lane) replaceHung(c *child) {
	if len(c.working) == 0 {
		return
	}
	for w := range c.working {
		if !w.doubted {
			return
		}
	}
	l.end(c, "it did not stop what was cancelled", false)
}

// watch waits for the end of a child and writes it down.
func (l *lane) watch(c *child) {
	select {
	case <-c.client.Done():
	case <-c.exited:
		select { // what it wrote before it ended is still read
		case <-c.client.Done():
		case <-time.After(2 * time.Second):
		}
	}
	e := l.engine
	ended := c.bury(e.options.KillLimit)
	kept := e.keepWords(l.device, ended)

	e.mu.Lock()
	defer e.mu.Unlock()
	exit := &Exit{Device: l.device, Status: ended.text, Fault: c.blamed, Reason: c.reason, Stuck: ended.stuck}
	if !c.ending {
		exit.Fault = ended.fault
		if why := c.client.Reason(); !errors.Is(why, pipe.ErrEnded) && !exit.Fault {
			exit.Reason = why.Error()
		}
		l.count(c)
		e.log.Warn("engine process ended", "device", l.device.ID(), "status", exit.Status, "reason", exit.Reason, "said", ended.last, "stderr", kept)
	} else if c.blamed {
		l.count(c)
	}
	if exit.Stuck {
		e.log.Error("engine process cannot be ended", "device", l.device.ID(), "pid", c.pid, "status", exit.Status)
	}
	if exit.Fault {
		l.autopsy(c, exit)
	}
	c.exit = exit
	if c.idle != nil {
		c.idle.Stop()
	}
	for _, m := range c.models {
		m.stop()
	}
	l.child = nil
	close(c.gone)
	e.changed()
}

// keepWords keeps what a process that crashed wrote, which may be hundreds of lines, and tells where.
func (e *Engine) keepWords(device llm.Device, ended status) (file string) {
	if e.options.Keep == nil || !ended.fault || ended.tail == "" {
		return ""
	}
	file, err := e.options.Keep(device, ended.tail)
	if err != nil {
		return "not kept: " + err.Error()
	}
	return file
}

// explain turns the error of a call whose connection was lost into one that says how the child ended, and what w was doing.
func (l *lane) explain(c *child, w *work, err error) error {
	if !errors.Is(err, pipe.ErrLost) {
		return err
	}
	<-c.gone // watch bounds that
	l.engine.mu.Lock()
	exit, closed := *c.exit, l.engine.closed
	exit.Phase = w.phase
	l.engine.mu.Unlock()
	if closed {
		return errStopped()
	}
	what := "work"
	if w.model != "" {
		what = fmt.Sprintf("%s of %s", w.phase, w.model)
	}
	failed := llm.Errorf(llm.CodeEngine, "%s on %s: %w", what, l.device.Label(), &exit)
	switch {
	case exit.Stuck:
		failed.WithHint("restart this computer if the device does not answer any more, or choose another device")
	case exit.Fault:
		failed.WithHint("a driver or the runtime crashed; try again, or choose another device")
	}
	return failed
}
