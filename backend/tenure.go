package backend

import (
	"context"
	"time"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/internal/dirs"
	"signalbox/internal/runtime"
)

// tenure is an engine, what it was made with, and how many use it. engines.mu guards all but the first two.
type tenure struct {
	*engine.Engine
	settings engineSettings

	users   int           // requests and others that hold it
	retired bool          // the settings have changed: a newer one takes its place
	unused  chan struct{} // closed when it is retired and nobody holds it

	found   *runtime.Runtime // nil until one was found
	problem error            // why there is none
	looked  time.Time        // when there was none
	looking chan struct{}    // closed when the look under way has ended; nil: there is none
}

// retireLimit is how long an engine of earlier settings may take to end its last requests.
var retireLimit = 15 * time.Minute

// findRuntime is runtime.Find. A variable for tests.
var findRuntime = runtime.Find

// hold keeps an engine from being closed until release is called, once or more often. mu is held.
func (e *engines) hold(t *tenure) (release func()) {
	t.users++
	released := false
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if released {
			return
		}
		released = true
		if t.users--; t.users == 0 && t.retired {
			close(t.unused)
		}
	}
}

// use holds the engine without asking for the runtime.
func (e *engines) use() (eng *engine.Engine, release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now.Engine, e.hold(e.now)
}

// ready holds the engine when it can run something; else the error is the sentence that says why not. What was missing is
// looked for again each time, by one for all who ask meanwhile.
func (e *engines) ready(ctx context.Context) (eng *engine.Engine, release func(), err error) {
	t, release, err := e.holdReady(ctx)
	if err != nil {
		return nil, nil, err
	}
	return t.Engine, release, nil
}

// holdReady is ready for who also wants to know what the engine was made with.
func (e *engines) holdReady(ctx context.Context) (t *tenure, release func(), err error) {
	for {
		e.mu.Lock()
		t := e.now
		if e.backend.options.Fake || t.found != nil {
			defer e.mu.Unlock()
			return t, e.hold(t), nil
		}
		ended := e.look(t)
		e.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-e.closing:
			return nil, nil, llm.Errorf(llm.CodeStopped, "Signalbox is quitting")
		}
		e.mu.Lock()
		err := t.problem
		current := t == e.now
		e.mu.Unlock()
		if err != nil && current {
			return nil, nil, err
		}
	}
}

// look looks for the runtime, or joins who does: files may be read in full, and the status is drawn meanwhile. mu is held.
func (e *engines) look(t *tenure) (ended <-chan struct{}) {
	if t.looking != nil {
		return t.looking
	}
	done := make(chan struct{})
	t.looking = done
	go func() { // not waited for: it changes nothing, and may take long
		defer close(done)
		found, err := findRuntime(t.settings.runtimeDir, dirs.Beside(), e.backend.options.Dirs.Data)
		e.mu.Lock()
		before := t.problem
		t.looking, t.problem, t.looked = nil, err, time.Now()
		if err == nil {
			t.found = &found
		}
		e.mu.Unlock()
		if err != nil && (before == nil || before.Error() != err.Error()) {
			e.backend.log.Error("no native runtime", "error", err)
		}
		if err == nil || before == nil || before.Error() != err.Error() {
			e.backend.changed.wake()
		}
	}()
	return done
}

// named is provider for a request's record, which is made before the request asks for the engine: where nobody has looked
// for the runtime yet, or not just now, it looks.
func (e *engines) named() string {
	e.mu.Lock()
	t := e.now
	if e.backend.options.Fake || t.found != nil || t.looking == nil && time.Since(t.looked) < time.Second {
		e.mu.Unlock()
		return e.provider()
	}
	ended := e.look(t)
	e.mu.Unlock()
	select {
	case <-ended:
	case <-e.closing:
	}
	return e.provider()
}
