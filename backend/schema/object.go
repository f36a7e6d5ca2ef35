package schema

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// objectPart is what one part of a schema says about properties. A nil node says nothing.
type objectPart struct {
	of         *node
	properties *node
	others     *node // additionalProperties
	unseen     *node // unevaluatedProperties
	patterns   *node
	keys       *node // propertyNames
}

// mergeObject notes a keyword whose meaning depends on those beside it in the same part.
func (f *flat) mergeObject(key string, value, n *node) error {
	i := slices.IndexFunc(f.objects, func(o *objectPart) bool { return o.of == n })
	if i < 0 {
		i = len(f.objects)
		f.objects = append(f.objects, &objectPart{of: n})
	}
	o := f.objects[i]
	schemas := map[string]**node{"properties": &o.properties, "patternProperties": &o.patterns}
	if into := schemas[key]; into != nil {
		if !value.object() {
			return wrong(key, n.at, "an object of schemas")
		}
		*into = value
	}
	switch key {
	case "additionalProperties":
		o.others = value
	case "unevaluatedProperties":
		o.unseen = value
	case "propertyNames":
		o.keys = value
	}
	if f.fields[key] == nil {
		f.fields[key] = value
	}
	return nil
}

func (o *objectPart) names() []string {
	if o.properties == nil {
		return nil
	}
	return o.properties.keys
}

func (o *objectPart) property(name string) *node {
	if o.properties == nil {
		return nil
	}
	return o.properties.fields[name]
}

// object is what all parts say about properties together.
type object struct {
	names    []string         // in the order they were sent
	schemas  map[string]*node // of names
	required []string
	others   *node // the schema of all other properties; nil: there are none
	closed   bool  // there may be none; else that is our choice
	pattern  string
	matching *node // the schema of properties whose name matches pattern; nil: there are none
	min, max int   // max -1: any number
}

func (w *writer) obj(f *flat, depth int) (string, error) {
	o, err := w.together(f)
	if err != nil {
		return "", err
	}
	if err := o.settle(f); err != nil {
		return "", err
	}
	if err := w.count(f, o); err != nil {
		return "", err
	}
	return w.writeObject(f, o, depth)
}

// together joins what the parts say.
func (w *writer) together(f *flat) (*object, error) {
	o := &object{schemas: map[string]*node{}, max: -1}
	for _, part := range f.objects {
		for _, name := range part.names() {
			if o.schemas[name] == nil {
				o.names = append(o.names, name)
				o.schemas[name] = f.property(name)
			}
		}
	}
	var err error
	if o.required, err = f.required(); err != nil {
		return nil, err
	}
	if o.min, o.max, err = f.counts("minProperties", "maxProperties"); err != nil {
		return nil, err
	}
	if err := o.rest(f); err != nil {
		return nil, err
	}
	if err := w.keys(f, o); err != nil {
		return nil, err
	}
	return o, o.patterns(f)
}

// property is what all parts say about one property.
func (f *flat) property(name string) *node {
	var all []*node
	for _, part := range f.objects {
		if own := part.property(name); own != nil {
			all = append(all, own)
		} else if part.others != nil {
			all = append(all, part.others)
		}
	}
	return allOf(all)
}

// allOf is a schema of several.
func allOf(all []*node) *node {
	if len(all) == 1 {
		return all[0]
	}
	list := &node{at: all[0].at, array: true, items: all}
	return &node{at: all[0].at, keys: []string{"allOf"}, fields: map[string]*node{"allOf": list}}
}

// rest finds the schema of the properties that are not named.
func (o *object) rest(f *flat) error {
	var all []*node
	for _, part := range f.objects {
		if part.others != nil {
			all = append(all, part.others)
		}
		if part.unseen != nil && len(f.objects) > 1 && part.of != f.parts[0] {
			return cannot("unevaluatedProperties", part.of.at, "it stands in a part of a larger schema")
		}
		if part.unseen != nil && part.others == nil {
			all = append(all, part.unseen)
		}
	}
	if len(all) > 0 {
		o.others = allOf(all)
	} else if len(o.names) == 0 && f.get("patternProperties") == nil {
		o.others = &node{at: f.at, scalar: "true"}
	}
	if o.others != nil && o.others.scalar == "false" {
		o.others, o.closed = nil, true
	}
	return nil
}

