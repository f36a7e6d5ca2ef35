package pipe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/backend/llm"
)

// embedBytes is how much text goes into one embed request.
const embedBytes = 2 << 20

// ErrLost is in the chain of every error of a call that ended because the connection did.
var ErrLost = errors.New("connection to the engine process lost")

// ErrEnded is in the chain of Client.Reason when the other end closed the streams; without it the Client gave up.
var ErrEnded = errors.New("the process closed its stream")

// Client works through a child that Serves. It is an llm.Runner.
//
// A call whose ctx is done tells the child to stop and returns when the child has stopped, with true Stats; or after
// Config.Patience, when the child is inside a native call that cannot be interrupted. OnEnd tells when the child is done with it.
type Client struct {
	config Config
	in     io.Closer
	out    io.Closer
	writer *writer
	ending sync.WaitGroup
	silent atomic.Int64 // pings sent since the last frame came

	greeted chan struct{} // closed when hello is set
	hello   Hello
	done    chan struct{} // closed when err is set

	mu    sync.Mutex
	why   error            // guarded by mu; why the connection ended
	err   error            // guarded by mu; the same for callers
	last  uint64           // guarded by mu
	calls map[uint64]*call // guarded by mu
}

var _ llm.Runner = (*Client)(nil)

// NewClient begins to talk. It owns both streams from now on: Close closes them, and so does the connection's end.
func NewClient(in io.ReadCloser, out io.WriteCloser, config Config) *Client {
	c := &Client{
		config: config.withDefaults(), in: in, out: out,
		greeted: make(chan struct{}), done: make(chan struct{}),
		calls: map[uint64]*call{},
	}
	c.writer = newWriter(out, c.config.Write, c.fail)
	c.ending.Go(c.writer.run)
	c.ending.Go(func() { c.fail(c.read(in)) })
	c.ending.Go(c.ping)
	return c
}

// Hello waits for the child's first frame.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	select {
	case <-c.greeted:
		return c.hello, nil
	case <-c.done:
		return Hello{}, c.Err()
	case <-ctx.Done():
		return Hello{}, ctx.Err()
	}
}

// Done is closed when the connection has ended. All calls then end with ErrLost in their chain.
func (c *Client) Done() <-chan struct{} { return c.done }

// Reason says why the connection ended; nil while it has not.
func (c *Client) Reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// Err is what calls end with when the connection has ended; nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection, and with it the child. It waits for the Client's goroutines; it may be called twice.
func (c *Client) Close() error {
	c.fail(errors.New("closed"))
	c.ending.Wait()
	return nil
}

// fail ends the connection once: later reasons are not kept.
func (c *Client) fail(reason error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	if reason == io.EOF {
		reason = ErrEnded
	} else if errors.Is(reason, io.ErrUnexpectedEOF) {
		reason = fmt.Errorf("%w: %w", ErrEnded, reason)
	}
	lost := llm.Errorf(llm.CodeEngine, "the connection to the engine process ended: %w", reason)
	lost.Cause = fmt.Errorf("%w: %w", ErrLost, reason)
	c.why, c.err = reason, lost
	close(c.done)
	calls := c.calls
	c.calls = nil
	c.ending.Add(1) // before another Close may wait
	c.mu.Unlock()

	c.writer.stop()
	for _, call := range calls {
		call.end(incoming{}, lost)
	}
	go func() { // closing may block where the system cannot interrupt a read
		defer c.ending.Done()
		c.out.Close()
		c.in.Close()
	}()
}

func (c *Client) read(in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		f, err := decode(r)
		if err != nil {
			return err
		}
		c.silent.Store(0)
		switch f.Op {
		case opPong:
		case opHello:
			err = c.greet(f)
		case opPhase, opDelta, opVectors, opDone:
			err = c.deliver(f)
		default:
			err = fmt.Errorf("an unknown operation %q", f.Op)
		}
		if err != nil {
			return err
		}
	}
}

func (c *Client) greet(f incoming) error {
	select {
	case <-c.greeted:
		return errors.New("a second hello")
	default:
	}
	if err := json.Unmarshal(f.Body, &c.hello); err != nil {
		return fmt.Errorf("a hello that cannot be read: %w", err)
	}
	close(c.greeted)
	return nil
}

func (c *Client) deliver(f incoming) error {
	c.mu.Lock()
	call := c.calls[f.ID]
	if f.Op == opDone {
		delete(c.calls, f.ID)
	}
	c.mu.Unlock()
	if call == nil {
		return fmt.Errorf("a %s frame for request %d, which nobody made", f.Op, f.ID)
	}
	if f.Op == opDone {
		call.end(f, nil)
		return nil
	}
	return call.add(f, c.config.Window)
}

// ping counts pings, not time: after a suspend or a stopped parent the child has its chance to answer.
func (c *Client) ping() {
	frame, err := encode(outgoing{Op: opPing})
	if err != nil {
		c.fail(err)
		return
	}
	ticker := time.NewTicker(c.config.Ping)
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
		}
		if silence := time.Duration(c.silent.Add(1)-1) * c.config.Ping; silence >= c.config.Silence {
			c.fail(fmt.Errorf("the process did not answer for %s", silence))
			return
		}
		c.writer.send(0, frame, true)
	}
}

