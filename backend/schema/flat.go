package schema

import (
	"maps"
	"slices"
	"strings"

	"signalbox/backend/llm"
)

// flat is a schema with its references followed and allOf merged: what all its parts say together.
type flat struct {
	at      string
	fields  map[string]*node
	values  []*node       // of const and enum: what may be; nil when they say nothing
	objects []*objectPart // what each part says about properties
	parts   []*node       // what was merged

	excepted []*node // values that may not be
	pending  []*node // lists of schemas, of each of which one must hold, too: what "not" and "if" come to
}

// clone is a copy that can be added to.
func (f *flat) clone() *flat {
	c := *f
	c.fields, c.parts = maps.Clone(f.fields), slices.Clone(f.parts)
	c.excepted, c.pending = slices.Clone(f.excepted), slices.Clone(f.pending)
	c.objects = nil
	for _, o := range f.objects {
		part := *o
		c.objects = append(c.objects, &part)
	}
	return &c
}

func (f *flat) get(keyword string) *node { return f.fields[keyword] }

// Keywords that say nothing about what a value may be. (format does, for some strings: text.go.)
var annotations = []string{"title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema",
	"$id", "id", "$anchor", "$dynamicAnchor", "$vocabulary", "$defs", "definitions", "contentMediaType", "contentEncoding", "contentSchema",
	"discriminator", "then", "else", "minContains", "maxContains"} // the last four are read with if and contains, and mean nothing without

// Keywords that are about values of one type.
var keywordsOf = map[string][]string{
	"number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
	"string": {"minLength", "maxLength", "pattern"},
	"array":  {"items", "prefixItems", "additionalItems", "unevaluatedItems", "minItems", "maxItems", "uniqueItems", "contains"},
	"object": {"properties", "required", "additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames",
		"minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies"},
}

// Keywords that no grammar can enforce, and why.
var refused = map[string]string{
	"$dynamicRef": "use $ref", "$recursiveRef": "use $ref",
}

// refuse is the error for the first keyword that cannot be enforced.
func (f *flat) refuse() error {
	for _, part := range f.parts {
		for _, key := range part.keys {
			if why, found := refused[key]; found {
				return cannot(key, part.at, why)
			}
		}
	}
	return nil
}

// flatten merges n, what it refers to, and its allOf.
func (w *writer) flatten(n *node) (*flat, error) {
	f := &flat{at: n.at, fields: map[string]*node{}}
	return f, w.add(f, n, nil)
}

