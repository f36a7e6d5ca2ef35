package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"signalbox/backend/engine"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/router"
)

// attempt does a request's work on the device that was decided on. Where that fails before anything of the answer went to the
// client, it is tried once more: on the next device, while no header has named the first, else on the same one again, where
// that may help. That is when its process was ended by somebody else (a user, the system for want of memory, a suspend), or
// crashed before it had the request: what a start or a load does depends on no request. A crash at the request itself would
// only be repeated.
//
// The last failure is the answer. do sets t.times, which tell of both tries together afterwards, as t.lost does of the first.
func (t *trip) attempt(ctx context.Context, model models.Model, decision router.Decision, do func(llm.Device) error) error {
	err := do(decision.Device)
	if !failed(err) || ctx.Err() != nil || !t.first.IsZero() && t.again == nil {
		return advise(err)
	}
	device := decision.Device
	next, noOther := t.choose(ctx, model, len(t.prompt.Tokens), map[string]string{device.ID(): clause(err)})
	switch {
	case noOther == nil && t.move(next):
		device = next.Device
	case blameless(err) || crashedBefore(err):
		t.repeat(err)
	default:
		return advise(err)
	}
	before, ran := t.times, !t.began.IsZero()
	if ran {
		t.lost = time.Since(t.began)
	}
	t.times, t.began = engine.Times{}, time.Time{}
	t.forget()
	err = do(device)
	after := t.times
	t.times = sum(before, after)
	switch {
	case !ran: // of a load no energy is measured
		t.times.Joules = after.Joules
	case t.began.IsZero():
		t.times.Joules = before.Joules
	}
	return advise(err)
}

// forget takes back what the first try delivered. Nobody has seen it.
func (t *trip) forget() {
	if t.first.IsZero() {
		return
	}
	t.again()
	t.first = time.Time{}
	t.said.Reset()
	t.live.Unanswered()
	t.live.Update(func(e *journal.Entry) { e.TokensSoFar = 0 })
}

// advise says what to do about a process that somebody else ended: what is known of it is a signal's name. Several requests may
// share the error, so this is another one.
func advise(err error) error {
	e, ok := err.(*llm.Error)
	if !ok || e.Hint != "" || !blameless(err) {
		return err
	}
	if exit, _ := errors.AsType[*engine.Exit](err); exit.Reason != "" {
		return err
	}
	advised := *e
	return advised.WithHint("something outside Signalbox ended it, as systems do when memory runs out; try again, and if it happens again, free some memory or choose a smaller model")
}

// failed tells a fault of a device from all else that ends a request.
func failed(err error) bool {
	_, ended := errors.AsType[*engine.Exit](err)
	return ended || llm.CodeOf(err) == llm.CodeEngine
}

// blameless tells that a process was ended, and that neither the device nor the request is to blame.
func blameless(err error) bool {
	exit, ended := errors.AsType[*engine.Exit](err)
	return ended && !exit.Fault && !exit.Stuck
}

// crashedBefore tells that a process crashed, not for being slow, before it had the request.
func crashedBefore(err error) bool {
	exit, ended := errors.AsType[*engine.Exit](err)
	return ended && !exit.Stuck && exit.Reason == "" && (exit.Phase == "start" || exit.Phase == "load")
}

// move takes a request that nothing was told about yet to another device.
func (t *trip) move(next router.Decision) bool {
	moved := false
	t.set(func(r *llm.Record) {
		if moved = !t.begun; moved {
			next.Record(r)
			t.room = next.AnswerLimit
		}
	})
	return moved
}

// repeat writes into the record that the device is asked again, and why.
func (t *trip) repeat(err error) {
	t.set(func(r *llm.Record) {
		r.RouteReason = fmt.Sprintf("%s; it was asked again there, since %s.", strings.TrimSuffix(r.RouteReason, "."), lost(err))
	})
}

// lost is why a try came to nothing, as a clause.
func lost(err error) string {
	if exit, ended := errors.AsType[*engine.Exit](err); ended {
		return exit.Error()
	}
	return clause(err)
}

// clause is an error as part of a sentence.
func clause(err error) string {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e.Message
	}
	return err.Error()
}
