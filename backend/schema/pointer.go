package schema

import (
	"net/url"
	"strconv"
	"strings"
)

// walk follows the parts of a JSON pointer, nil when it leads nowhere.
func (n *node) walk(parts []string) *node {
	for _, part := range parts {
		if n == nil {
			return nil
		}
		if plain, err := url.PathUnescape(part); err == nil {
			part = plain
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch {
		case n.object():
			n = n.fields[part]
		case n.array:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(n.items) {
				return nil
			}
			n = n.items[i]
		default:
			return nil
		}
	}
	return n
}

// anchor finds the schema that has the name.
func (n *node) anchor(name string) *node {
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if a := n.fields[keyword]; a != nil {
			if text, ok := a.text(); ok && text == name {
				return n
			}
		}
	}
	for _, key := range n.keys {
		if key == "const" || key == "enum" {
			continue
		}
		if found := n.fields[key].anchor(name); found != nil {
			return found
		}
	}
	for _, item := range n.items {
		if found := item.anchor(name); found != nil {
			return found
		}
	}
	return nil
}

// renamed is the first schema below n that has an $id of its own, nil for none: there, references mean something else.
func (n *node) renamed() *node {
	children := n.items
	for _, key := range n.keys {
		if key != "const" && key != "enum" {
			children = append(children, n.fields[key])
		}
	}
	for _, c := range children {
		if id := c.fields["$id"]; id != nil && strings.HasPrefix(id.scalar, `"`) {
			return c
		}
		if found := c.renamed(); found != nil {
			return found
		}
	}
	return nil
}
