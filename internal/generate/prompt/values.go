package prompt

import (
	"cmp"

	"signalbox/backend/llm"
	"signalbox/internal/generate/prompt/jinja"
)

// messageValue is m as templates expect it: OpenAI's shape, but with the arguments of tool calls as objects, unless they are to
// be quoted.
func messageValue(m llm.Message, mark func(string) string, quoted bool) (*jinja.Dict, error) {
	v := jinja.NewDict("role", mark(m.Role), "content", mark(m.Content))
	if m.Thinking != "" {
		v.Set("reasoning_content", mark(m.Thinking)) // Qwen, DeepSeek, GLM
		v.Set("thinking", mark(m.Thinking))          // gpt-oss
	}
	if m.ToolCallID != "" {
		v.Set("tool_call_id", mark(m.ToolCallID))
	}
	if m.ToolName != "" {
		v.Set("name", mark(m.ToolName))
	}
	if len(m.ToolCalls) == 0 {
		return v, nil
	}
	calls := jinja.NewList()
	for _, c := range m.ToolCalls {
		call, err := callValue(c, mark, quoted)
		if err != nil {
			return nil, err
		}
		calls.Items = append(calls.Items, call)
	}
	v.Set("tool_calls", calls)
	return v, nil
}

func callValue(c llm.ToolCall, mark func(string) string, quoted bool) (*jinja.Dict, error) {
	arguments := any(jinja.NewDict())
	if len(c.Arguments) > 0 {
		var err error
		if arguments, err = jinja.FromJSON(c.Arguments, mark); err != nil {
			return nil, llm.Errorf(llm.CodeInvalid, "read the arguments of tool call %q: %w", c.Name, err)
		}
	}
	if quoted {
		arguments = mark(cmp.Or(string(c.Arguments), "{}"))
	}
	call := jinja.NewDict()
	if c.ID != "" {
		call.Set("id", mark(c.ID))
	}
	call.Set("type", "function")
	call.Set("function", jinja.NewDict("name", mark(c.Name), "arguments", arguments))
	return call, nil
}
