package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"signalbox/backend/anthropic"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/ollama"
	"signalbox/backend/openai"
	"signalbox/internal/disk"
)

// dialect is how a family of routes writes its errors.
type dialect struct {
	errorBody func(err *llm.Error, trace string) []byte
}

var (
	ollamaDialect    = dialect{func(err *llm.Error, _ string) []byte { return ollama.ErrorBody(err) }}
	openaiDialect    = dialect{func(err *llm.Error, _ string) []byte { return openai.ErrorBody(err) }}
	anthropicDialect = dialect{anthropic.ErrorBody}
)

// dialectOf guesses for requests that no route took.
func dialectOf(r *http.Request) dialect {
	path := r.URL.Path
	switch {
	case strings.Contains(path, "/v1/messages") || isAnthropic(r):
		return anthropicDialect
	case strings.Contains(path, "/v1/") || strings.HasSuffix(path, "/v1"):
		return openaiDialect
	}
	return ollamaDialect
}

// isAnthropic tells Anthropic's clients from OpenAI's on the routes that both have.
func isAnthropic(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/models") && r.Header.Get("anthropic-version") != ""
}

func statusOf(code llm.Code) int {
	switch code {
	case llm.CodeInvalid, llm.CodeContextLength, llm.CodeUnsupported:
		return http.StatusBadRequest
	case llm.CodeForbidden:
		return http.StatusForbidden
	case llm.CodeModelNotFound:
		return http.StatusNotFound
	case llm.CodeOverloaded, llm.CodeUnavailable, llm.CodeStopped:
		return http.StatusServiceUnavailable
	case llm.CodeTimeout:
		return http.StatusGatewayTimeout
	case llm.CodeCancelled:
		return 499 // nginx's "client closed request", which Ollama uses too
	}
	return http.StatusInternalServerError
}

// httpError is an error with a status of its own, where the code's is not exact enough.
type httpError struct {
	status int
	err    *llm.Error
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func withStatus(status int, err *llm.Error) error { return &httpError{status, err} }

// busy is Ollama's text, which clients look for; the two spaces are in it.
const busy = "server busy, please try again.  maximum pending requests exceeded"

// wireError turns any error into what callers are told. The reason that somebody gave for ending the request comes before
// the bare "context canceled" that it led to.
func wireError(ctx context.Context, err error) *llm.Error {
	if why, ok := errors.AsType[*llm.Error](context.Cause(ctx)); ok && ctx.Err() != nil {
		return why
	}
	err = noRoom(err)
	e, ok := errors.AsType[*llm.Error](err)
	switch {
	case !ok:
		return llm.Errorf(llm.CodeOf(err), "%w", err)
	case e.Code == llm.CodeOverloaded:
		return &llm.Error{Code: e.Code, Message: busy, Cause: e}
	}
	return e
}

// noRoom makes a sentence of a full disk, whatever was to be written: its own words are a system call's.
func noRoom(err error) error {
	if e, ok := errors.AsType[*llm.Error](err); !disk.Full(err) || ok && e.Code == llm.CodeUnavailable { // this one says so itself
		return err
	}
	return llm.Errorf(llm.CodeUnavailable, "the disk is full: %w", err).WithHint("free some space and try again")
}

// fail answers with an error before the first byte.
func (s *Server) fail(w *response, r *http.Request, d dialect, err error) {
	e := wireError(r.Context(), err)
	status := statusOf(e.Code)
	full := disk.Full(err) || errors.Is(err, models.ErrNoSpace)
	if full {
		status = http.StatusInsufficientStorage
	}
	if own, ok := errors.AsType[*httpError](err); ok {
		status = own.status
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	level := s.log.Debug
	if status == http.StatusInternalServerError || full {
		level = s.log.Warn
	}
	level("request refused", "method", r.Method, "path", r.URL.Path, "status", status, "error", e, "trace", w.trace)
	// Without a reader there is nobody to tell; the record has it.
	_ = w.json(status, d.errorBody(e, w.trace))
}
