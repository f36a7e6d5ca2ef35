package schema

import (
	"math/big"
	"slices"
	"strings"
)

// except is a keyword of our own: values that may not be.
const except = "\x00except"

// negate returns schemas that together accept what n does not; none when it accepts everything. ok is false where that cannot be
// said in the keywords that a grammar holds.
func (w *writer) negate(n *node, depth int) (list []*node, ok bool) {
	if accepts, isBool := n.bool(); isBool {
		if accepts {
			return nil, true
		}
		return []*node{{at: n.at, scalar: "true"}}, true
	}
	if w.negated++; !n.object() || depth > MaxDepth || w.negated > MaxSchemas {
		return nil, false
	}
	for _, key := range n.keys { // all of them hold, so it fails where one of them does
		if slices.Contains(annotations, key) {
			continue
		}
		parts, ok := w.negateKeyword(n, key, n.fields[key], depth)
		if !ok || len(list)+len(parts) > maxNegated {
			return nil, false
		}
		list = append(list, parts...)
	}
	return list, true
}

// maxNegated bounds the alternatives of a negation, which are multiplied with those beside it.
const maxNegated = 32

func (w *writer) negateKeyword(n *node, key string, value *node, depth int) ([]*node, bool) {
	switch key {
	case "const":
		return []*node{member(n.at, except, &node{at: value.at, array: true, items: []*node{value}})}, true
	case "enum":
		return []*node{member(n.at, except, value)}, value.array
	case "type":
		return negateType(value)
	case "required":
		return negateRequired(value)
	case "properties":
		return w.negateProperties(value, depth)
	case "not":
		return []*node{value}, true
	case "$ref":
		target, err := w.find(value)
		if err != nil {
			return nil, false
		}
		return w.negate(target, depth+1)
	case "allOf":
		return w.negateEach(value, depth)
	case "anyOf":
		return w.negateAny(value, depth)
	}
	if !known(key) && key != "if" && refused[key] == "" {
		return nil, true // it says nothing
	}
	return negateLimit(key, value)
}

// negateType is all other types.
func negateType(value *node) ([]*node, bool) {
	list, err := typeList(value)
	if err != nil || slices.Contains(list, "integer") { // what is a number and not whole cannot be asked for
		return nil, false
	}
	others := &node{at: value.at, array: true}
	for _, t := range []string{"null", "boolean", "number", "string", "array", "object"} {
		if !slices.Contains(list, t) {
			others.items = append(others.items, &node{at: value.at, scalar: quote(t)})
		}
	}
	if len(others.items) == 0 {
		return nil, true
	}
	return []*node{member(value.at, "type", others)}, true
}

// negateRequired is objects without one of the properties.
func negateRequired(value *node) (list []*node, ok bool) {
	for _, name := range value.items {
		key, isText := name.text()
		if !isText {
			return nil, false
		}
		n := objectOf(value.at)
		n.set("properties", member(value.at, key, &node{at: value.at, scalar: "false"}))
		list = append(list, n)
	}
	return list, value.array
}

// negateProperties is objects with a property that is not as it should be.
func (w *writer) negateProperties(value *node, depth int) (list []*node, ok bool) {
	for _, key := range value.keys {
		wrong, ok := w.negate(value.fields[key], depth+1)
		if !ok {
			return nil, false
		}
		for _, one := range wrong {
			n := objectOf(value.at)
			n.set("required", &node{at: value.at, array: true, items: []*node{{at: value.at, scalar: quote(key)}}})
			n.set("properties", member(value.at, key, one))
			list = append(list, n)
		}
	}
	return list, value.object()
}

func objectOf(at string) *node { return member(at, "type", &node{at: at, scalar: `"object"`}) }

// negateEach is what one of several schemas does not accept.
func (w *writer) negateEach(value *node, depth int) (list []*node, ok bool) {
	for _, item := range value.items {
		parts, ok := w.negate(item, depth+1)
		if !ok || len(list)+len(parts) > maxNegated {
			return nil, false
		}
		list = append(list, parts...)
	}
	return list, value.array
}

// negateAny is what none of several schemas accepts.
func (w *writer) negateAny(value *node, depth int) ([]*node, bool) {
	all := &node{at: value.at, array: true}
	for _, item := range value.items {
		parts, ok := w.negate(item, depth+1)
		switch {
		case !ok:
			return nil, false
		case len(parts) == 0:
			return nil, true
		case len(parts) == 1:
			all.items = append(all.items, parts[0])
		default:
			all.items = append(all.items, member(value.at, "anyOf", &node{at: value.at, array: true, items: parts}))
		}
	}
	return []*node{member(value.at, "allOf", all)}, value.array && len(value.items) > 0
}

