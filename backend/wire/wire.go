// Package wire reads JSON request bodies the way clients need it: fields are taken by name, what is unknown is not an error
// but is noted, null counts as absent, and a wrong type is one clear error in the words of the caller's dialect.
//
//	o, err := wire.Parse(body, words)      // words turns "options.num_ctx, integer, string" into the dialect's sentence
//	model := o.Text("model")
//	temperature := o.Float(temperatureRow)
//	o.Rest()                               // names what nobody took
//	err = o.Err()
//
// After the first fault every taking method answers nothing, so that decoders need only one check at the end.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"signalbox/backend/llm"
)

// MaxDepth is how deep a body may nest: far above what schemas need, far below what hurts a recursive reader.
const MaxDepth = 200

// maxNoted bounds how many unknown fields are named: the names come from outside and end up in records.
const maxNoted = 20

// Words makes the dialect's error for a field of the wrong type. path is as in "options.num_ctx" or "messages[2].content";
// want and got are JSON types (want may also be "integer").
type Words func(path, want, got string) *llm.Error

// Object is one JSON object of a request. Methods taking a name answer the zero value for fields absent or null.
type Object struct {
	path   string // of this object; empty for the body itself
	fields map[string]json.RawMessage
	order  []string
	taken  map[string]bool
	notes  *notes
}

// notes is shared by all objects of one body.
type notes struct {
	words   Words
	err     *llm.Error
	ignored []string
	clamped []string
	halves  int // texts with half a surrogate pair
}

// Parse reads a body that must be one JSON object. The error for a missing body is Ollama's, and so is the end of those for
// bad syntax.
func Parse(body []byte, words Words) (*Object, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, llm.Errorf(llm.CodeInvalid, "missing request body")
	}
	body = bytes.TrimPrefix(body, byteOrder)
	if err := checkUTF8(body); err != nil {
		return nil, err
	}
	if err := checkDepth(body); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		return nil, BadJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, llm.Errorf(llm.CodeInvalid, "the request body goes on after its JSON object")
	}
	n := &notes{words: words}
	o := n.object("", value)
	if n.err != nil {
		return nil, n.err
	}
	return o, nil
}

// byteOrder is the mark that editors on Windows put before a file's text: curl -d @body.json sends it.
var byteOrder = []byte("\uFEFF")