// Silent is how long the child has left its pings without an answer; 0 as long as it may still be on its way.
func (c *Client) Silent() time.Duration {
	if pings := c.silent.Load(); pings > 2 {
		return time.Duration(pings-1) * c.config.Ping
	}
	return 0
}

type onEndKey struct{}

// OnEnd returns a context for one call of a Client, which then calls f exactly once: when the child has ended the work of that
// call, or can no longer do any. That may be after the call has returned (ctx was done while the child was in a native
// call), or before (the answer waits for a slow caller). f runs on any goroutine and must not block.
func OnEnd(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, onEndKey{}, f)
}

func onEnd(ctx context.Context) func() {
	f, _ := ctx.Value(onEndKey{}).(func())
	return f
}

// Devices asks the child's runner.
func (c *Client) Devices(ctx context.Context) ([]llm.Device, error) {
	return result[[]llm.Device](c.do(ctx, opDevices, nil, nil))
}

// Load asks the child's runner. Of a native load ctx ends the waiting only.
func (c *Client) Load(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (llm.Loaded, error) {
	return result[llm.Loaded](c.do(ctx, opLoad, req, func(f incoming) error {
		var phase llm.Phase
		if err := json.Unmarshal(f.Body, &phase); err != nil {
			return err
		}
		if progress != nil {
			progress(phase)
		}
		return nil
	}))
}

// Unload asks the child's runner.
func (c *Client) Unload(ctx context.Context, model string) error {
	_, err := c.do(ctx, opUnload, model, nil)
	return err
}

// Prepare asks the child's runner.
func (c *Client) Prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	return result[llm.Prompt](c.do(ctx, opPrepare, req, nil))
}

// Generate asks the child's runner. When the connection ends, or the child does not answer, the Stats hold what is known.
func (c *Client) Generate(ctx context.Context, req llm.GenerateRequest, emit func(llm.Delta) error) (llm.Stats, error) {
	known := llm.Stats{PromptTokens: len(req.Tokens)}
	f, err := c.do(ctx, opGenerate, req, func(f incoming) error {
		var delta llm.Delta
		if err := json.Unmarshal(f.Body, &delta); err != nil {
			return err
		}
		known.CompletionTokens = delta.Tokens
		return emit(delta)
	})
	if f.Body == nil {
		return known, err
	}
	stats, bad := result[llm.Stats](f, nil)
	if bad != nil {
		return known, bad
	}
	if stats.Cancel == 0 {
		stats.Cancel = f.stopped
	}
	return stats, err
}

// Embed asks the child's runner, in requests of bounded size.
func (c *Client) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embedded, error) {
	var all llm.Embedded
	end := onEnd(ctx)
	inputs := req.Inputs
	for first := 0; ; {
		n := batch(inputs[first:])
		req.Inputs = inputs[first : first+n]
		last := first+n == len(inputs)
		part, call, err := c.embed(ctx, req)
		if err != nil || last {
			call.whenEnded(end)
		}
		if err != nil {
			return llm.Embedded{}, err
		}
		all.Vectors = append(all.Vectors, part.Vectors...)
		all.Tokens += part.Tokens
		all.Duration += part.Duration
		all.Memory = part.Memory
		for _, i := range part.Truncated {
			all.Truncated = append(all.Truncated, first+i)
		}
		if last {
			return all, nil
		}
		first += n
	}
}

func (c *Client) embed(ctx context.Context, req llm.EmbedRequest) (llm.Embedded, *call, error) {
	var vectors [][]float32
	call := newCall(opEmbed, nil)
	f, err := c.run(ctx, call, req, func(f incoming) error {
		var batch []string
		if err := json.Unmarshal(f.Body, &batch); err != nil {
			return err
		}
		for _, text := range batch {
			vector, err := decodeVector(text)
			if err != nil {
				return err
			}
			vectors = append(vectors, vector)
		}
		return nil
	})
	part, err := result[llm.Embedded](f, err)
	part.Vectors = vectors
	if err == nil && len(vectors) != len(req.Inputs) {
		err = llm.Errorf(llm.CodeEngine, "embed %d inputs with %s: %d vectors came back", len(req.Inputs), req.Model.Name, len(vectors))
	}
	return part, call, err
}

// batch is how many of inputs go into the next request: at least one, when there is one.
func batch(inputs []string) int {
	size := 0
	for i, input := range inputs {
		if size += len(input); size > embedBytes && i > 0 {
			return i
		}
	}
	return len(inputs)
}

func result[T any](f incoming, err error) (T, error) {
	var value T
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(f.Body, &value); err != nil {
		return value, llm.Errorf(llm.CodeEngine, "the engine process answered something else: %w", err)
	}
	return value, nil
}
