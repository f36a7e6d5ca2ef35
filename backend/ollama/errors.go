package ollama

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"signalbox/backend/llm"
	"signalbox/internal/brief"
)

// ErrorBody is the body of a failed request, and the last line of a failed stream.
func ErrorBody(err *llm.Error) []byte {
	return marshal(struct {
		Error string `json:"error"`
	}{err.Error()})
}

// words are Ollama's for a field of the wrong type.
func words(path, want, got string) *llm.Error {
	var err *llm.Error
	if name, ok := strings.CutPrefix(path, "options."); ok {
		err = llm.Errorf(llm.CodeInvalid, "option %q must be of type %s", name, goType(want))
	} else {
		err = llm.Errorf(llm.CodeInvalid, "%s must be of type %s, not %s", path, want, got)
	}
	err.Param = path
	return err
}

// goType names a type as Ollama does in errors about options, which are its Go types.
func goType(want string) string {
	if want == "number" {
		return "float32"
	}
	return want
}

func notYet(field, format string, args ...any) *llm.Error {
	err := llm.Errorf(llm.CodeUnsupported, format, args...)
	err.Param = field
	return err
}

// ModelNotFound is the exact text that clients know.
func ModelNotFound(name string) string { return fmt.Sprintf("model '%s' not found", brief.Text(name)) }

// marshal writes JSON without escaping <, > and &: the bodies are not HTML.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only values of our own types come here, and none of them can fail.
		panic(fmt.Sprintf("ollama: marshal %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
