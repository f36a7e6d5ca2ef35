package generate

import "sync"

// ledger tells what each model takes of this process's memory.
//
// What is measured is the memory that the process has in use. What it has before the first model is the runtime's own; from then on
// whatever it gains or loses is booked to the model that was loaded, or answered, when it is seen. So a model's figure holds all that
// it takes: weights (those mapped from their file too, as far as they were read), what was compiled, the KV cache with the conversations
// that are kept, the room that inferences work in, and its tokenizer. With one model loaded it is exact; of several that work at
// once, what one gains may be booked to the other, but the sum is right.
//
// Memory of a GPU or an NPU is not seen from here, and on Windows none is measured: then a model's figure is what is known without
// measuring, its weights and its pages.
type ledger struct {
	mu    sync.Mutex
	seen  int64            // bytes in use when this was last looked at; 0: not yet, or the system does not tell; guarded by mu
	taken map[string]int64 // by model; guarded by mu
}

// open begins the books: what the process has now belongs to no model.
func (l *ledger) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.taken = residentBytes(), map[string]int64{}
}

// charge books what has changed since to model, and returns what that takes now: never less than least, which is known without measuring.
func (l *ledger) charge(model string, least int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := residentBytes()
	l.taken[model] += now - l.seen
	l.seen = now
	return max(l.taken[model], least)
}

// drop closes a model's account. What the process does not give back belongs to no model.
func (l *ledger) drop(model string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, model)
	l.seen = residentBytes()
}