// opposite keywords are those that begin where a limit ends; by is the step between, for limits that count.
var opposites = map[string]struct {
	kind, keyword string
	by            int64
}{
	"minimum": {"number", "exclusiveMaximum", 0}, "exclusiveMinimum": {"number", "maximum", 0},
	"maximum": {"number", "exclusiveMinimum", 0}, "exclusiveMaximum": {"number", "minimum", 0},
	"minLength": {"string", "maxLength", -1}, "maxLength": {"string", "minLength", 1},
	"minItems": {"array", "maxItems", -1}, "maxItems": {"array", "minItems", 1},
	"minProperties": {"object", "maxProperties", -1}, "maxProperties": {"object", "minProperties", 1},
}

// negateLimit is what lies beyond a limit.
func negateLimit(key string, value *node) ([]*node, bool) {
	o, found := opposites[key]
	r, isNumber := value.number()
	if !found || !isNumber {
		return nil, false
	}
	beyond := value
	if o.by != 0 {
		if _, counts := value.count(); !counts {
			return nil, false
		}
		r = new(big.Rat).Add(r, new(big.Rat).SetInt64(o.by))
		if r.Sign() < 0 {
			return nil, true // nothing is shorter than nothing
		}
		beyond = &node{at: value.at, scalar: r.RatString()}
	}
	n := member(value.at, "type", &node{at: value.at, scalar: quote(o.kind)})
	n.set(o.keyword, beyond)
	return []*node{n}, true
}

// forbid adds that the schema n must not accept the value.
func (w *writer) forbid(f *flat, keyword string, n *node, why string) error {
	list, ok := w.negate(n, 0)
	if !ok {
		return cannot(keyword, n.at, why)
	}
	f.pending = append(f.pending, &node{at: n.at, array: true, items: list})
	return nil
}

// condition adds if, then and else: either what if and then say, or the opposite of if and what else says.
func (w *writer) condition(f *flat, n *node) error {
	when, then, otherwise := n.fields["if"], n.fields["then"], n.fields["else"]
	if then == nil && otherwise == nil {
		return nil
	}
	list, ok := w.negate(when, 0)
	if !ok {
		return cannot("if", n.at, "the opposite of its condition must be possible to say: use type, required, and const or enum on properties that have an enum")
	}
	choice := &node{at: when.at, array: true, items: []*node{both(when, then)}}
	for _, one := range list {
		choice.items = append(choice.items, both(one, otherwise))
	}
	f.pending = append(f.pending, choice)
	return nil
}

func both(a, b *node) *node {
	if b == nil {
		return a
	}
	return allOf([]*node{a, b})
}

// notOpen is the error for a value that cannot be left out, since others may be without end.
func notOpen(v *node) error {
	keyword := "enum"
	if strings.HasSuffix(v.at, "/const") {
		keyword = "const"
	}
	return cannot(keyword, v.at, "its opposite is asked for, and a value can be left out only where there is a list of them (enum)")
}

// leaveOut takes the values that may not be out of those that may.
func (f *flat) leaveOut() error {
	if len(f.excepted) == 0 {
		return nil
	}
	if f.values == nil {
		types, err := f.types()
		if err != nil {
			return err
		}
		if types == nil {
			return notOpen(f.excepted[0])
		}
		var values []*node
		for _, t := range types {
			switch t {
			case "null":
				values = append(values, &node{at: f.at, scalar: "null"})
			case "boolean":
				values = append(values, &node{at: f.at, scalar: "true"}, &node{at: f.at, scalar: "false"})
			}
		}
		open := slices.ContainsFunc(types, func(t string) bool { return t != "null" && t != "boolean" })
		for _, v := range f.excepted {
			kind := v.kind()
			if kind == "integer" && slices.Contains(types, "number") {
				kind = "number"
			}
			if slices.Contains(types, kind) && (open || kind != "null" && kind != "boolean") {
				return notOpen(v)
			}
		}
		if open {
			return nil
		}
		f.values = values
	}
	f.values = slices.DeleteFunc(slices.Clone(f.values), func(v *node) bool { return slices.ContainsFunc(f.excepted, v.equal) })
	if len(f.values) == 0 {
		return nothing(f.at, "every value is left out")
	}
	return nil
}
