package wire

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"

	"signalbox/backend/llm"
	"signalbox/internal/brief"
)

// BadJSON says what the JSON decoder's error means, in words for who sent the JSON and not for who wrote this program. Its
// text of a character out of place is Ollama's too, and stays.
func BadJSON(err error) *llm.Error {
	syntax, misplaced := errors.AsType[*json.SyntaxError](err)
	wrong, mistyped := errors.AsType[*json.UnmarshalTypeError](err)
	unknown, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	switch {
	case errors.Is(err, io.EOF), misplaced && syntax.Offset == 0: // the two ways of decoding say it differently
		return llm.Errorf(llm.CodeInvalid, "missing request body")
	case errors.Is(err, io.ErrUnexpectedEOF), misplaced && syntax.Error() == "unexpected end of JSON input":
		return llm.Errorf(llm.CodeInvalid, "the request body is no whole JSON: it ends in the middle")
	case misplaced:
		return llm.Errorf(llm.CodeInvalid, "the request body is not JSON: %s", syntax)
	case mistyped && wrong.Field == "":
		return llm.Errorf(llm.CodeInvalid, "the request body must be %s, not %s", a(jsonType(wrong.Type)), a(kindOfValue(wrong.Value)))
	case mistyped:
		e := llm.Errorf(llm.CodeInvalid, "%s must be %s, not %s", wrong.Field, a(jsonType(wrong.Type)), a(kindOfValue(wrong.Value)))
		e.Param = wrong.Field
		return e
	case isUnknown:
		return llm.Errorf(llm.CodeInvalid, "there is no field called %s here", brief.Text(unknown))
	}
	return llm.Errorf(llm.CodeInvalid, "%w", err) // of a type that reads itself: a sentence already
}

// jsonType is what a Go type is in JSON.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "whole number"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice, reflect.Array:
		return "array"
	}
	return "object"
}

// kindOfValue is the decoder's description of a value, in JSON's words: it adds the digits of a number that does not fit.
func kindOfValue(value string) string {
	kind, digits, _ := strings.Cut(value, " ")
	switch {
	case kind == "bool":
		return "boolean"
	case digits != "":
		return brief.Text(digits)
	}
	return kind
}

// a puts the article before a type; a number written out has none.
func a(kind string) string {
	switch {
	case kind == "" || kind[0] == '-' || kind[0] >= '0' && kind[0] <= '9':
		return kind
	case strings.IndexByte("aeiou", kind[0]) >= 0:
		return "an " + kind
	}
	return "a " + kind
}
