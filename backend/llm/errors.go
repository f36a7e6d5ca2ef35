package llm

import (
	"context"
	"errors"
	"fmt"
)

// Code is what callers branch on. Each dialect maps it to its own status and words.
type Code string

const (
	CodeInvalid       Code = "invalid_request"         // 400
	CodeContextLength Code = "context_length_exceeded" // 400, Limit and Value are set
	CodeModelNotFound Code = "model_not_found"         // 404
	CodeUnsupported   Code = "not_supported"           // 400: this model or build cannot do it
	CodeForbidden     Code = "forbidden"               // 403
	CodeOverloaded    Code = "overloaded"              // 503: the queue is full
	CodeUnavailable   Code = "unavailable"             // 503: no runtime, no device, or none allowed
	CodeEngine        Code = "engine_failed"           // 500: the runtime refused, or its process ended
	CodeTimeout       Code = "timeout"                 // 504: no token for too long
	CodeCancelled     Code = "cancelled"               // 499: the client left, or someone stopped it
	CodeStopped       Code = "server_stopped"          // 503: the server was stopped meanwhile
	CodeInternal      Code = "internal"                // 500
)

// Error is an error that reaches a caller. It travels over the pipe and into each dialect unchanged.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`         // what we tried, on what, what went wrong
	Hint    string `json:"hint,omitempty"`  // what to do
	Param   string `json:"param,omitempty"` // the request field at fault
	Value   int    `json:"value,omitempty"` // with CodeContextLength: tokens asked
	Limit   int    `json:"limit,omitempty"` // and tokens possible
	Cause   error  `json:"-"`
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Message + ": " + e.Hint
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// Is makes errors.Is(err, &Error{Code: c}) compare codes alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// Errorf makes an Error; a %w operand becomes its Cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// WithHint returns e with the next step for people.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// CodeOf tells what kind of error err is. Errors without a code are internal, those of a context cancelled or timeout.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	switch {
	case errors.Is(err, context.Canceled):
		return CodeCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return CodeTimeout
	}
	return CodeInternal
}

// PromptTooLong is the one answer to a prompt that does not fit. The wording is the one that agents recognise.
func PromptTooLong(tokens, limit int) *Error {
	e := Errorf(CodeContextLength, "prompt is too long: %d tokens > %d maximum", tokens, limit)
	e.Value, e.Limit = tokens, limit
	return e
}
