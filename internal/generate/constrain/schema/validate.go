package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Validate tells whether text is one JSON value that raw, a JSON Schema, accepts. The error says where it does not.
// A schema without $schema is read as 2020-12. References to other documents are refused.
func Validate(raw []byte, text string) error {
	compiled, err := compile(raw)
	if err != nil {
		return fmt.Errorf("read the JSON schema: %w", err)
	}
	value, err := decode(text)
	if err != nil {
		return fmt.Errorf("the answer is not valid JSON: %w", err)
	}
	if err := compiled.Validate(value); err != nil {
		return fmt.Errorf("the answer is not what the schema asks for: %s", reason(err))
	}
	return nil
}

// here is the address under which the schema itself is known.
const here = "schema:///"

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("other documents are not read: " + url)
}

func compile(raw []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	return c.Compile(here)
}

// decode reads an answer. The library works with exact numbers, so those that would fill the memory are refused.
func decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return jsonschema.UnmarshalJSON(strings.NewReader(text))
		}
		if err != nil {
			return nil, err
		}
		if n, ok := token.(json.Number); ok && hugeNumber(n.String()) {
			return nil, errors.New("the number " + n.String()[:min(len(n), 20)] + "... is too large")
		}
	}
}

// reason is the first of the innermost reasons, which says the most.
func reason(err error) string {
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err.Error()
	}
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	lines := strings.Split(strings.TrimSpace(e.Error()), "\n")
	return strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "- ")
}
