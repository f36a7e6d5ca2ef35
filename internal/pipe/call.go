package pipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/backend/llm"
)

const (
	ackEvery = 64          // consumed deltas, or
	ackAfter = time.Second // so long after the last acknowledgement, or when nothing waits
)

// call is one request, seen from the Client.
type call struct {
	op op
	id uint64 // set before it is shared

	wake chan struct{} // holds one token when something changed

	mu      sync.Mutex
	pieces  []incoming // guarded by mu; not consumed yet
	deltas  int        // guarded by mu; sent by the child and not acknowledged
	last    incoming   // guarded by mu; the done frame
	err     error      // guarded by mu; why there is none
	ended   bool       // guarded by mu
	onEnded func()     // guarded by mu
}

func newCall(op op, ended func()) *call {
	return &call{op: op, wake: make(chan struct{}, 1), onEnded: ended}
}

func (c *call) add(f incoming, window int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.Op == opDelta {
		if c.deltas++; c.deltas > window {
			return fmt.Errorf("more than %d deltas that nobody had asked for", window)
		}
	}
	c.pieces = append(c.pieces, f)
	c.notify()
	return nil
}

func (c *call) end(last incoming, err error) {
	c.mu.Lock()
	c.last, c.err, c.ended = last, err, true
	ended := c.onEnded
	c.mu.Unlock()
	if ended != nil {
		ended() // first: the caller may send its next request the moment this one returns
	}
	c.notify()
}

// whenEnded runs f when the call has ended, at once when it has. f may be nil.
func (c *call) whenEnded(f func()) {
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.onEnded = f
	}
	c.mu.Unlock()
	if ended && f != nil {
		f()
	}
}

func (c *call) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// next returns the next piece, or that there is none; ended says that none will follow.
func (c *call) next() (f incoming, ok, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pieces) == 0 {
		return incoming{}, false, c.ended
	}
	f = c.pieces[0]
	c.pieces[0] = incoming{}
	c.pieces = c.pieces[1:]
	return f, true, false
}

// do makes a request and consumes its pieces until the child has answered it.
func (c *Client) do(ctx context.Context, op op, body any, take func(incoming) error) (answer, error) {
	return c.run(ctx, newCall(op, onEnd(ctx)), body, take)
}

// answer is a done frame.
type answer = incoming

func (c *Client) run(ctx context.Context, call *call, body any, take func(incoming) error) (answer, error) {
	if err := c.start(ctx, call, body); err != nil {
		call.end(incoming{}, err)
		return answer{}, err
	}
	finished := false
	defer func() {
		if !finished { // take panicked
			c.cancel(call)
		}
	}()
	f, err := c.consume(ctx, call, take)
	finished = true
	return f, err
}

func (c *Client) start(ctx context.Context, call *call, body any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	c.last++
	call.id = c.last
	c.mu.Unlock()
	frame, err := encode(outgoing{Op: call.op, ID: call.id, Body: body})
	if errors.Is(err, errTooLarge) {
		return llm.Errorf(llm.CodeInvalid, "the request is too large for the engine: %w", err).WithHint("send less text at once")
	} else if err != nil {
		return llm.Errorf(llm.CodeInvalid, "the request cannot be sent to the engine: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.calls[call.id] = call
	c.writer.send(call.id, frame, false)
	return nil
}

// consume hands pieces to take until the call has ended. When ctx is done or take fails it tells the child, drops what still
// comes, and waits for the end, but not longer than Config.Patience.
func (c *Client) consume(ctx context.Context, call *call, take func(incoming) error) (answer, error) {
	var (
		unwanted  error // why we stopped it
		since     time.Time
		impatient <-chan time.Time
		acks      = acker{client: c, call: call, last: time.Now()}
		leaving   = ctx.Done()
	)
	abort := func(reason error) {
		unwanted, since, leaving = reason, time.Now(), nil
		impatient = time.After(c.config.Patience)
		c.cancel(call)
	}
	for {
		f, ok, ended := call.next()
		switch {
		case ok && unwanted != nil:
			// dropped
		case ok:
			if err := ctx.Err(); err != nil {
				abort(err)
			} else if err := take(f); err != nil {
				abort(err)
			} else if f.Op == opDelta {
				acks.consumed()
			}
		case ended:
			return c.conclude(call, unwanted, since)
		default:
			acks.flush()
			select {
			case <-call.wake:
			case <-leaving:
				abort(ctx.Err())
			case <-impatient:
				return answer{}, unwanted
			}
		}
	}
}

func (c *Client) conclude(call *call, unwanted error, since time.Time) (answer, error) {
	call.mu.Lock()
	defer call.mu.Unlock()
	f := call.last
	switch {
	case unwanted != nil:
		f.stopped = time.Since(since)
		return f, unwanted
	case call.err != nil:
		return answer{}, call.err
	case f.Error != nil:
		return f, f.Error
	}
	return f, nil
}

// cancel tells the child to stop. A request that has not left yet ends here.
func (c *Client) cancel(call *call) {
	if c.writer.drop(call.id) {
		c.mu.Lock()
		_, mine := c.calls[call.id]
		delete(c.calls, call.id)
		c.mu.Unlock()
		if mine {
			call.end(incoming{}, context.Canceled)
		}
		return
	}
	c.control(opCancel, call.id, 0)
}

func (c *Client) control(op op, id uint64, n int) {
	frame, err := encode(outgoing{Op: op, ID: id, N: n})
	if err != nil {
		c.fail(err)
		return
	}
	c.writer.send(id, frame, true)
}

// acker acknowledges what was consumed: at once while the caller keeps up, now and then while it does not.
type acker struct {
	client *Client
	call   *call
	n      int
	last   time.Time
}

func (a *acker) consumed() {
	if a.n++; a.n >= ackEvery || time.Since(a.last) >= ackAfter {
		a.flush()
	}
}

func (a *acker) flush() {
	if a.n == 0 {
		return
	}
	a.call.mu.Lock()
	a.call.deltas -= a.n
	a.call.mu.Unlock()
	a.client.control(opAck, a.call.id, a.n)
	a.n, a.last = 0, time.Now()
}
