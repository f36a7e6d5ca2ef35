package pipe

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// writer puts frames on a stream, one after the other, in a goroutine of its own: send never blocks.
type writer struct {
	out   io.Writer
	limit time.Duration
	fail  func(error) // called when a write fails or takes too long; may be called twice

	wake    chan struct{} // holds one token while there may be something to write
	closing chan struct{}
	ended   chan struct{} // closed when run has returned

	mu      sync.Mutex
	urgent  []queued // guarded by mu; goes before bulk
	bulk    []queued // guarded by mu
	stopped bool     // guarded by mu
}

type queued struct {
	id    uint64
	frame []byte
}

func newWriter(out io.Writer, limit time.Duration, fail func(error)) *writer {
	return &writer{
		out: out, limit: limit, fail: fail,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
}

// send queues a frame. Frames of one kind leave in the order they came; urgent ones overtake the others.
func (w *writer) send(id uint64, frame []byte, urgent bool) {
	w.mu.Lock()
	if !w.stopped {
		if urgent {
			w.urgent = append(w.urgent, queued{id, frame})
		} else {
			w.bulk = append(w.bulk, queued{id, frame})
		}
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// drop takes back the request id, when no byte of it has left.
func (w *writer) drop(id uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, q := range w.bulk {
		if q.id == id {
			w.bulk = append(w.bulk[:i], w.bulk[i+1:]...)
			return true
		}
	}
	return false
}

func (w *writer) next() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, queue := range []*[]queued{&w.urgent, &w.bulk} {
		if len(*queue) > 0 {
			frame := (*queue)[0].frame
			(*queue)[0] = queued{}
			*queue = (*queue)[1:]
			return frame
		}
	}
	return nil
}

// run writes until stop or until a write fails.
func (w *writer) run() {
	defer close(w.ended)
	for {
		frame := w.next()
		if frame == nil {
			select {
			case <-w.wake:
			case <-w.closing:
				return
			}
			continue
		}
		late := time.AfterFunc(w.limit, func() {
			w.fail(fmt.Errorf("a frame of %d bytes was not taken within %s", len(frame), w.limit))
		})
		_, err := w.out.Write(frame)
		late.Stop()
		if err != nil {
			w.fail(fmt.Errorf("%w: %w", ErrEnded, err))
			return
		}
	}
}

// stop makes run return when it is not inside a write. It may be called twice.
func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.stopped = true
		w.urgent, w.bulk = nil, nil
		close(w.closing)
	}
}
