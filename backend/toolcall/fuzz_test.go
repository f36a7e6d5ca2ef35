package toolcall_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"signalbox/backend/llm"
	"signalbox/backend/toolcall"
)

// FuzzConversations: any template with any messages and tools gives messages that can be rendered, and JSON where JSON is due.
func FuzzConversations(f *testing.F) {
	history := `[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"id":"a","name":"now","arguments":{"x":1}},{"id":"b","name":"now"}]},{"role":"tool","content":"r","tool_call_id":"b"},{"role":"tool","content":"r"}]`
	for _, template := range templates {
		f.Add(template, history, string(tools), "named", "now")
		f.Add(template+" only supports single tool-calls with length 9", history, `[{}]`, "required", "")
		f.Add(template+" System role not supported message['tools']", `[]`, `{"a":`, "auto", "")
	}
	f.Fuzz(func(t *testing.T, template, conversation, list, mode, name string) {
		var messages []llm.Message
		if json.Unmarshal([]byte(conversation), &messages) != nil || len(messages) > 50 {
			t.Skip()
		}
		var offered json.RawMessage
		if json.Valid([]byte(list)) {
			offered = json.RawMessage(list)
		}
		style := toolcall.Detect(template)
		out, rendered := style.Conversation(messages, offered)
		if len(rendered) > 0 {
			assert.True(t, json.Valid(rendered))
		}
		for _, m := range out {
			for _, c := range m.ToolCalls {
				assert.True(t, len(c.Arguments) == 0 || json.Valid(c.Arguments))
			}
		}
		want, err := style.Constraint(toolcall.Demand{Tools: offered, Choice: llm.ToolChoice{Mode: mode, Name: name}, Prompt: template})
		switch {
		case err != nil:
			assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
		case want != nil:
			assert.True(t, json.Valid(want.Structural), "%s", want.Structural)
		}
	})
}
