package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/backend/dispatch"
	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

// frames is how a dialect writes one answer. What a method returns is sent as one: one frame or several, each with all that
// ends it, or nil for nothing. A frames follows its answer, so there is one for each request.
type frames interface {
	header(http.Header)                                               // of a stream
	begin(llm.Record) []byte                                          // the first
	piece(llm.Delta) []byte                                           // one delta
	wait() []byte                                                     // a sign of life
	done(rec llm.Record, stats llm.Stats) []byte                      // the last, of a stream that went well
	failed(*llm.Error) []byte                                         // the last, of one that did not
	whole(answer *wire.Parts, rec llm.Record, stats llm.Stats) []byte // an answer that is not streamed
}

// eventStream is the header of server-sent events.
func eventStream(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("Connection", "keep-alive")
}

// generate runs a request and writes the answer, streamed or whole. An error before the first byte is returned.
func (s *Server) generate(w *response, r *http.Request, req llm.Request, streaming bool, f frames) error {
	if !streaming {
		return s.generateWhole(w, r, req, f)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	st := &stream{w: w, f: f, cancel: cancel, every: s.deps.PingEvery}
	defer st.stopWaiting() // also when the dispatcher panics: no timer may write after the handler
	rec, stats, err := s.deps.Dispatch.Generate(ctx, s.call(w, r, req), dispatch.Answer{Begin: st.begin, Delta: st.delta})
	begun := st.stopWaiting()
	switch {
	case err == nil:
		return st.done(rec, stats)
	case !begun:
		return err
	}
	st.failed(wireError(ctx, err))
	return nil
}

func (s *Server) generateWhole(w *response, r *http.Request, req llm.Request, f frames) error {
	answer, rec, stats, err := s.collect(r, s.call(w, r, req))
	if err != nil {
		return err
	}
	setRecordHeaders(w.Header(), rec)
	return w.json(http.StatusOK, f.whole(answer, rec, stats))
}

// collect runs a request and keeps its answer.
func (s *Server) collect(r *http.Request, call dispatch.Call) (*wire.Parts, llm.Record, llm.Stats, error) {
	answer := new(wire.Parts)
	rec, stats, err := s.deps.Dispatch.Generate(r.Context(), call, dispatch.Answer{
		Delta: func(d llm.Delta) error {
			answer.Add(d)
			return nil
		},
		Again: func() { *answer = wire.Parts{} },
	})
	return answer, rec, stats, err
}

// stream writes the frames of one answer as they come. Its methods may be called from several goroutines: a sign of life
// is due while the handler waits.
type stream struct {
	f      frames
	cancel context.CancelCauseFunc // ends the request
	every  time.Duration           // between signs of life

	mu      sync.Mutex
	w       *response   // guarded by mu
	begun   bool        // the header is out; guarded by mu
	err     error       // the first write that failed; guarded by mu
	waiting *time.Timer // fires when nothing was written for a while; guarded by mu
	ended   bool        // the dispatcher has returned; guarded by mu
}

func (st *stream) begin(rec llm.Record) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended { // a dispatcher's timer came too late: the handler is about to answer
		return context.Canceled
	}
	return st.beginLocked(rec)
}

func (st *stream) beginLocked(rec llm.Record) error {
	st.begun = true
	h := st.w.Header()
	st.f.header(h)
	h.Set("X-Accel-Buffering", "no") // proxies that heed it pass frames on as they come
	setRecordHeaders(h, rec)
	st.w.WriteHeader(http.StatusOK)
	st.waiting = time.AfterFunc(st.every, st.signOfLife)
	if frame := st.f.begin(rec); frame != nil {
		return st.writeLocked(frame)
	}
	return st.writeLocked([]byte{}) // the header
}

func (st *stream) delta(d llm.Delta) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.writeLocked(st.f.piece(d))
}

// signOfLife runs on a timer's goroutine, which must not panic the process: it does nothing but write.
func (st *stream) signOfLife() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	if err := st.writeLocked(st.f.wait()); err != nil {
		st.cancel(err)
	}
}

// writeLocked sends a frame, of which an empty one is only the header and nil is none. After a failure it only repeats it.
func (st *stream) writeLocked(frame []byte) error {
	if st.err != nil || frame == nil {
		return st.err
	}
	if _, err := st.w.Write(frame); err != nil {
		return st.lost(err)
	}
	if err := st.w.flush(); err != nil {
		return st.lost(err)
	}
	st.waiting.Reset(st.every)
	return nil
}

// lost notes that nobody reads any more.
func (st *stream) lost(err error) error {
	st.err = llm.Errorf(llm.CodeCancelled, "the client left or stopped reading: %w", err)
	return st.err
}

// stopWaiting ends the signs of life, and what a timer could begin: after it returned only the handler writes. It reports
// whether the header is out.
func (st *stream) stopWaiting() (begun bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ended = true
	if st.waiting != nil {
		st.waiting.Stop()
	}
	return st.begun
}

func (st *stream) done(rec llm.Record, stats llm.Stats) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.begun { // an answer without a single piece
		if err := st.beginLocked(rec); err != nil {
			return nil // nobody reads
		}
	}
	defer st.waiting.Stop()
	_ = st.writeLocked(st.f.done(rec, stats)) // when nobody reads, the record still has it
	return nil
}

func (st *stream) failed(err *llm.Error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	_ = st.writeLocked(st.f.failed(err)) // when nobody reads, the record still has it
	st.waiting.Stop()
}

// setRecordHeaders says in headers what is known of the decision. Of several records it sums the tokens, and lists what they
// do not agree on: "NPU, CPU".
func setRecordHeaders(h http.Header, records ...llm.Record) {
	list := func(name string, of func(llm.Record) string) {
		var values []string
		for _, rec := range records {
			if v := of(rec); v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if values != nil {
			h.Set(name, strings.Join(values, ", "))
		}
	}
	list("X-NPU-Proxy-Device", func(rec llm.Record) string { return rec.ExecutionDevice })
	list("X-NPU-Proxy-Execution-Device", func(rec llm.Record) string { return rec.ExecutionDevice })
	list("X-NPU-Proxy-Routed-Device", func(rec llm.Record) string { return rec.RoutedDevice })
	list("X-NPU-Proxy-Route-Reason", func(rec llm.Record) string { return rec.RouteRule })
	list("X-NPU-Proxy-Fallback-Reason", func(rec llm.Record) string {
		if rec.ExecutionDevice == rec.RoutedDevice {
			return ""
		}
		return rec.FallbackReason
	})
	tokens := 0
	for _, rec := range records {
		if rec.PromptTokens == nil {
			return
		}
		tokens += *rec.PromptTokens
	}
	h.Set("X-NPU-Proxy-Token-Count", strconv.Itoa(tokens))
}
