package backend

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"signalbox/backend/cards"
	"signalbox/backend/dispatch"
	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/server"
)

// expecting says of a phase in which a model is compiled how long that took before; with 0 and of other phases it says nothing.
func expecting(phase llm.Phase, before time.Duration) llm.Phase {
	if phase.Compiles() && before > 0 {
		phase.Name += fmt.Sprintf(", the last time it took %s", max(time.Second, before.Round(time.Second)))
	}
	return phase
}

// expected is an onState that knows how long the model took to be compiled before.
func (k *knowledge) expected(device llm.Device, load llm.LoadRequest, tell func(engine.Progress)) func(engine.Progress) {
	if tell == nil || device.Class != llm.NPU && device.Class != llm.GPU {
		return tell
	}
	before := k.cards.Compiling(load.Model.Name, device)
	return func(p engine.Progress) {
		p.Phase = expecting(p.Phase, before)
		tell(p)
	}
}

// Compile compiles a model for a device before anybody needs it there, in a process of its own: requests go on meanwhile, and when ctx
// is done that process ends, in the middle of it too. What comes out is kept for the first load. tell hears each phase, and each second.
func (r routing) Compile(ctx context.Context, model, device string, tell func(server.Compiling) error) (server.CompiledModel, error) {
	explained, err := r.dispatcher.Explain(ctx, dispatch.Call{Request: llm.Request{Model: model, Device: device}})
	if err != nil {
		return server.CompiledModel{}, err
	}
	m, on := explained.Model, explained.Decision.Device
	eng, release, err := r.engine.aside(ctx)
	if err != nil {
		return server.CompiledModel{}, err
	}
	defer release()
	load := r.engine.limited(r.engine.current(), on, llm.LoadRequest{Model: m.Ref(), Embedding: m.Kind == models.KindEmbedding})
	loaded, err := r.load(ctx, eng, on, load, tell)
	if err != nil {
		return server.CompiledModel{}, err
	}
	if !loaded.Cached && loaded.LoadTime > 0 {
		r.knowledge.cards.Update(load.Model.Name, on, r.knowledge.basis(load.Model.Digest, on), func(c *cards.Card) { c.Compile = loaded.LoadTime })
	}
	for _, c := range r.Compiled().Models {
		if c.Model == m.Ref().Name && c.Device == on.ID() && c.Again == "" {
			return c, nil
		}
	}
	return server.CompiledModel{Model: m.Ref().Name, Device: on.ID(), Label: on.Label()}, nil // nothing was kept
}

// load loads a model once, and tells how far it is.
func (r routing) load(ctx context.Context, eng *engine.Engine, on llm.Device, load llm.LoadRequest, tell func(server.Compiling) error) (llm.Loaded, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	phases := make(chan string)
	type end struct {
		loaded llm.Loaded
		err    error
	}
	ended := make(chan end, 1)
	go func() { // waited for below
		var e end
		e.loaded, _, e.err = eng.Load(ctx, on, load, nil, r.knowledge.expected(on, load, func(p engine.Progress) {
			select {
			case phases <- p.Phase.Name:
			case <-ctx.Done():
			}
		}))
		ended <- e
	}()
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	phase := "starting a process for " + on.Label()
	for {
		if err := tell(server.Compiling{Status: phase, ElapsedS: time.Since(began).Seconds()}); err != nil {
			cancel(err)
		}
		select {
		case named := <-phases:
			phase = cmp.Or(named, phase)
		case <-tick.C:
		case e := <-ended:
			return e.loaded, e.err
		case <-ctx.Done():
			e := <-ended
			if e.err == nil {
				return e.loaded, nil
			}
			return e.loaded, llm.Errorf(llm.CodeCancelled, "compiling %s for %s was stopped: %w", load.Model.Name, on.Label(), context.Cause(ctx))
		}
	}
}

// aside is an engine with the settings of now, whose processes are nobody else's. release ends them.
func (e *engines) aside(ctx context.Context) (*engine.Engine, func(), error) {
	t, release, err := e.holdReady(ctx)
	if err != nil {
		return nil, nil, err
	}
	o := e.options(t)
	o.Known, o.Changed = nil, nil
	eng := engine.New(o)
	return eng, func() {
		_ = eng.Close()
		release()
	}, nil
}