// checkUTF8 refuses a body in another encoding. The decoder would put U+FFFD wherever it cannot read, and the model would be asked
// for something else than was sent: PowerShell 5 and curl on Windows send Latin-1 or the console's code page.
func checkUTF8(body []byte) error {
	if utf8.Valid(body) {
		return nil
	}
	at := 0
	for at < len(body) {
		r, size := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return llm.Errorf(llm.CodeInvalid, "the request body is not UTF-8: byte %#02x at offset %d begins no letter", body[at], at).
		WithHint("send the JSON encoded as UTF-8")
}

// checkDepth refuses bodies nested deeper than MaxDepth before anything walks them.
func checkDepth(body []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return llm.Errorf(llm.CodeInvalid, "the request's JSON is nested deeper than %d levels", MaxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func (n *notes) object(path string, raw json.RawMessage) *Object {
	o := &Object{path: path, fields: map[string]json.RawMessage{}, taken: map[string]bool{}, notes: n}
	if kind := kindOf(raw); kind != "object" {
		if path == "" {
			path = "request body"
		}
		o.wrongType(path, "object", kind)
		return o
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		o.Fail(BadJSON(err))
		return o
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			o.Fail(BadJSON(err))
			return o
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			o.Fail(BadJSON(err))
			return o
		}
		name, _ := key.(string)
		if _, seen := o.fields[name]; !seen {
			o.order = append(o.order, name)
		}
		o.fields[name] = value // as everywhere, the last of two wins
	}
	return o
}

// Path is where the named field of o is in the body.
func (o *Object) Path(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// Raw takes a field as it was written; nil when it is absent or null.
func (o *Object) Raw(name string) json.RawMessage {
	if o.notes.err != nil {
		return nil
	}
	o.taken[name] = true
	raw := o.fields[name]
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// Has tells whether a field is there and not null, without taking it.
func (o *Object) Has(name string) bool {
	raw := o.fields[name]
	return len(raw) > 0 && string(raw) != "null"
}

// Sent are the names of the fields that are there and not null.
func (o *Object) Sent() (names []string) {
	for _, name := range o.order {
		if o.Has(name) {
			names = append(names, name)
		}
	}
	return names
}

// Text takes a string. A NUL character is refused: the tokenizer's interface would end the text there.
func (o *Object) Text(name string) string {
	raw := o.Raw(name)
	if raw == nil {
		return ""
	}
	return o.text(o.Path(name), raw)
}

func (o *Object) text(path string, raw json.RawMessage) string {
	if kind := kindOf(raw); kind != "string" {
		o.wrongType(path, "string", kind)
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		o.Fail(llm.Errorf(llm.CodeInvalid, "%s: %w", path, err))
		return ""
	}
	if strings.IndexByte(s, 0) >= 0 {
		o.FailAt(path, "%s holds a NUL character (\\u0000), which no model can read: leave it out", path)
		return ""
	}
	if strings.ContainsRune(s, utf8.RuneError) && halved(raw) {
		if o.notes.halves++; o.notes.halves <= maxNoted {
			o.Ignored(path + " (half a surrogate pair)")
		}
	}
	return s
}

// halved tells whether a JSON string has one half of a surrogate pair without the other, which stands for no letter: texts that were
// cut by UTF-16 units end so. The decoder reads U+FFFD there.
func halved(raw []byte) bool {
	escape := func(at int) rune {
		if at+6 > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(raw[at+2:at+6]), 16, 16) // it was decoded before
		return rune(n)
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		r := escape(i)
		switch {
		case !utf16.IsSurrogate(r):
			i++
		case utf16.DecodeRune(r, escape(i+6)) == utf8.RuneError:
			return true
		default:
			i += 11
		}
	}
	return false
}

// Bool takes a boolean; nil when it is absent.
func (o *Object) Bool(name string) *bool {
	raw := o.Raw(name)
	if raw == nil {
		return nil
	}
	if kind := kindOf(raw); kind != "boolean" {
		o.wrongType(o.Path(name), "boolean", kind)
		return nil
	}
	value := string(raw) == "true"
	return &value
}

// True takes a boolean that counts as false when absent.
func (o *Object) True(name string) bool {
	b := o.Bool(name)
	return b != nil && *b
}

// Object takes an object; nil when it is absent.
func (o *Object) Object(name string) *Object {
	raw := o.Raw(name)
	if raw == nil {
		return nil
	}
	return o.notes.object(o.Path(name), raw)
}

// Array takes an array; nil when it is absent.
func (o *Object) Array(name string) []json.RawMessage {
	raw := o.Raw(name)
	if raw == nil {
		return nil
	}
	if kind := kindOf(raw); kind != "array" {
		o.wrongType(o.Path(name), "array", kind)
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		o.Fail(llm.Errorf(llm.CodeInvalid, "%s: %w", o.Path(name), err))
	}
	return list
}

// maxObjects bounds a list of objects, each of which is read field by field: far more than any context has room for.
const maxObjects = 1 << 14

// Objects takes an array of objects.
func (o *Object) Objects(name string) []*Object { return o.objects(name, maxObjects) }

func (o *Object) objects(name string, limit int) []*Object {
	items := o.Array(name)
	if len(items) > limit {
		o.FailAt(o.Path(name), "%s takes at most %d entries, not %d", o.Path(name), limit, len(items))
		return nil
	}
	var list []*Object
	for i, raw := range items {
		if o.notes.err != nil {
			return nil
		}
		list = append(list, o.notes.object(fmt.Sprintf("%s[%d]", o.Path(name), i), raw))
	}
	return list
}

// Texts takes a list of at most limit strings, or one string, which counts as a list of one.
func (o *Object) Texts(name string, limit int) []string {
	raw := o.Raw(name)
	if raw == nil {
		return nil
	}
	if kindOf(raw) == "string" {
		return []string{o.text(o.Path(name), raw)}
	}
	items := o.Array(name)
	if len(items) > limit {
		o.FailAt(o.Path(name), "%s takes at most %d entries, not %d", o.Path(name), limit, len(items))
		return nil
	}
	list := make([]string, 0, len(items))
	for i, item := range items {
		if o.notes.err != nil {
			return nil
		}
		list = append(list, o.text(fmt.Sprintf("%s[%d]", o.Path(name), i), item))
	}
	return list
}

// Ignore takes fields that are known but not honoured, and notes those that are there.
func (o *Object) Ignore(names ...string) {
	for _, name := range names {
		if o.Raw(name) != nil {
			o.Ignored(o.Path(name))
		}
	}
}

// Ignored notes a field, by its path, as not honoured.
func (o *Object) Ignored(path string) { o.notes.ignored = append(o.notes.ignored, path) }

// safeName is what an unknown field's name may look like to be repeated in records and answers.
var safeName = regexp.MustCompile(`^[A-Za-z0-9_.\-\[\]]{1,64}$`)

// Rest notes the fields that nobody has taken, so that a misspelt one can be found in the record.
func (o *Object) Rest() {
	unknown := 0
	for _, name := range o.order {
		path := o.Path(name)
		if o.taken[name] || !o.Has(name) || !safeName.MatchString(path) {
			continue
		}
		if unknown++; unknown > maxNoted {
			return
		}
		o.Ignored(path)
	}
}

// Fail notes the first error of the body.
func (o *Object) Fail(err *llm.Error) {
	if o.notes.err == nil {
		o.notes.err = err
	}
}

// FailAt fails with CodeInvalid, naming the field at fault.
func (o *Object) FailAt(path, format string, args ...any) {
	err := llm.Errorf(llm.CodeInvalid, format, args...)
	err.Param = path
	o.Fail(err)
}

func (o *Object) wrongType(path, want, got string) { o.Fail(o.notes.words(path, want, got)) }

// WrongType fails in the dialect's words: the field should have been want.
func (o *Object) WrongType(name, want string) {
	o.wrongType(o.Path(name), want, kindOf(o.fields[name]))
}

// Err is the first error found in the body, nil when there was none.
func (o *Object) Err() error {
	if o.notes.err == nil {
		return nil
	}
	return o.notes.err
}

// Notes are the fields that were not honoured and those that were cut to a limit, by path, in the order they were met.
func (o *Object) Notes() (ignored, clamped []string) { return o.notes.ignored, o.notes.clamped }

// Kind names a JSON value's type: string, number, boolean, array, object or null.
func Kind(raw json.RawMessage) string { return kindOf(raw) }

func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "null"
	}
	switch raw[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// Names lists an object's fields in the order they were written.
func (o *Object) Names() []string { return o.order }
