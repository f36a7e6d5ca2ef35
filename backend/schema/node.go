package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"strconv"
	"strings"

	"signalbox/backend/llm"
)

// Bounds on a schema. The grammar library took 88 s for arrays nested 1,000 deep, and has no bounds of its own.
const (
	MaxBytes    = 256 << 10
	MaxDepth    = 32             // of schemas in schemas, references followed
	maxNesting  = 128            // of the JSON that is read
	MaxBranches = 2000           // of all anyOf, oneOf and enum together
	MaxSchemas  = 2500           // written, after multiplying out
	maxOutput   = 1 << 20        // bytes
	maxLetters  = 64 << 10       // bytes of names and values: 0.3 s for as many, 2 s for 100,000
	maxTogether = 4 * MaxSchemas // in all tools of a request
	// To count named properties takes the library the fourth power of their number: 1.5 s for 90, minutes for 300.
	maxCounted = 60_000_000
)

// node is one JSON value of a schema.
type node struct {
	at     string   // JSON pointer, for messages: "#/properties/name"
	keys   []string // of an object, in the order they were sent
	fields map[string]*node
	items  []*node // of an array
	array  bool
	scalar string // of everything else: its text, compact
}

func (n *node) object() bool { return n.fields != nil }

// text is the value of a string.
func (n *node) text() (string, bool) {
	var s string
	if n.scalar == "" || n.scalar[0] != '"' || json.Unmarshal([]byte(n.scalar), &s) != nil {
		return "", false
	}
	return s, true
}

func (n *node) bool() (value, ok bool) {
	return n.scalar == "true", n.scalar == "true" || n.scalar == "false"
}

// number is the value of a number that is not absurdly long.
func (n *node) number() (*big.Rat, bool) {
	if n.scalar == "" || n.scalar[0] != '-' && (n.scalar[0] < '0' || n.scalar[0] > '9') || hugeNumber(n.scalar) {
		return nil, false
	}
	return new(big.Rat).SetString(n.scalar)
}

// hugeNumber tells whether working a number out would take long: 1e999999999 is a short text.
func hugeNumber(text string) bool {
	if len(text) > 400 {
		return true
	}
	_, exponent, found := strings.Cut(strings.ToLower(text), "e")
	if !found {
		return false
	}
	e, err := strconv.Atoi(exponent)
	return err != nil || e > 400 || e < -400
}

// count is the value of a number that counts something.
func (n *node) count() (int, bool) {
	r, ok := n.number()
	if !ok || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() || r.Num().Int64() > 1<<30 {
		return 0, false
	}
	return int(r.Num().Int64()), true
}

// String writes n as compact JSON.
func (n *node) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	switch {
	case n.object():
		b.WriteByte('{')
		for i, key := range n.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(key) + ":")
			n.fields[key].write(b)
		}
		b.WriteByte('}')
	case n.array:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	default:
		b.WriteString(n.scalar)
	}
}

// quote writes a JSON string as it is written in answers: nothing escaped that need not be.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string is always encoded
	text := strings.TrimSuffix(b.String(), "\n")
	return strings.NewReplacer("\\u2028", "\u2028", "\\u2029", "\u2029").Replace(text)
}

// equal compares as JSON Schema does: key order and the spelling of numbers do not count.
func (n *node) equal(m *node) bool {
	switch {
	case n.object():
		if !m.object() || len(n.keys) != len(m.keys) {
			return false
		}
		for _, key := range n.keys {
			if m.fields[key] == nil || !n.fields[key].equal(m.fields[key]) {
				return false
			}
		}
		return true
	case n.array:
		if !m.array || len(n.items) != len(m.items) {
			return false
		}
		for i := range n.items {
			if !n.items[i].equal(m.items[i]) {
				return false
			}
		}
		return true
	case m.object() || m.array:
		return false
	}
	x, okX := n.number()
	y, okY := m.number()
	if okX && okY {
		return x.Cmp(y) == 0
	}
	a, okA := n.text()
	b, okB := m.text()
	return okA && okB && a == b || n.scalar == m.scalar
}

// parse reads a schema.
func parse(raw []byte) (*node, error) {
	if len(raw) > MaxBytes {
		return nil, llm.Errorf(llm.CodeInvalid, "the JSON schema has %d bytes, more than the %d that are read", len(raw), MaxBytes)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	n, err := read(d, "#", 0)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is text behind it")
		}
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return nil, e
	}
	if err != nil {
		return nil, llm.Errorf(llm.CodeInvalid, "the JSON schema is not valid JSON: %w", err)
	}
	return n, nil
}

func read(d *json.Decoder, at string, depth int) (*node, error) {
	if depth > maxNesting {
		return nil, llm.Errorf(llm.CodeInvalid, "the JSON schema is nested more than %d deep", maxNesting)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return readArray(d, at, depth)
		}
		return readObject(d, at, depth)
	case string:
		if strings.ContainsRune(t, 0) {
			return nil, llm.Errorf(llm.CodeInvalid, "the JSON schema has a NUL character in the text at %s", at)
		}
		return &node{at: at, scalar: quote(t)}, nil
	case json.Number:
		return &node{at: at, scalar: t.String()}, nil
	case bool:
		return &node{at: at, scalar: strconv.FormatBool(t)}, nil
	}
	return &node{at: at, scalar: "null"}, nil
}

func readArray(d *json.Decoder, at string, depth int) (*node, error) {
	n := &node{at: at, array: true}
	for d.More() {
		item, err := read(d, at+"/"+strconv.Itoa(len(n.items)), depth+1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, err := d.Token()
	return n, err
}

func readObject(d *json.Decoder, at string, depth int) (*node, error) {
	n := &node{at: at, fields: map[string]*node{}}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := token.(string) // the decoder takes nothing else here
		if n.fields[key] != nil {
			return nil, llm.Errorf(llm.CodeInvalid, "the JSON schema has %q twice at %s", key, at)
		}
		if strings.ContainsRune(key, 0) {
			return nil, llm.Errorf(llm.CodeInvalid, "the JSON schema has a NUL character in a name at %s", at)
		}
		value, err := read(d, at+"/"+escape(key), depth+1)
		if err != nil {
			return nil, err
		}
		n.keys = append(n.keys, key)
		n.fields[key] = value
	}
	_, err := d.Token()
	return n, err
}

// escape writes a key as a part of a JSON pointer.
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
