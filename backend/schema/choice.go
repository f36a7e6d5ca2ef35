package schema

import (
	"errors"
	"slices"

	"signalbox/backend/llm"
)

// choice writes anyOf or oneOf, each alternative together with what stands beside it.
func (w *writer) choice(f *flat, keyword string, list *node, depth int) (string, error) {
	if keyword == "" && len(list.items) == 0 {
		return "", nothing(list.at, "its opposite is everything")
	}
	if !list.array || len(list.items) == 0 {
		return "", wrong(keyword, f.at, "an array of schemas")
	}
	if err := w.branch(len(list.items), list.at); err != nil {
		return "", err
	}
	rest := f.clone()
	delete(rest.fields, keyword)
	branches, err := w.spread(rest, list.items)
	if err != nil {
		return "", err
	}
	if keyword == "oneOf" {
		if err := w.exclusive(list, branches); err != nil {
			return "", err
		}
	}
	var options []string
	var last error = nothing(list.at, "no alternative is left")
	for _, b := range branches {
		text, err := w.option(rest, b, depth)
		if errors.Is(err, errNothing) {
			last = err
			continue
		}
		if err != nil {
			return "", err
		}
		if !slices.Contains(options, text) {
			options = append(options, text)
		}
	}
	return anyOf(options, last)
}

// branch is one alternative.
type branch struct {
	node *node
	flat *flat // together with what stands beside the choice
	more bool  // flat says more than node and what stands beside it
}

// spread adds each alternative to a copy of rest. Those that cannot be are left out.
func (w *writer) spread(rest *flat, items []*node) ([]*branch, error) {
	var branches []*branch
	for _, item := range items {
		both := rest.clone()
		err := w.add(both, item, rest.parts) // one of these again would go round in a circle
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		branches = append(branches, &branch{node: item, flat: both})
	}
	return branches, nil
}

// option writes one alternative: by itself where nothing stands beside the choice, so that it may refer to itself further down.
func (w *writer) option(rest *flat, b *branch, depth int) (string, error) {
	if len(rest.fields) == 0 && rest.values == nil && len(rest.excepted)+len(rest.pending) == 0 && !b.more {
		return w.schema(b.node, depth+1)
	}
	for _, part := range b.flat.parts[len(rest.parts):] {
		if slices.Contains(w.open, part) {
			return "", circular(part)
		}
	}
	return w.flat(b.flat, depth+1)
}

func circular(n *node) error {
	return llm.Errorf(llm.CodeInvalid, "the JSON schema at %s refers to itself without a value in between", n.at)
}

// exclusive makes sure that no value can be of two alternatives. It may have to ask for a property that tells them apart.
func (w *writer) exclusive(list *node, branches []*branch) error {
	for i, a := range branches {
		for _, b := range branches[:i] {
			apart, err := w.apart(a, b)
			if err != nil {
				return err
			}
			if !apart && len(branches) <= fewBranches && w.exclude(a, b) {
				continue
			}
			if !apart {
				return cannot("oneOf", list.at, "a value could be of two of its alternatives ("+b.node.at+" and "+a.node.at+
					"); use anyOf, or give each a required property with another const")
			}
		}
	}
	return nil
}

// fewBranches are so few that each may be held to what the others do not accept.
const fewBranches = 8

// exclude makes both accept only what the other does not. It is false where that cannot be said.
func (w *writer) exclude(a, b *branch) bool {
	notA, okA := w.negate(a.node, 0)
	notB, okB := w.negate(b.node, 0)
	if !okA || !okB {
		return false
	}
	a.flat.pending = append(a.flat.pending, &node{at: b.node.at, array: true, items: notB})
	b.flat.pending = append(b.flat.pending, &node{at: a.node.at, array: true, items: notA})
	a.more, b.more = true, true
	return true
}

// apart tells whether no value can be of both.
func (w *writer) apart(a, b *branch) (bool, error) {
	if a.flat.values != nil && b.flat.values != nil {
		return !slices.ContainsFunc(a.flat.values, func(v *node) bool { return slices.ContainsFunc(b.flat.values, v.equal) }), nil
	}
	x, err := a.flat.kinds()
	if err != nil {
		return false, err
	}
	y, err := b.flat.kinds()
	if err != nil {
		return false, err
	}
	if x == nil || y == nil {
		return false, nil
	}
	shared := slices.ContainsFunc(x, func(t string) bool {
		return slices.Contains(y, t) || t == "integer" && slices.Contains(y, "number") || t == "number" && slices.Contains(y, "integer")
	})
	if !shared {
		return true, nil
	}
	if len(x) == 1 && len(y) == 1 && x[0] == "object" && y[0] == "object" {
		return w.told(a, b)
	}
	return false, nil
}

// kinds are the types that values may have; nil for all.
func (f *flat) kinds() ([]string, error) {
	if f.values == nil {
		return f.types()
	}
	var list []string
	for _, v := range f.values {
		list = append(list, v.kind())
	}
	return list, nil
}

// told tells whether a property has other values in a than in b, and makes both ask for it.
func (w *writer) told(a, b *branch) (bool, error) {
	for _, x := range a.flat.objects {
		for _, key := range x.names() {
			mine := x.properties.fields[key]
			for _, y := range b.flat.objects {
				theirs := y.property(key)
				if theirs == nil {
					continue
				}
				different, err := w.different(mine, theirs)
				if err != nil {
					return false, err
				}
				if different {
					a.ask(key)
					b.ask(key)
					return true, nil
				}
			}
		}
	}
	return false, nil
}

func (w *writer) different(a, b *node) (bool, error) {
	x, err := w.flatten(a)
	if err != nil {
		return false, err
	}
	y, err := w.flatten(b)
	if err != nil {
		return false, err
	}
	if x.values == nil || y.values == nil {
		return false, nil
	}
	return w.apart(&branch{flat: x}, &branch{flat: y})
}

// ask requires a property.
func (b *branch) ask(key string) {
	list := &node{at: b.flat.at, array: true}
	if old := b.flat.get("required"); old != nil {
		if slices.ContainsFunc(old.items, func(n *node) bool { return n.scalar == quote(key) }) {
			return
		}
		list.items = slices.Clone(old.items)
	}
	list.items = append(list.items, &node{at: list.at, scalar: quote(key)})
	b.flat.fields["required"], b.more = list, true
}
