package generate

import (
	"context"
	"slices"
	"sync"

	"signalbox/internal/generate/constrain"
)

// newCompiler makes the compiler of a model's constraints. It loads nothing before it is needed.
func (r *Runner) newCompiler(c *chat) *constrain.Compiler {
	ends := make([]int32, 0, len(c.ends))
	for id := range c.ends {
		if int(id) < c.vocab {
			ends = append(ends, id)
		}
	}
	slices.Sort(ends)
	v := constrain.Vocabulary{Text: c.tokenizer.tokens, Names: c.tokenizer.raw, Size: c.vocab, Ends: ends}
	return constrain.New(r.options.Runtime, v, constrain.Options{Stuck: r.wear.out})
}

// hold makes an answer keep to what its request asks for.
func (c *chat) hold(ctx context.Context, a *answer) error {
	if a.request.Constraint == nil {
		return nil
	}
	var err error
	a.held, err = c.grammars.Compile(ctx, a.request.Constraint, a.request.Markers)
	return err
}

// release frees what holds the answer.
func (a *answer) release() {
	if a.held != nil {
		a.held.Close()
	}
}

// limit tells the sampler which tokens may come next. It tells whether the answer is complete: none may.
func (a *answer) limit() (complete bool, err error) {
	if a.held == nil {
		return false, nil
	}
	mask, err := a.held.Mask()
	a.sampler.SetMask(mask)
	return a.held.Done(), err
}

// keep follows the answer with token id.
func (a *answer) keep(id int32) error {
	if a.held == nil {
		return nil
	}
	return a.held.Accept(id)
}

// wear knows when this process should be replaced: when a native call that cannot be ended holds one of its threads, and no
// answer is running any more.
type wear struct {
	tell func(error)

	mu      sync.Mutex
	running int   // answers; guarded by mu
	reason  error // nil: nothing is stuck; guarded by mu
}

// out notes that a thread is lost.
func (w *wear) out(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reason = reason
	w.check()
}

func (w *wear) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running++
}

func (w *wear) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.check()
}

func (w *wear) check() {
	if w.reason != nil && w.running == 0 && w.tell != nil {
		w.tell(w.reason)
		w.tell = nil // once
	}
}

// stuck is the error of a constraint that took too long, for the log.
func (r *Runner) stuck(reason error) {
	r.options.Log.Warn("a native compile does not end; this process should be replaced", "error", reason)
	if r.options.Worn != nil {
		r.options.Worn(reason)
	}
}
