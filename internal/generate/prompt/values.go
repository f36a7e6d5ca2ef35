package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/ardanlabs/jinja"

	"signalbox/backend/llm"
)

// maxDepth bounds the nesting of tools and arguments: templates walk them recursively.
const maxDepth = 200

// fromJSONValue reads one JSON value, keys in the order they were written and integers as integers: both reach the model
// through tojson. Every string goes through mark.
func fromJSONValue(raw json.RawMessage, mark func(string) string) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := nextValue(d, mark, 0)
	if err == nil && d.More() {
		err = fmt.Errorf("more than one JSON value")
	}
	return v, err
}

func nextValue(d *json.Decoder, mark func(string) string, depth int) (jinja.Value, error) {
	token, err := d.Token()
	if err != nil {
		return jinja.None(), err
	}
	if depth > maxDepth {
		return jinja.None(), fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return nextList(d, mark, depth)
		}
		return nextDict(d, mark, depth)
	case string:
		return jinja.NewString(mark(t)), nil
	}
	return jinja.FromGoValue(token), nil
}

func nextList(d *json.Decoder, mark func(string) string, depth int) (jinja.Value, error) {
	var items []jinja.Value
	for d.More() {
		item, err := nextValue(d, mark, depth+1)
		if err != nil {
			return item, err
		}
		items = append(items, item)
	}
	_, err := d.Token()
	return jinja.NewList(items), err
}

func nextDict(d *json.Decoder, mark func(string) string, depth int) (jinja.Value, error) {
	dict := jinja.NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return dict, err
		}
		value, err := nextValue(d, mark, depth+1)
		if err != nil {
			return dict, err
		}
		dict.AsDict().Set(mark(key.(string)), value)
	}
	_, err := d.Token()
	return dict, err
}

// messageValue is m as templates expect it: OpenAI's shape, with arguments as an object.
func messageValue(m llm.Message, mark func(string) string) (jinja.Value, error) {
	v := jinja.NewDict()
	set := func(key, text string) { v.AsDict().Set(key, jinja.NewString(mark(text))) }
	set("role", m.Role)
	set("content", m.Content)
	if m.Thinking != "" {
		set("reasoning_content", m.Thinking) // Qwen, DeepSeek, GLM
		set("thinking", m.Thinking)          // gpt-oss
	}
	if m.ToolCallID != "" {
		set("tool_call_id", m.ToolCallID)
	}
	if m.ToolName != "" {
		set("name", m.ToolName)
	}
	if len(m.ToolCalls) == 0 {
		return v, nil
	}
	var calls []jinja.Value
	for _, c := range m.ToolCalls {
		call, err := callValue(c, mark)
		if err != nil {
			return v, err
		}
		calls = append(calls, call)
	}
	v.AsDict().Set("tool_calls", jinja.NewList(calls))
	return v, nil
}

func callValue(c llm.ToolCall, mark func(string) string) (jinja.Value, error) {
	arguments := jinja.NewDict()
	if len(c.Arguments) > 0 {
		var err error
		if arguments, err = fromJSONValue(c.Arguments, mark); err != nil {
			return arguments, llm.Errorf(llm.CodeInvalid, "read the arguments of tool call %q: %w", c.Name, err)
		}
	}
	function, call := jinja.NewDict(), jinja.NewDict()
	function.AsDict().Set("name", jinja.NewString(mark(c.Name)))
	function.AsDict().Set("arguments", arguments)
	if c.ID != "" {
		call.AsDict().Set("id", jinja.NewString(mark(c.ID)))
	}
	call.AsDict().Set("type", jinja.NewString("function"))
	call.AsDict().Set("function", function)
	return call, nil
}
