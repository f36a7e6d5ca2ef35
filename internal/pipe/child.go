package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"signalbox/backend/llm"
)

// Main is the life of an engine process: it takes the frame streams for itself, ties the process to its parent, and serves
// what open returns until the parent closes stdin. It never returns: it ends by os.Exit, also while a native call is under
// way, and unloads nothing.
//
// A runner with a method Leave() is told so before the process ends because its parent wants that.
//
// open runs beside the serving, so it may take its time and may load native libraries: whatever they print on stdout goes to
// stderr. frames is the private stream, for tests that break it. When open fails, every request is answered with its error.
func Main(config Config, open func(frames io.Writer) (llm.Runner, error)) {
	in, frames, err := Take()
	if err != nil {
		fmt.Fprintln(os.Stderr, "engine: take the frame streams:", err)
		os.Exit(1)
	}
	if err := settle(); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
	runner := &opening{ready: make(chan struct{})}
	go runner.open(func() (llm.Runner, error) { return open(frames) })
	config.ended = func(err error) {
		if err == nil || errors.Is(err, io.EOF) {
			runner.leave()
			os.Exit(0)
		}
		fmt.Fprintln(os.Stderr, "engine: the parent's stream broke:", err)
		os.Exit(1)
	}
	config.Serve(context.Background(), runner, in, frames)
	os.Exit(1)
}

// opening is a runner that is on its way: calls wait for it.
type opening struct {
	ready  chan struct{}
	runner llm.Runner // set when ready is closed; nil if err is not
	err    error      // set when ready is closed
}

var _ llm.Runner = (*opening)(nil)

func (o *opening) open(open func() (llm.Runner, error)) {
	defer close(o.ready)
	defer func() {
		if p := recover(); p != nil {
			o.err = llm.Errorf(llm.CodeInternal, "the engine panicked while it started: %v", p)
		}
	}()
	o.runner, o.err = open()
}

func (o *opening) leave() {
	select {
	case <-o.ready:
		if l, ok := o.runner.(interface{ Leave() }); ok {
			l.Leave()
		}
	default: // nothing has begun
	}
}

func (o *opening) get(ctx context.Context) (llm.Runner, error) {
	select {
	case <-o.ready:
		return o.runner, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (o *opening) Devices(ctx context.Context) ([]llm.Device, error) {
	runner, err := o.get(ctx)
	if err != nil {
		return nil, err
	}
	return runner.Devices(ctx)
}

func (o *opening) Load(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (llm.Loaded, error) {
	runner, err := o.get(ctx)
	if err != nil {
		return llm.Loaded{}, err
	}
	return runner.Load(ctx, req, progress)
}

func (o *opening) Unload(ctx context.Context, model string) error {
	runner, err := o.get(ctx)
	if err != nil {
		return err
	}
	return runner.Unload(ctx, model)
}

func (o *opening) Prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	runner, err := o.get(ctx)
	if err != nil {
		return llm.Prompt{}, err
	}
	return runner.Prepare(ctx, req)
}

func (o *opening) Generate(ctx context.Context, req llm.GenerateRequest, emit func(llm.Delta) error) (llm.Stats, error) {
	runner, err := o.get(ctx)
	if err != nil {
		return llm.Stats{}, err
	}
	return runner.Generate(ctx, req, emit)
}

func (o *opening) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embedded, error) {
	runner, err := o.get(ctx)
	if err != nil {
		return llm.Embedded{}, err
	}
	return runner.Embed(ctx, req)
}

// Close does nothing: the process ends instead.
func (o *opening) Close() error { return nil }
