package server

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"signalbox/backend/llm"
)

// guard decides about a request before any route is looked up. It may answer itself (preflight); then pass is false.
type guard interface {
	check(w *response, r *http.Request) (who visitor, pass bool, err *llm.Error)
}

// visitor is who sends a request, as far as the guard knows.
type visitor struct {
	window bool   // the page of our own window
	ui     bool   // the window's listener: the page or the command line
	origin string // of a browser, empty for other programs
	exact  bool   // the origin is written out in the settings: it may change models too
}

type visitorKey struct{}

func visitorOf(r *http.Request) visitor {
	who, _ := r.Context().Value(visitorKey{}).(visitor)
	return who
}

// front is what every request passes first: id, headers, guard; and where a panic ends.
func (s *Server) front(g guard, next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		id, release := s.claimTrace(r)
		defer release()
		w := &response{ResponseWriter: rw, ctl: http.NewResponseController(rw), limit: s.deps.WriteLimit, trace: id, arrived: time.Now()}
		h := w.Header()
		h.Set("X-Request-ID", id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		defer s.recoverPanic(w, r)
		limitBody(w, r)

		who, pass, err := g.check(w, r)
		switch {
		case err != nil && wantsPage(r):
			_ = w.send(statusOf(err.Code), textType, []byte(err.Error()))
		case err != nil:
			s.fail(w, r, dialectOf(r), err)
		case pass:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, who)))
		}
	})
}

// wantsPage tells a person at a browser from a program.
func wantsPage(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/ui/") && strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (s *Server) recoverPanic(w *response, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	s.log.Error("a handler panicked", "panic", p, "trace", w.trace, "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // half an answer must not look whole
	}
	s.fail(w, r, dialectOf(r), llm.Errorf(llm.CodeInternal, "Signalbox failed at this request; its log has the details under %s", w.trace))
}

// response is the http.ResponseWriter of all handlers.
type response struct {
	http.ResponseWriter
	ctl     *http.ResponseController
	limit   time.Duration // for one write
	trace   string
	arrived time.Time
	status  int // 0 until the header is written
}

func (w *response) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write gives the reader its time for this write, and no more: one that does not read must not hold a device.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	// Not every ResponseWriter has deadlines; those in tests do not need any.
	_ = w.ctl.SetWriteDeadline(time.Now().Add(w.limit))
	return w.ResponseWriter.Write(b)
}

// flush sends what was written, the header at least.
func (w *response) flush() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = w.ctl.SetWriteDeadline(time.Now().Add(w.limit))
	return w.ctl.Flush()
}

func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// send writes a whole body.
func (w *response) send(status int, contentType string, body []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

const (
	jsonType  = "application/json; charset=utf-8"
	textType  = "text/plain; charset=utf-8"
	plainType = "text/plain" // as Ollama has it where there is no route
)

func (w *response) json(status int, body []byte) error { return w.send(status, jsonType, body) }