// add merges the schema n into f. Path are the schemas that are being added: one in itself says nothing.
func (w *writer) add(f *flat, n *node, path []*node) error {
	if slices.Contains(f.parts, n) && !slices.Contains(path, n) {
		return nil // said already
	}
	if slices.Contains(path, n) {
		return llm.Errorf(llm.CodeInvalid, "the JSON schema at %s refers to itself without saying anything in between", n.at)
	}
	if len(f.parts) > MaxDepth*4 {
		return llm.Errorf(llm.CodeInvalid, "the JSON schema at %s puts too many others together", f.at)
	}
	if accepts, ok := n.bool(); ok {
		if !accepts {
			return nothing(n.at, "false")
		}
		return nil
	}
	if !n.object() {
		return wrong("schema", n.at, "an object or a boolean")
	}
	f.parts = append(f.parts, n)
	path = append(slices.Clone(path), n)
	for _, key := range n.keys {
		value := n.fields[key]
		switch {
		case slices.Contains(annotations, key):
		case key == "$ref":
			target, err := w.find(value)
			if err != nil {
				return err
			}
			if err := w.add(f, target, path); err != nil {
				return err
			}
		case key == "allOf":
			if !value.array || len(value.items) == 0 {
				return wrong(key, n.at, "an array of schemas")
			}
			for _, item := range value.items {
				if err := w.add(f, item, path); err != nil {
					return err
				}
			}
		case key == "not":
			if err := w.forbid(f, key, value, "its opposite cannot be said in what a grammar holds"); err != nil {
				return err
			}
		case key == "if":
			if err := w.condition(f, n); err != nil {
				return err
			}
		case key == except:
			f.excepted = append(f.excepted, value.items...)
		default:
			if err := f.merge(key, value, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// merge adds one keyword of the schema n.
func (f *flat) merge(key string, value, n *node) error {
	switch key {
	case "const":
		return f.allow([]*node{value}, n)
	case "enum":
		if !value.array || len(value.items) == 0 {
			return wrong(key, n.at, "an array of values")
		}
		return f.allow(value.items, n)
	case "properties", "additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames":
		return f.mergeObject(key, value, n)
	}
	old := f.fields[key]
	if old == nil {
		f.fields[key] = value
		return nil
	}
	merged, err := mergeValues(key, old, value, n)
	f.fields[key] = merged
	return err
}

// allow keeps only the values that are in list.
func (f *flat) allow(list []*node, n *node) error {
	if f.values == nil {
		f.values = list
		return nil
	}
	var both []*node
	for _, v := range f.values {
		if slices.ContainsFunc(list, v.equal) {
			both = append(both, v)
		}
	}
	if len(both) == 0 {
		return nothing(n.at, "no value is in both lists")
	}
	f.values = both
	return nil
}

// mergeValues joins two values of one keyword.
func mergeValues(key string, old, value, n *node) (*node, error) {
	if old.equal(value) {
		return old, nil
	}
	switch key {
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		return stricter(key, old, value, n, 1)
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		return stricter(key, old, value, n, -1)
	case "required":
		if !old.array || !value.array {
			return nil, wrong(key, n.at, "an array of names")
		}
		return &node{at: old.at, array: true, items: slices.Concat(old.items, value.items)}, nil
	case "uniqueItems":
		return &node{at: value.at, scalar: "true"}, nil
	case "format":
		return old, nil
	case "type":
		return common(old, value, n)
	}
	if known(key) {
		return nil, cannot(key, value.at, "it says something else than at "+old.at+", and both must hold")
	}
	return old, nil
}

// known tells whether a keyword means something here.
func known(key string) bool {
	for _, list := range keywordsOf {
		if slices.Contains(list, key) {
			return true
		}
	}
	return key == "anyOf" || key == "oneOf" || key == "type"
}

// stricter is the larger of two numbers (sign 1), or the smaller.
func stricter(key string, a, b, n *node, sign int) (*node, error) {
	x, okX := a.number()
	y, okY := b.number()
	if !okX || !okY {
		return nil, wrong(key, n.at, "a number")
	}
	if x.Cmp(y) == sign {
		return a, nil
	}
	return b, nil
}

// common are the types that are in both lists.
func common(a, b, n *node) (*node, error) {
	x, err := typeList(a)
	if err != nil {
		return nil, err
	}
	y, err := typeList(b)
	if err != nil {
		return nil, err
	}
	both := &node{at: b.at, array: true}
	for _, t := range []string{"null", "boolean", "integer", "number", "string", "array", "object"} {
		in := func(list []string) bool {
			return slices.Contains(list, t) || t == "integer" && slices.Contains(list, "number")
		}
		if in(x) && in(y) {
			both.items = append(both.items, &node{at: b.at, scalar: `"` + t + `"`})
		}
	}
	if len(both.items) == 0 {
		return nil, nothing(n.at, "no type is in both lists")
	}
	return both, nil
}

func typeList(n *node) ([]string, error) {
	items := []*node{n}
	if n.array {
		items = n.items
	}
	var list []string
	for _, item := range items {
		t, ok := item.text()
		if !ok || !slices.Contains([]string{"null", "boolean", "integer", "number", "string", "array", "object"}, t) {
			return nil, wrong("type", n.at, "null, boolean, integer, number, string, array or object, or a list of these")
		}
		list = append(list, t)
	}
	if slices.Contains(list, "number") {
		list = slices.DeleteFunc(list, func(t string) bool { return t == "integer" })
	}
	return list, nil
}

// types lists the types that a value may have: those that are named, or those that the keywords are about; nil for all.
func (f *flat) types() ([]string, error) {
	if n := f.get("type"); n != nil {
		list, err := typeList(n)
		if err == nil && len(list) == 0 {
			return nil, wrong("type", n.at, "a type or a list of types")
		}
		return list, err
	}
	var list []string
	for _, t := range []string{"number", "string", "array", "object"} {
		if f.about(t) != "" {
			list = append(list, t)
		}
	}
	return list, nil
}

// about is a keyword of the schema that is about values of a type, empty for none.
func (f *flat) about(kind string) string {
	if kind == "integer" {
		kind = "number"
	}
	for _, keyword := range keywordsOf[kind] {
		if f.get(keyword) != nil {
			return keyword
		}
	}
	return ""
}

// alone is what n refers to when it says nothing else; nil when it does. A reference that leads to itself is followed by
// flatten, which says so.
func (w *writer) alone(n *node) (*node, error) {
	ref := n.fields["$ref"]
	if ref == nil {
		return nil, nil
	}
	for _, key := range n.keys {
		if key != "$ref" && !slices.Contains(annotations, key) {
			return nil, nil
		}
	}
	seen := []*node{n}
	for {
		target, err := w.find(ref)
		if err != nil || slices.Contains(seen, target) {
			return nil, err
		}
		if ref = target.fields["$ref"]; ref == nil {
			return target, nil
		}
		seen = append(seen, target)
	}
}

// find follows a reference within the document.
func (w *writer) find(ref *node) (*node, error) {
	text, ok := ref.text()
	if !ok {
		return nil, wrong("$ref", ref.at, "a text")
	}
	pointer, inside := strings.CutPrefix(text, "#")
	if !inside {
		return nil, cannot("$ref", ref.at, "other documents are not read ("+text+")")
	}
	target := w.root
	if pointer != "" && pointer[0] != '/' {
		target = w.root.anchor(pointer)
	} else if pointer != "" {
		target = w.root.walk(strings.Split(pointer[1:], "/"))
	}
	if target == nil {
		return nil, llm.Errorf(llm.CodeInvalid, "the JSON schema refers to %s at %s, which is not there", text, ref.at)
	}
	if other := w.root.renamed(); other != nil {
		return nil, cannot("$id", other.at, "references beside it mean something else")
	}
	return target, nil
}
