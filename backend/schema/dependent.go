package schema

import "slices"

// dependencies are the keywords by which one property asks for others, or for more.
var dependencies = []string{"dependentRequired", "dependentSchemas", "dependencies"}

// depends is the first of them that says something; empty when none does.
func (f *flat) depends() string {
	for _, keyword := range dependencies {
		if n := f.get(keyword); n != nil && !(n.object() && len(n.keys) == 0) {
			return keyword
		}
	}
	return ""
}

// dependent writes the first dependency of a keyword as a choice: without the property, or with it and what it asks for. What is
// left of the keyword stands beside the choice.
func (w *writer) dependent(f *flat, keyword string, depth int) (string, error) {
	list := f.get(keyword)
	if !list.object() {
		return "", wrong(keyword, f.at, "an object")
	}
	name, asked := list.keys[0], list.fields[list.keys[0]]
	at := list.at + "/" + name
	without := member(at, "properties", member(at, name, &node{at: at, scalar: "false"}))
	with := member(at, "required", &node{at: at, array: true, items: []*node{{at: at, scalar: quote(name)}}})
	if keyword == "dependentRequired" && !asked.array {
		return "", wrong(keyword, f.at, "lists of names")
	}
	if asked.array && keyword != "dependentSchemas" {
		required := with.fields["required"]
		required.items = slices.Concat(required.items, asked.items)
	} else {
		with.set("allOf", &node{at: at, array: true, items: []*node{asked}})
	}

	rest := f.clone()
	if delete(rest.fields, keyword); len(list.keys) > 1 {
		left := member(list.at, "", nil)
		left.keys = left.keys[:0]
		for _, key := range list.keys[1:] {
			left.set(key, list.fields[key])
		}
		rest.fields[keyword] = left
	}
	return w.choice(rest, "", &node{at: list.at, array: true, items: []*node{without, with}}, depth)
}

// member is a schema of one member.
func member(at, key string, value *node) *node {
	return &node{at: at, keys: []string{key}, fields: map[string]*node{key: value}}
}
