package backend

import "sync"

// watchers are woken when the status has changed. Of several changes a slow one sees one: it draws the status anew anyway.
type watchers struct {
	mu   sync.Mutex
	list map[chan struct{}]struct{} // guarded by mu
}

// watch returns a channel that holds a token after a change, and a function that ends the watching.
func (w *watchers) watch() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list == nil {
		w.list = map[chan struct{}]struct{}{}
	}
	w.list[c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.list, c)
	}
}

func (w *watchers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.list {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
