package generate

import (
	"context"
	"sync"
)

// turn is the right to use a device: one holder at a time, first come first served. Who wants another turn queues behind
// those who wait, so answers that run at once advance token by token.
type turn struct {
	mu    sync.Mutex
	held  bool            // guarded by mu
	queue []chan struct{} // those who wait, in order; closed when it is their turn; guarded by mu
}

func newTurn() *turn { return &turn{} }

// take waits for the turn. It fails only when ctx is done, and then nothing is held.
func (t *turn) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if !t.held {
		t.held = true
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.queue = append(t.queue, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		t.quit(mine)
		return ctx.Err()
	}
}

// tryTake takes the turn when nobody has it.
func (t *turn) tryTake() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held {
		return false
	}
	t.held = true
	return true
}

// quit leaves the queue; when the turn has come meanwhile, it is passed on.
func (t *turn) quit(mine chan struct{}) {
	t.mu.Lock()
	for i, c := range t.queue {
		if c == mine {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			t.mu.Unlock()
			return
		}
	}
	t.mu.Unlock()
	t.give()
}

// give passes the turn to the next in the queue.
func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.held = false
		return
	}
	close(t.queue[0])
	t.queue = append(t.queue[:0], t.queue[1:]...)
}
