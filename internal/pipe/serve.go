package pipe

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"signalbox/backend/llm"
)

// vectorBytes is how much of an embedding's answer goes into one frame.
const vectorBytes = 1 << 20

// Serve works for the Client at the other end of in and out, with the default Config.
func Serve(ctx context.Context, runner llm.Runner, in io.Reader, out io.Writer) error {
	return Config{}.Serve(ctx, runner, in, out)
}

// Serve reads requests from in, lets runner do them, and writes what comes of them to out, until in ends (nil), ctx is done
// (its error), or the stream breaks. It then cancels what still runs and returns when all of it has returned. It closes
// neither runner nor the streams; a read that blocks keeps one goroutine until the caller closes in.
//
// The runner must not hold a turn of its device while it calls emit: emit blocks while the reader at the other end is slow.
// A panic inside a call becomes the error of that call.
func (c Config) Serve(ctx context.Context, runner llm.Runner, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &server{config: c.withDefaults(), runner: runner, calls: map[uint64]*serverCall{}}
	s.writer = newWriter(out, s.config.Write, func(err error) { stop(err) })
	go s.writer.run()
	defer s.calling.Wait()
	defer s.writer.stop()
	defer s.cancelAll()

	if err := s.send(outgoing{Op: opHello, Body: Hello{Build: s.config.Build, PID: os.Getpid()}}, true); err != nil {
		return err
	}
	go func() { stop(s.read(ctx, in)) }()
	<-ctx.Done()
	if s.config.ended != nil {
		s.config.ended(context.Cause(ctx))
	}
	if err := context.Cause(ctx); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

type server struct {
	config  Config
	runner  llm.Runner
	writer  *writer
	calling sync.WaitGroup

	mu    sync.Mutex
	ended bool                   // guarded by mu; no new calls
	calls map[uint64]*serverCall // guarded by mu
}

// serverCall is one request being worked on.
type serverCall struct {
	id     uint64
	cancel context.CancelFunc
	credit chan int // acknowledged deltas; never blocks its sender, see ack
	unread int      // deltas sent and not acknowledged; only emit touches it
}

// read takes frames until the stream ends, and returns why it did. io.EOF is the orderly end.
func (s *server) read(ctx context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		f, err := decode(r)
		if err != nil {
			return err
		}
		switch f.Op {
		case opPing:
			if err := s.send(outgoing{Op: opPong}, true); err != nil {
				return err
			}
		case opCancel, opAck:
			s.control(f)
		case opDevices, opLoad, opUnload, opPrepare, opGenerate, opEmbed:
			if err := s.begin(ctx, f); err != nil {
				return err
			}
		default:
			return fmt.Errorf("an unknown operation %q", f.Op)
		}
	}
}

func (s *server) control(f incoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.calls[f.ID]
	if call == nil {
		return // it has ended meanwhile
	}
	if f.Op == opCancel {
		call.cancel()
		return
	}
	for n := f.N; ; { // add to what emit has not picked up yet
		select {
		case call.credit <- n:
			return
		case more := <-call.credit:
			n += more
		}
	}
}

func (s *server) begin(ctx context.Context, f incoming) error {
	ctx, cancel := context.WithCancel(ctx)
	call := &serverCall{id: f.ID, cancel: cancel, credit: make(chan int, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		cancel()
		return nil
	}
	if s.calls[f.ID] != nil {
		cancel()
		return fmt.Errorf("a second request with the number %d", f.ID)
	}
	s.calls[f.ID] = call
	s.calling.Go(func() {
		defer cancel()
		body, err := s.run(ctx, call, f)
		s.mu.Lock()
		delete(s.calls, f.ID)
		s.mu.Unlock()
		s.done(f.ID, body, err)
	})
	return nil
}

func (s *server) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, call := range s.calls {
		call.cancel()
	}
}

