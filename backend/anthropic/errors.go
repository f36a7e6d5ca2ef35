package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

// RequestID is a request's id as this dialect writes it.
func RequestID(trace string) string { return "req_" + trace }

// ErrorBody is the body of a failed request.
func ErrorBody(err *llm.Error, trace string) []byte {
	type object struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	return marshal(struct {
		Type      string `json:"type"`
		Error     object `json:"error"`
		RequestID string `json:"request_id"`
	}{"error", object{errorType(err.Code), err.Error()}, RequestID(trace)})
}

// ErrorEvent is the last event of a failed stream.
func ErrorEvent(err *llm.Error, trace string) []byte {
	return wire.Event("error", ErrorBody(err, trace))
}

func errorType(code llm.Code) string {
	switch code {
	case llm.CodeInvalid, llm.CodeContextLength, llm.CodeUnsupported:
		return "invalid_request_error"
	case llm.CodeModelNotFound:
		return "not_found_error"
	case llm.CodeForbidden:
		return "permission_error"
	case llm.CodeOverloaded, llm.CodeUnavailable, llm.CodeStopped:
		return "overloaded_error"
	case llm.CodeTimeout:
		return "timeout_error"
	}
	return "api_error"
}

// words are Anthropic's for a field of the wrong type.
func words(path, want, got string) *llm.Error {
	err := llm.Errorf(llm.CodeInvalid, "%s: Input should be a valid %s, not %s", path, want, got)
	err.Param = path
	return err
}

func notSupported(field, format string, args ...any) *llm.Error {
	err := llm.Errorf(llm.CodeUnsupported, format, args...)
	err.Param = field
	return err
}

// marshal writes JSON without escaping <, > and &: the bodies are not HTML.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only values of our own types come here, and none of them can fail.
		panic(fmt.Sprintf("anthropic: marshal %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
