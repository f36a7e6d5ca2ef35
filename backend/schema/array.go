package schema

import (
	"errors"
	"slices"
	"strings"
)

// maxCount is the largest number of items, properties or letters that is asked for. More than that, no answer has.
const maxCount = 100_000

// counts reads a smallest and a largest number of something; most is -1 when there is none.
func (f *flat) counts(lower, upper string) (least, most int, err error) {
	most = -1
	if n := f.get(lower); n != nil {
		var ok bool
		if least, ok = n.count(); !ok {
			return 0, 0, wrong(lower, f.at, "a whole number")
		}
		if least > maxCount {
			return 0, 0, cannot(lower, f.at, "it is too large")
		}
	}
	if n := f.get(upper); n != nil {
		var ok bool
		if most, ok = n.count(); !ok {
			return 0, 0, wrong(upper, f.at, "a whole number")
		}
		if most = min(most, maxCount); least > most {
			return 0, 0, nothing(f.at, lower+" is larger than "+upper)
		}
	}
	return least, most, nil
}

// array is what a schema says about items.
type array struct {
	first []*node // of the first items, one each
	rest  *node   // of all others; nil: there are none
}

func (w *writer) array(f *flat, depth int) (string, error) {
	if err := f.oneList(); err != nil {
		return "", err
	}
	a, err := f.array()
	if err != nil {
		return "", err
	}
	least, most, err := f.counts("minItems", "maxItems")
	if err != nil {
		return "", err
	}
	if least, err = f.contains(a, least, most); err != nil {
		return "", err
	}
	if least > 0 || most >= 0 {
		if err := w.charge(costs["minItems"], "minItems", f.at); err != nil {
			return "", err
		}
	}
	first, err := w.first(a, depth)
	if err != nil {
		return "", err
	}
	rest := "false"
	if a.rest != nil {
		rest, err = w.inside(a.rest, depth)
		if errors.Is(err, errNothing) {
			rest, err = "false", nil
		}
		if err != nil {
			return "", err
		}
	}
	return f.writeArray(first, rest, least, most)
}

// maxContained bounds how many items may have to match "contains".
const maxContained = 32

// contains puts the items that must match it in front, behind those that have places of their own: there the grammar can hold them to
// it. It returns how many items there must be.
func (f *flat) contains(a *array, least, most int) (int, error) {
	i := slices.IndexFunc(f.parts, func(n *node) bool { return n.fields["contains"] != nil })
	if i < 0 {
		return least, nil
	}
	part, n := f.parts[i], 1
	if limit := part.fields["minContains"]; limit != nil {
		var ok bool
		if n, ok = limit.count(); !ok {
			return 0, wrong("minContains", part.at, "a whole number")
		}
	}
	if part.fields["maxContains"] != nil {
		return 0, cannot("maxContains", part.at, "it would need to look back at other items")
	}
	if n == 0 {
		return least, nil
	}
	if a.rest == nil || n > maxContained || most >= 0 && len(a.first)+n > most {
		return 0, cannot("contains", part.at, "there must be room for what it asks for behind the items that have places of their own")
	}
	a.first = slices.Clone(a.first)
	for range n {
		a.first = append(a.first, allOf([]*node{a.rest, part.fields["contains"]}))
	}
	return max(least, len(a.first)), nil
}

func (f *flat) writeArray(first []string, rest string, least, most int) (string, error) {
	if most >= 0 && most <= len(first) {
		first, rest = first[:most], "false"
	}
	if rest == "false" {
		most = len(first)
	}
	if most >= 0 && least > most {
		return "", nothing(f.at, "more items are required than are allowed")
	}
	if n := f.get("uniqueItems"); n != nil {
		if unique, ok := n.bool(); !ok {
			return "", wrong("uniqueItems", f.at, "true or false")
		} else if unique && (most < 0 || most > 1) {
			return "", cannot("uniqueItems", f.at, "it would need to look back at other items")
		}
	}
	var b strings.Builder
	b.WriteString(`{"type":"array"`)
	if len(first) > 0 {
		b.WriteString(`,"prefixItems":[` + strings.Join(first, ",") + `]`)
	}
	b.WriteString(`,"items":` + rest)
	if rest == "false" {
		most = -1
	}
	writeCounts(&b, "Items", least, most)
	b.WriteByte('}')
	return b.String(), nil
}

// first writes the schemas of the first items, up to one that nothing satisfies: the array ends before it.
func (w *writer) first(a *array, depth int) ([]string, error) {
	var list []string
	for _, n := range a.first {
		text, err := w.inside(n, depth)
		if errors.Is(err, errNothing) {
			a.rest = nil
			break
		}
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

// oneList is the error for items that are spoken of in several parts.
func (f *flat) oneList() error {
	var first *node
	for _, part := range f.parts {
		for _, keyword := range []string{"items", "prefixItems", "additionalItems", "unevaluatedItems"} {
			if part.fields[keyword] == nil || first == part {
				continue
			}
			if first != nil {
				return cannot(keyword, part.at, "items are spoken of at "+first.at+", too")
			}
			first = part
		}
	}
	return nil
}

// array reads both spellings: prefixItems and items, and the older items (a list) and additionalItems.
func (f *flat) array() (*array, error) {
	a := &array{}
	items, rest := f.get("prefixItems"), f.get("items")
	if items == nil && rest != nil && rest.array {
		items, rest = rest, f.get("additionalItems")
	}
	if rest == nil {
		rest = f.get("unevaluatedItems")
	}
	if items != nil {
		if !items.array {
			return nil, wrong("prefixItems", f.at, "an array of schemas")
		}
		a.first = items.items
	}
	switch {
	case rest == nil && items == nil:
		a.rest = &node{at: f.at, scalar: "true"}
	case rest != nil && rest.array:
		return nil, wrong("items", f.at, "a schema")
	case rest != nil && rest.scalar != "false":
		a.rest = rest
	}
	return a, nil
}
