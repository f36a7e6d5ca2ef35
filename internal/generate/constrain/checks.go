package constrain

import (
	"encoding/json"
	"slices"

	"signalbox/backend/llm"
	"signalbox/backend/schema"
	"signalbox/internal/xgrammar"
)

// job is what the library is asked to compile.
type job struct {
	name    string
	form    string
	markers []string
	compile func(*xgrammar.Compiler) (*xgrammar.Grammar, error)
}

// plan checks a constraint before the library sees it.
func (c *Compiler) plan(want *llm.Constraint, markers []string) (job, error) {
	if want == nil {
		return job{}, llm.Errorf(llm.CodeInvalid, "there is no constraint")
	}
	layout := xgrammar.JSONFormat{Whitespace: c.options.Whitespace}
	j := job{name: nameOf(want), form: formText}
	switch {
	case want.JSON, want.Schema != nil:
		raw := want.Schema
		if want.JSON {
			raw = json.RawMessage(`{"type":"object"}`)
		}
		normal, err := schema.Normal(raw)
		if err != nil {
			return job{}, err
		}
		j.form = formJSON
		j.compile = func(x *xgrammar.Compiler) (*xgrammar.Grammar, error) { return x.JSONSchema(normal, layout) }
	case want.Regex != "":
		normal, err := schema.Regex(want.Regex)
		if err != nil {
			return job{}, err
		}
		j.compile = func(x *xgrammar.Compiler) (*xgrammar.Grammar, error) { return x.Regex(normal) }
	case want.EBNF != "":
		if err := schema.Grammar(want.EBNF); err != nil {
			return job{}, err
		}
		j.compile = func(x *xgrammar.Compiler) (*xgrammar.Grammar, error) { return x.EBNF(want.EBNF, "root") }
	case want.Structural != nil:
		normal, err := schema.Structural(want.Structural, c.options.Whitespace)
		if err != nil {
			return job{}, err
		}
		j.markers = slices.Sorted(slices.Values(markers))
		j.compile = func(x *xgrammar.Compiler) (*xgrammar.Grammar, error) { return x.StructuralTag(normal) }
	default:
		return job{}, llm.Errorf(llm.CodeInvalid, "the constraint asks for nothing")
	}
	return j, nil
}