// run does one request. What it returns is the body of the done frame, also beside an error.
func (s *server) run(ctx context.Context, call *serverCall, f incoming) (body any, err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "panic: %v during %s\n%s", p, f.Op, debug.Stack())
			err = llm.Errorf(llm.CodeInternal, "the engine panicked during %s: %v", f.Op, p)
		}
	}()
	switch f.Op {
	case opDevices:
		return s.runner.Devices(ctx)
	case opLoad:
		return with(f, func(req llm.LoadRequest) (any, error) {
			return s.runner.Load(ctx, req, func(p llm.Phase) { s.piece(call, opPhase, p) })
		})
	case opUnload:
		return with(f, func(model string) (any, error) { return nil, s.runner.Unload(ctx, model) })
	case opPrepare:
		return with(f, func(req llm.PrepareRequest) (any, error) { return s.runner.Prepare(ctx, req) })
	case opGenerate:
		return with(f, func(req llm.GenerateRequest) (any, error) {
			return s.runner.Generate(ctx, req, func(d llm.Delta) error { return s.emit(ctx, call, d) })
		})
	default:
		return with(f, func(req llm.EmbedRequest) (any, error) { return s.embed(ctx, call, req) })
	}
}

func with[T any](f incoming, do func(T) (any, error)) (any, error) {
	var req T
	if err := json.Unmarshal(f.Body, &req); err != nil {
		return nil, llm.Errorf(llm.CodeInternal, "read the request for %s: %w", f.Op, err)
	}
	return do(req)
}

// emit sends a delta when the reader has room for it.
func (s *server) emit(ctx context.Context, call *serverCall, d llm.Delta) error {
	select {
	case n := <-call.credit:
		call.unread -= n
	default:
	}
	if call.unread >= s.config.Window {
		if err := s.awaitReader(ctx, call); err != nil {
			return err
		}
	}
	call.unread++
	err := s.piece(call, opDelta, d)
	runtime.Gosched() // the writer's turn: what follows is a native call, which Go would give it a processor from only after a while
	return err
}

func (s *server) awaitReader(ctx context.Context, call *serverCall) error {
	stall := time.NewTimer(s.config.Stall)
	defer stall.Stop()
	for call.unread >= s.config.Window {
		select {
		case n := <-call.credit:
			call.unread -= n
		case <-ctx.Done():
			return ctx.Err()
		case <-stall.C:
			call.cancel()
			return llm.Errorf(llm.CodeCancelled, "the reader took nothing of the answer for %s", s.config.Stall)
		}
	}
	return nil
}

// embed answers with frames of about vectorBytes, then with what is left of the answer.
func (s *server) embed(ctx context.Context, call *serverCall, req llm.EmbedRequest) (any, error) {
	result, err := s.runner.Embed(ctx, req)
	var batch []string
	size := 0
	for _, vector := range result.Vectors {
		text := encodeVector(vector)
		if size += len(text); size > vectorBytes && len(batch) > 0 {
			if err := s.piece(call, opVectors, batch); err != nil {
				return nil, err
			}
			batch, size = nil, len(text)
		}
		batch = append(batch, text)
	}
	if len(batch) > 0 {
		if err := s.piece(call, opVectors, batch); err != nil {
			return nil, err
		}
	}
	result.Vectors = nil
	return result, err
}

func (s *server) piece(call *serverCall, kind op, body any) error {
	if err := s.send(outgoing{Op: kind, ID: call.id, Body: body}, false); err != nil {
		return llm.Errorf(llm.CodeInternal, "send a %s frame: %w", kind, err)
	}
	return nil
}

func (s *server) done(id uint64, body any, err error) {
	f := outgoing{Op: opDone, ID: id, Body: body, Error: asError(err)}
	if err := s.send(f, false); err != nil {
		e := llm.Errorf(llm.CodeInternal, "send the result: %w", err)
		s.send(outgoing{Op: opDone, ID: id, Error: e}, false) // a sentence always fits
	}
}

func (s *server) send(f outgoing, urgent bool) error {
	frame, err := encode(f)
	if err != nil {
		return err
	}
	s.writer.send(f.ID, frame, urgent)
	return nil
}

// asError is what travels: the outermost *llm.Error, or one made of err.
func asError(err error) *llm.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e
	}
	return llm.Errorf(llm.CodeOf(err), "%w", err)
}

func encodeVector(vector []float32) string {
	raw := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func decodeVector(text string) ([]float32, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	if len(raw)%4 != 0 {
		return nil, fmt.Errorf("%d bytes are no row of floats", len(raw))
	}
	vector := make([]float32, len(raw)/4)
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return vector, nil
}
