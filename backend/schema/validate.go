package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
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

// compile reads a schema as 2020-12, or where it is none as draft 7: people go on sending that without saying so.
func compile(raw []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	if m, ok := doc.(map[string]any); ok {
		if uri, ok := m["$schema"].(string); ok && !strings.Contains(uri, "//json-schema.org/") {
			delete(m, "$schema") // a dialect of somebody's own is another document
		}
	}
	compiled, err := compileAs(jsonschema.Draft2020, doc)
	if err == nil {
		return compiled, nil
	}
	if older, olderErr := compileAs(jsonschema.Draft7, doc); olderErr == nil {
		return older, nil
	}
	return nil, err
}

func compileAs(draft *jsonschema.Draft, doc any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { return regexp.Compile(goPattern(text)) })
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
