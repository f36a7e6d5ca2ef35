package toolcall

import (
	"bytes"
	"encoding/json"
	"strings"
)

// member is a member of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// members lists an object's members in their order; nil when raw is no object.
func members(raw []byte) []member {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var list []member
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return list
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return list
		}
		list = append(list, member{key.(string), value})
	}
	return list
}

// reader reads Python's literals, or Gemma's notation, and writes JSON.
type reader struct {
	text  string
	at    int
	mark  string // what stands around strings; empty: Python's quotes
	depth int
}

func (r *reader) skip() {
	for r.at < len(r.text) && isSpace(r.text[r.at]) {
		r.at++
	}
}

// take takes word, behind white space, when it is there.
func (r *reader) take(word string) bool {
	r.skip()
	if !strings.HasPrefix(r.text[r.at:], word) {
		return false
	}
	r.at += len(word)
	return true
}

// word takes a name, or a number.
func (r *reader) word(also string) string {
	r.skip()
	from := r.at
	for r.at < len(r.text) {
		b := r.text[r.at]
		if !isLetter(b) && (b < '0' || b > '9') && b < 0x80 && strings.IndexByte(also, b) < 0 {
			break
		}
		r.at++
	}
	return r.text[from:r.at]
}

// value reads one value and returns it as JSON.
func (r *reader) value() (string, bool) {
	if r.depth++; r.depth > maxDepth {
		return "", false
	}
	defer func() { r.depth-- }()
	r.skip()
	switch {
	case r.at == len(r.text):
		return "", false
	case r.take("["):
		return r.list("]", "[", "]", r.value)
	case r.mark == "" && r.take("("):
		return r.list(")", "[", "]", r.value)
	case r.take("{"):
		return r.list("}", "{", "}", func() (string, bool) { return r.pair(":") })
	case r.mark != "" && r.take(r.mark):
		text, rest, ok := strings.Cut(r.text[r.at:], r.mark)
		r.at = len(r.text) - len(rest)
		return quote(text), ok
	case r.text[r.at] == '"' || r.text[r.at] == '\'':
		return r.quoted()
	}
	word := r.word("+-._")
	if word == "nil" {
		word = "null"
	}
	word = literal(word)
	return word, word != ""
}

// list reads what one reads, up to end, with commas between.
func (r *reader) list(end, open, close string, one func() (string, bool)) (string, bool) {
	var items []string
	for !r.take(end) {
		if len(items) > 0 && !r.take(",") {
			return "", false
		}
		if len(items) > 0 && r.take(end) {
			break
		}
		item, ok := one()
		if !ok {
			return "", false
		}
		items = append(items, item)
	}
	return open + strings.Join(items, ",") + close, true
}

// pair reads a key, separator and a value.
func (r *reader) pair(separator string) (string, bool) {
	r.skip()
	var key string
	quoted := r.at < len(r.text) && (r.text[r.at] == '"' || r.text[r.at] == '\'') || r.mark != "" && strings.HasPrefix(r.text[r.at:], r.mark)
	if quoted {
		text, ok := r.value()
		if !ok {
			return "", false
		}
		key = text
	} else if word := r.word("_-.$"); word != "" {
		key = quote(word)
	}
	if key == "" || !r.take(separator) {
		return "", false
	}
	value, ok := r.value()
	return key + ":" + value, ok
}

// quoted reads one of Python's strings.
func (r *reader) quoted() (string, bool) {
	end := r.text[r.at : r.at+1]
	if triple := strings.Repeat(end, 3); strings.HasPrefix(r.text[r.at:], triple) {
		end = triple
	}
	r.at += len(end)
	var b strings.Builder
	for r.at < len(r.text) {
		if strings.HasPrefix(r.text[r.at:], end) {
			r.at += len(end)
			return quote(b.String()), true
		}
		if c := r.text[r.at]; c != '\\' || r.at+1 == len(r.text) {
			b.WriteByte(c)
			r.at++
			continue
		}
		b.WriteString(unescape(r.text[r.at : r.at+2]))
		r.at += 2
	}
	return "", false
}

