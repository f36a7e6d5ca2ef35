package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

func TestPartsComeOneAfterTheOther(t *testing.T) {
	var p wire.Parts
	var steps []wire.Step
	for _, d := range []llm.Delta{
		{Thinking: "a"}, {Thinking: "b", Text: "c"}, {}, {Text: "d"},
		{ToolCalls: []llm.ToolCallDelta{{Index: 0, ID: "x", Name: "f", Arguments: "{"}, {Index: 0, Arguments: "}", Done: true}}},
		{ToolCalls: []llm.ToolCallDelta{{Index: 0, Arguments: "late"}}},
		{ToolCalls: []llm.ToolCallDelta{{Index: 1, ID: "y", Name: "g"}, {Index: 2, ID: "z", Name: "h", Arguments: `{"a`}}},
		{Text: "e"},
	} {
		steps = append(steps, p.Add(d)...)
	}
	steps = append(steps, p.End()...)
	assert.Empty(t, p.End(), "once")
	var what []string
	for _, s := range steps {
		what = append(what, string(rune('0'+s.Index))+s.What+s.Piece)
	}
	assert.Equal(t, []string{
		"0open", "0morea", "0moreb", "0close", "1open", "1morec", "1mored", "1close", "2open", "2more{", "2more}", "2close",
		"3open", "3close", "4open", `4more{"a`, "4close", "5open", "5moree", "5close",
	}, what)
	assert.Equal(t, "cde", p.Join(wire.Text))
	assert.Equal(t, "ab", p.Join(wire.Thinking))
	calls := p.Calls()
	assert.Len(t, calls, 3)
	assert.Equal(t, 2, calls[2].Nth)
	for i, want := range []bool{true, true, false} {
		_, whole := calls[i].Arguments()
		assert.Equal(t, want, whole, "call %d", i)
	}
}

func TestSystemMessagesInFrontBecomeOne(t *testing.T) {
	m := func(role, text string) llm.Message { return llm.Message{Role: role, Content: text} }
	assert.Equal(t, []llm.Message{m("system", "a\n\nb"), m("user", "c"), m("system", "d")},
		wire.MergeSystem([]llm.Message{m("system", "a"), m("system", ""), m("system", "b"), m("user", "c"), m("system", "d")}))
	assert.Equal(t, []llm.Message{m("user", "c")}, wire.MergeSystem([]llm.Message{m("user", "c")}))
	assert.Empty(t, wire.MergeSystem(nil))
}

func TestToolResultsGetTheirCallsName(t *testing.T) {
	list := []llm.Message{
		{Role: "assistant", ToolCalls: []llm.ToolCall{{ID: "1", Name: "f"}, {ID: "2", Name: "g"}}},
		{Role: "tool", ToolCallID: "2"}, {Role: "tool", ToolCallID: "1"},
		{Role: "assistant", ToolCalls: []llm.ToolCall{{Name: "h"}, {Name: "i"}}},
		{Role: "tool"}, {Role: "tool"}, {Role: "tool"}, {Role: "tool", ToolName: "own"},
	}
	wire.NameToolResults(list)
	var names []string
	for _, m := range list {
		if m.Role == "tool" {
			names = append(names, m.ToolName)
		}
	}
	assert.Equal(t, []string{"g", "f", "h", "i", "", "own"}, names)
}

func TestArgumentsAreAlwaysAnObject(t *testing.T) {
	for text, want := range map[string]string{
		"": "{}", ` {"b":1,"a":2} `: `{"b":1,"a":2}`, "{broken": `{"arguments":"{broken"}`, `"x"`: `{"arguments":"\"x\""}`, "[1]": `{"arguments":"[1]"}`,
	} {
		assert.Equal(t, want, string(wire.CallArguments(text)))
	}
}