// keys turns propertyNames into properties or a pattern.
func (w *writer) keys(f *flat, o *object) error {
	for _, part := range f.objects {
		if part.keys == nil {
			continue
		}
		if part.keys.scalar == "true" || part.keys.object() && len(part.keys.keys) == 0 {
			continue
		}
		if len(o.names) > 0 || f.get("patternProperties") != nil || len(f.objects) > 1 {
			return cannot("propertyNames", part.of.at, "it stands beside properties, patternProperties or allOf")
		}
		if o.others == nil {
			return nil // there are no properties at all
		}
		if err := w.named(f, o, part.keys); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) named(f *flat, o *object, names *node) error {
	n, err := w.flatten(names)
	if err != nil {
		return err
	}
	others := o.others
	o.others = nil
	if n.values == nil {
		o.matching = others
		o.pattern, err = w.pattern(n)
		return err
	}
	for _, v := range n.values {
		if name, ok := v.text(); ok {
			o.names = append(o.names, name)
			o.schemas[name] = others
		}
	}
	if keyword := n.about("string"); keyword != "" {
		return cannot(keyword, names.at, "it stands beside a list of values")
	}
	return nil
}

// patterns takes patternProperties over. Names that match no pattern are not allowed then: the library would take one that
// matches for one that does not.
func (o *object) patterns(f *flat) error {
	for _, part := range f.objects {
		if part.patterns == nil || len(part.patterns.keys) == 0 {
			continue
		}
		at := part.of.at
		if len(part.patterns.keys) > 1 || len(f.objects) > 1 {
			return cannot("patternProperties", at, "only one pattern is supported")
		}
		expression := part.patterns.keys[0]
		matches, err := regexp.Compile(goPattern(expression))
		if err != nil {
			return cannot("patternProperties", at, err.Error())
		}
		if i := slices.IndexFunc(o.names, matches.MatchString); i >= 0 {
			return cannot("patternProperties", at, fmt.Sprintf("the property %q matches, too", o.names[i]))
		}
		o.others, o.pattern, o.matching = nil, expression, part.patterns.fields[expression]
	}
	return nil
}

// required lists the required properties, each once.
func (f *flat) required() ([]string, error) {
	n := f.get("required")
	if n == nil {
		return nil, nil
	}
	if !n.array {
		return nil, wrong("required", f.at, "an array of names")
	}
	var list []string
	for _, item := range n.items {
		name, ok := item.text()
		if !ok {
			return nil, wrong("required", f.at, "an array of names")
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list, nil
}

// settle gives every required property a schema: the library passes over those that have none.
func (o *object) settle(f *flat) error {
	for _, name := range o.required {
		switch {
		case o.schemas[name] != nil:
		case o.matching != nil:
			return cannot("required", f.at, fmt.Sprintf("%q is required but only matched by a pattern", name))
		case o.others == nil && !o.closed:
			o.names = append(o.names, name)
			o.schemas[name] = &node{at: f.at, scalar: "true"}
		case o.others == nil:
			return nothing(f.at, fmt.Sprintf("%q is required but not allowed", name))
		default:
			o.names = append(o.names, name)
			o.schemas[name] = o.others
		}
	}
	if o.max >= 0 && (len(o.required) > o.max || o.min > o.max) {
		return nothing(f.at, "fewer properties are allowed than are required")
	}
	if o.others == nil && o.matching == nil && o.min > len(o.names) {
		return nothing(f.at, "more properties are required than are allowed")
	}
	if o.min <= len(o.required) {
		o.min = 0
	}
	if o.others == nil && o.matching == nil && o.max >= len(o.names) {
		o.max = -1
	}
	return nil
}

// count bounds the work of counting named properties.
func (w *writer) count(f *flat, o *object) error {
	if o.min == 0 && o.max < 0 {
		return nil
	}
	n := len(o.names)
	if w.counted += n * n * n * n; w.counted > maxCounted {
		keyword := "maxProperties"
		if o.min > 0 {
			keyword = "minProperties"
		}
		return cannot(keyword, f.at, "there are too many named properties to count")
	}
	return nil
}

func (w *writer) writeObject(f *flat, o *object, depth int) (string, error) {
	var b strings.Builder
	b.WriteString(`{"type":"object"`)
	properties, err := w.properties(o, depth)
	if err != nil {
		return "", err
	}
	if properties != "" {
		b.WriteString(`,"properties":{` + properties + `}`)
	}
	if len(o.required) > 0 {
		names := make([]string, len(o.required))
		for i, name := range o.required {
			names[i] = quote(name)
		}
		b.WriteString(`,"required":[` + strings.Join(names, ",") + `]`)
	}
	if o.matching != nil {
		text, err := w.matching(o, depth)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	text, err := w.others(o, depth)
	if err != nil {
		return "", err
	}
	b.WriteString(`,"additionalProperties":` + text)
	writeCounts(&b, "Properties", o.min, o.max)
	b.WriteByte('}')
	return b.String(), nil
}

func writeCounts(b *strings.Builder, of string, least, most int) {
	if least > 0 {
		fmt.Fprintf(b, `,"min%s":%d`, of, least)
	}
	if most >= 0 {
		fmt.Fprintf(b, `,"max%s":%d`, of, most)
	}
}

// properties writes the named properties. Those that no value can have are left out.
func (w *writer) properties(o *object, depth int) (string, error) {
	var parts []string
	for _, name := range o.names {
		text, err := w.inside(o.schemas[name], depth)
		if errors.Is(err, errNothing) {
			if slices.Contains(o.required, name) {
				return "", err
			}
			if o.others != nil {
				return "", cannot("properties", o.schemas[name].at, "the property must not be there, but others may")
			}
			continue
		}
		if err != nil {
			return "", err
		}
		if err := w.spell(name, "properties", o.schemas[name].at); err != nil {
			return "", err
		}
		parts = append(parts, quote(name)+":"+text)
	}
	return strings.Join(parts, ","), nil
}

func (w *writer) matching(o *object, depth int) (string, error) {
	expression, err := w.expression(o.pattern, o.matching.at)
	if err != nil {
		return "", err
	}
	text, err := w.inside(o.matching, depth)
	if errors.Is(err, errNothing) {
		return "", nil
	}
	return `,"patternProperties":{` + quote(expression) + ":" + text + "}", err
}

func (w *writer) others(o *object, depth int) (string, error) {
	if o.others == nil {
		return "false", nil
	}
	text, err := w.inside(o.others, depth)
	if errors.Is(err, errNothing) {
		return "false", nil
	}
	return text, err
}

// inside writes the schema of a part of a value.
func (w *writer) inside(n *node, depth int) (string, error) {
	open := w.open
	w.open = nil
	defer func() { w.open = open }()
	return w.schema(n, depth+1)
}
