package schema

import (
	"slices"
	"strconv"

	"signalbox/backend/llm"
)

// Structural checks a structural tag, the grammar library's description of free text with structured parts, and brings the
// JSON schemas and regular expressions in it into the form that is enforced. Whitespace bounds the blanks in a row in JSON.
func Structural(raw []byte, whitespace int) (string, error) {
	root, err := parse(raw)
	if err != nil {
		return "", err
	}
	if err := structural(root, whitespace, &budget{most: maxTogether}); err != nil {
		return "", err
	}
	return root.String(), nil
}

// structural changes the parts below n in place.
func structural(n *node, whitespace int, left *budget) error {
	kind := ""
	if t := n.fields["type"]; t != nil {
		kind, _ = t.text()
	}
	switch kind {
	case "json_schema", "qwen_xml_parameter":
		return n.inner(whitespace, left)
	case "regex":
		return n.rewrite("pattern", Regex)
	case "repeat":
		if most := n.fields["max"]; most != nil {
			if count, ok := most.count(); !ok || count > maxRepeats {
				return llm.Errorf(llm.CodeInvalid, "the repetition at %s is above %d", n.at, maxRepeats)
			}
		}
	}
	for _, key := range n.keys {
		if err := structural(n.fields[key], whitespace, left); err != nil {
			return err
		}
	}
	for _, item := range n.items {
		if err := structural(item, whitespace, left); err != nil {
			return err
		}
	}
	return nil
}

// inner brings the JSON schema in n into its normal form.
func (n *node) inner(whitespace int, left *budget) error {
	s := n.fields["json_schema"]
	if s == nil {
		return llm.Errorf(llm.CodeInvalid, "the structural tag has no json_schema at %s", n.at)
	}
	text, err := normal([]byte(s.String()), left)
	if err != nil {
		return err
	}
	n.set("json_schema", &node{at: s.at, scalar: text})
	if n.fields["max_whitespace_cnt"] == nil && n.style() == "json" {
		n.set("max_whitespace_cnt", &node{at: n.at, scalar: strconv.Itoa(whitespace)})
	}
	return nil
}

func (n *node) style() string {
	if t, _ := n.fields["type"].text(); t != "json_schema" {
		return t
	}
	if s := n.fields["style"]; s != nil {
		text, _ := s.text()
		return text
	}
	return "json"
}

// rewrite replaces a text of n.
func (n *node) rewrite(key string, change func(string) (string, error)) error {
	old := n.fields[key]
	if old == nil {
		return nil
	}
	text, ok := old.text()
	if !ok {
		return llm.Errorf(llm.CodeInvalid, "%s at %s must be a text", key, n.at)
	}
	changed, err := change(text)
	if err != nil {
		return err
	}
	n.set(key, &node{at: old.at, scalar: quote(changed)})
	return nil
}

// set changes a member, or adds it.
func (n *node) set(key string, value *node) {
	if !slices.Contains(n.keys, key) {
		n.keys = append(n.keys, key)
	}
	n.fields[key] = value
}
