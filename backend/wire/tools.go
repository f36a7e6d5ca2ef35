package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"signalbox/backend/llm"
)

// maxTools bounds the tools of one request.
const maxTools = 1024

// Tools are the functions that a request offers.
type Tools struct {
	List   []json.RawMessage // in OpenAI's shape, keys in the caller's order
	Names  []string
	Strict bool // one of them wants its arguments to match its schema
}

// JSON is the list as llm.Request has it; nil without tools.
func (t Tools) JSON() json.RawMessage {
	if len(t.List) == 0 {
		return nil
	}
	return slices.Concat([]byte{'['}, bytes.Join(rawBytes(t.List), []byte{','}), []byte{']'})
}

func rawBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, raw := range list {
		out[i] = raw
	}
	return out
}

// Tool is one function, whatever shape it came in.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

// Add puts a tool of another shape into OpenAI's.
func (t *Tools) Add(tool Tool) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// The parameters come from a decoded body and the rest are strings: this cannot fail.
	_ = enc.Encode(struct {
		Type     string `json:"type"`
		Function Tool   `json:"function"`
	}{"function", tool})
	t.add(bytes.TrimSpace(b.Bytes()), tool.Name, tool.Strict)
}

func (t *Tools) add(raw json.RawMessage, name string, strict bool) {
	t.List, t.Names, t.Strict = append(t.List, raw), append(t.Names, name), t.Strict || strict
}

// EachTool takes a list of tools and calls yield with each.
func (o *Object) EachTool(name string, yield func(*Object)) {
	for _, tool := range o.objects(name, maxTools) {
		yield(tool)
	}
}

// Functions takes a list of tools in OpenAI's shape. A tool of another type than function is left out and noted by its type:
// agents send types that only their makers' servers know, and end when they are refused.
func (o *Object) Functions(name string) Tools {
	var tools Tools
	raw := o.Array(name)
	i := -1
	o.EachTool(name, func(tool *Object) {
		i++
		if kind := tool.Text("type"); kind != "function" && (kind != "" || !tool.Has("function")) {
			tool.IgnoredType(kind)
			return
		}
		f := tool.Object("function")
		if f == nil {
			tool.FailAt(tool.Path("function"), "%s is required", tool.Path("function"))
			return
		}
		tools.add(raw[i], f.RequiredText("name"), f.True("strict"))
		f.Schema("parameters")
	})
	return tools
}

// Schema takes a JSON Schema, which must be an object; nil when it is absent.
func (o *Object) Schema(name string) json.RawMessage {
	raw := o.Raw(name)
	if raw != nil && kindOf(raw) != "object" {
		o.WrongType(name, "object")
		return nil
	}
	return raw
}

// RequiredText takes a string that must be there.
func (o *Object) RequiredText(name string) string {
	text := o.Text(name)
	if text == "" {
		o.FailAt(o.Path(name), "%s is required", o.Path(name))
	}
	return text
}

// IgnoredType notes o as not honoured because of its type.
func (o *Object) IgnoredType(kind string) {
	if kind != "" && safeName.MatchString(kind) {
		o.Ignored(fmt.Sprintf("%s (%s)", o.path, kind))
		return
	}
	o.Ignored(o.path)
}

// ToolChoice takes whether tools may or must be called: none, auto, required, or an object that names one.
func (o *Object) ToolChoice(name string, tools Tools) llm.ToolChoice {
	raw := o.Raw(name)
	choice := llm.ToolChoice{Strict: tools.Strict}
	switch kindOf(raw) {
	case "null":
	case "string":
		choice.Mode = o.Text(name)
	case "object":
		choice.Mode, choice.Name = o.Object(name).choice()
	default:
		o.WrongType(name, "string or object")
	}
	switch choice.Mode {
	case "", "auto", "none":
	case "any", "required":
		choice.Mode = "required"
		if len(tools.Names) == 0 {
			o.FailAt(o.Path(name), "%s asks for a tool, but there are no tools", o.Path(name))
		}
	case "named":
		if !slices.Contains(tools.Names, choice.Name) {
			o.FailAt(o.Path(name), "%s names the tool %q, which is not in tools", o.Path(name), Short(choice.Name))
		}
	default:
		o.FailAt(o.Path(name), "%s must be none, auto, required, or an object that names a tool of the request", o.Path(name))
	}
	return choice
}

// choice reads the objects of all dialects.
func (o *Object) choice() (mode, name string) {
	switch kind := o.Text("type"); kind {
	case "function", "tool":
		if f := o.Object("function"); f != nil {
			return "named", f.RequiredText("name")
		}
		return "named", o.RequiredText("name")
	case "allowed_tools": // which ones is not honoured, whether is
		inner := o
		if nested := o.Object("allowed_tools"); nested != nil {
			inner = nested
		}
		inner.Ignore("tools")
		return inner.Text("mode"), ""
	default:
		return kind, ""
	}
}

// Effort reads how hard a model should think, in the words of all dialects. ok is false for any other word.
func Effort(word string) (think *llm.Think, ok bool) {
	switch word {
	case "":
		return nil, true
	case "none":
		return &llm.Think{}, true
	case "minimal":
		return &llm.Think{Enabled: true, Effort: "low"}, true
	case "low", "medium", "high", "max":
		return &llm.Think{Enabled: true, Effort: word}, true
	case "xhigh":
		return &llm.Think{Enabled: true, Effort: "max"}, true
	}
	return nil, false
}

// Short is text from outside, fit to be repeated in an error.
func Short(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%.*s...", most, s)
	}
	return s
}
