package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"signalbox/backend/llm"
)

// ErrorBody is the body of a failed request, and the last frame of a failed stream.
func ErrorBody(err *llm.Error) []byte {
	type object struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	return marshal(struct {
		Error object `json:"error"`
	}{object{err.Error(), errorType(err.Code), orNull(err.Param), orNull(errorCode(err.Code))}})
}

func errorType(code llm.Code) string {
	switch code {
	case llm.CodeInvalid, llm.CodeContextLength, llm.CodeUnsupported:
		return "invalid_request_error"
	case llm.CodeModelNotFound:
		return "not_found_error"
	case llm.CodeForbidden:
		return "permission_error"
	}
	return "api_error"
}

// errorCode is what programs branch on; OpenAI has none for plainly wrong requests.
func errorCode(code llm.Code) string {
	if code == llm.CodeInvalid {
		return ""
	}
	return string(code)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// words are OpenAI's for a field of the wrong type.
func words(path, want, got string) *llm.Error {
	err := llm.Errorf(llm.CodeInvalid, "Invalid type for '%s': expected %s, but got %s instead.", path, wanted(want), article(got))
	err.Param = path
	return err
}

// wanted is a type as OpenAI asks for it.
func wanted(kind string) string {
	if kind == "number" {
		return "a decimal"
	}
	return article(kind)
}

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "aeiou") {
		return "an " + kind
	}
	return "a " + kind
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
		panic(fmt.Sprintf("openai: marshal %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