// unescape is what a backslash and a character stand for.
func unescape(pair string) string {
	switch pair[1] {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case '\\', '\'', '"':
		return pair[1:]
	case '\n':
		return ""
	}
	return pair
}

// readCode reads Python calls: f(a=1), or a list of them; or the same as JSON.
func readCode(text string, p *Parser) ([]call, bool) {
	if calls, ok := readJSON(text); ok {
		return calls, true
	}
	r := &reader{text: text}
	list := r.take("[")
	var calls []call
	for {
		c, ok := r.call()
		if !ok {
			return nil, false
		}
		calls = append(calls, c)
		r.skip()
		if !r.take(",") && !r.take(";") && (list || r.at == len(r.text)) {
			break
		}
	}
	if list && !r.take("]") {
		return nil, false
	}
	r.skip()
	return calls, r.at == len(r.text)
}

// call reads f(a=1, b="x"). A print around it is dropped.
func (r *reader) call() (call, bool) {
	if r.depth++; r.depth > maxDepth {
		return call{}, false
	}
	name := r.word("_.-")
	if name == "" || !r.take("(") {
		return call{}, false
	}
	if name == "print" {
		c, ok := r.call()
		return c, ok && r.take(")")
	}
	arguments, ok := r.list(")", "{", "}", func() (string, bool) { return r.pair("=") })
	return call{name, arguments}, ok
}

// readJSON reads {"name": ..., "arguments": {...}} or an array of these.
func readJSON(text string) ([]call, bool) {
	type written struct {
		Name       string
		Arguments  json.RawMessage
		Parameters json.RawMessage
	}
	var list []written
	if strings.HasPrefix(text, "{") {
		text = "[" + text + "]"
	}
	if json.Unmarshal([]byte(text), &list) != nil || len(list) == 0 {
		return nil, false
	}
	var calls []call
	for _, w := range list {
		arguments := "{}"
		for _, raw := range []json.RawMessage{w.Arguments, w.Parameters} {
			if len(raw) > 0 && raw[0] == '{' {
				arguments = rewrite(string(raw))
			}
		}
		if w.Name == "" || arguments == "" {
			return nil, false
		}
		calls = append(calls, call{w.Name, arguments})
	}
	return calls, true
}

// readNotation reads Gemma's call:NAME{KEY:VALUE,...}, with mark around strings.
func readNotation(mark string) func(string, *Parser) ([]call, bool) {
	return func(text string, p *Parser) ([]call, bool) {
		if calls, ok := readJSON(text); ok { // a grammar cannot hold FunctionGemma's notation: see notations
			return calls, true
		}
		r := &reader{text: text, mark: mark}
		r.take("call:")
		name := r.word("_.-")
		if name == "" || !r.take("{") {
			return nil, false
		}
		arguments, ok := r.list("}", "{", "}", func() (string, bool) { return r.pair(":") })
		r.skip()
		return []call{{name, arguments}}, ok && r.at == len(r.text)
	}
}

// asPython writes a call as Python.
func asPython(c call) string {
	var list []string
	for _, m := range members([]byte(c.arguments)) {
		list = append(list, m.key+"="+pythonValue(m.value))
	}
	return c.name + "(" + strings.Join(list, ", ") + ")"
}

func pythonValue(raw json.RawMessage) string {
	switch text := string(raw); text {
	case "true":
		return "True"
	case "false":
		return "False"
	case "null":
		return "None"
	default:
		return text
	}
}

// asNotation writes a call as Gemma does.
func asNotation(mark string) func(call) string {
	var value func(raw json.RawMessage) string
	value = func(raw json.RawMessage) string {
		var text string
		var items []json.RawMessage
		if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
			return mark + text + mark
		}
		if json.Unmarshal(raw, &items) == nil && len(raw) > 0 && raw[0] == '[' {
			var list []string
			for _, item := range items {
				list = append(list, value(item))
			}
			return "[" + strings.Join(list, ",") + "]"
		}
		if len(raw) == 0 || raw[0] != '{' {
			return string(raw)
		}
		var list []string
		for _, m := range members(raw) {
			list = append(list, m.key+":"+value(m.value))
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	return func(c call) string { return "call:" + c.name + value(json.RawMessage(c.arguments)) }
}
