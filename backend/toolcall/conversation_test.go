package toolcall_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"signalbox/backend/llm"
	"signalbox/backend/toolcall"
)

func calls(list ...string) []llm.ToolCall {
	var out []llm.ToolCall
	for i := 0; i < len(list); i += 3 {
		out = append(out, llm.ToolCall{ID: list[i], Name: list[i+1], Arguments: json.RawMessage(list[i+2])})
	}
	return out
}

var talk = []llm.Message{
	{Role: "system", Content: "Be kind."},
	{Role: "user", Content: "What time is it?"},
	{Role: "assistant", Content: "Let me see.", Thinking: "Hm.", ToolCalls: calls("call_a", "now", `{}`, "call_b", "read_file", `{"path":"x"}`)},
	{Role: "tool", Content: "B", ToolCallID: "call_b"},
	{Role: "tool", Content: "A", ToolCallID: "call_a"},
}

func TestResultsGetTheNamesOfTheirTools(t *testing.T) {
	got, tools := toolcall.Detect(templates["hermes"]).Conversation(talk, tools)
	assert.NotNil(t, tools)
	assert.Equal(t, []string{"read_file", "now"}, []string{got[3].ToolName, got[4].ToolName})
	assert.Empty(t, talk[3].ToolName, "the caller's messages stay")

	old := []llm.Message{{Role: "assistant", ToolCalls: calls("", "now", `{}`, "", "f", `{}`)}, {Role: "tool", Content: "1"}, {Role: "tool", Content: "2"}}
	got, _ = toolcall.Detect(templates["hermes"]).Conversation(old, nil)
	assert.Equal(t, []string{"now", "f"}, []string{got[1].ToolName, got[2].ToolName}, "without ids, in their order")
}

func TestCallsOneByOneWhereTheTemplateWantsThat(t *testing.T) {
	style := toolcall.Detect(templates["llama"] + "This model only supports single tool-calls at once!")
	got, _ := style.Conversation(talk, tools)
	assert.Equal(t, []llm.Message{
		talk[0], talk[1],
		{Role: "assistant", Content: "Let me see.", Thinking: "Hm.", ToolCalls: calls("call_a", "now", `{}`)},
		{Role: "tool", Content: "A", ToolCallID: "call_a", ToolName: "now"},
		{Role: "assistant", ToolCalls: calls("call_b", "read_file", `{"path":"x"}`)},
		{Role: "tool", Content: "B", ToolCallID: "call_b", ToolName: "read_file"},
	}, got)
}

func TestModelsWithoutToolsAreToldHow(t *testing.T) {
	got, native := toolcall.Detect(templates["generic"]).Conversation(talk, tools)
	assert.Nil(t, native, "the template does not see them")
	assert.Len(t, got, 4)
	assert.Contains(t, got[0].Content, "Be kind.\n\n# Tools")
	assert.Contains(t, got[0].Content, `"name":"read_file"`)
	assert.Equal(t, "Let me see.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\":\"x\"}}\n</tool_call>", got[2].Content)
	assert.Equal(t, llm.Message{Role: "user", Content: "<tool_response>\nB\n</tool_response>\n<tool_response>\nA\n</tool_response>"}, got[3])

	got, _ = toolcall.Detect(templates["generic"]).Conversation(talk[1:2], tools)
	assert.Equal(t, "system", got[0].Role)

	got, _ = toolcall.Detect("System role not supported").Conversation(talk[1:2], tools)
	assert.Len(t, got, 1)
	assert.Regexp(t, `(?s)^# Tools.*\n\nWhat time is it\?$`, got[0].Content)
}

func TestConversationsWithoutToolsStayAsTheyAre(t *testing.T) {
	plain := []llm.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello", Thinking: "Hm"}, {Role: "user", Content: "Bye"}}
	for family, template := range templates {
		got, _ := toolcall.Detect(template).Conversation(plain, nil)
		assert.Equal(t, plain, got, family)
	}
}

func TestIDsOfNineLettersWhereTheTemplateWantsThem(t *testing.T) {
	got, _ := toolcall.Detect(templates["mistral"]+"Tool call IDs should be alphanumeric strings with length 9!").Conversation(talk, tools)
	assert.Regexp(t, `^[a-z0-9]{9}$`, got[3].ToolCallID)
	assert.Equal(t, got[2].ToolCalls[1].ID, got[3].ToolCallID)
}

func TestGptOssSeesThoughtOrText(t *testing.T) {
	got, _ := toolcall.Detect(templates["harmony"]).Conversation(talk, tools)
	assert.Equal(t, llm.Message{Role: "assistant", Thinking: "Hm.\n\nLet me see.", ToolCalls: calls("call_a", "now", `{}`)}, got[2])
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	want := heard{Calls: []string{`read_file {"path":"a \"b\"\n","lines":12,"deep":{"a":[1,"x",true,null]}}`, "now {}"}}
	for family, template := range templates {
		style := toolcall.Detect(template)
		text := style.Write(calls("", "read_file", `{"path":"a \"b\"\n","lines":12,"deep":{"a":[1,"x",true,null]}}`, "", "now", `{}`)...)
		assert.Equal(t, want, everyCut(t, style, toolcall.Options{Tools: tools}, text), "%s: %s", family, text)
		if style.Native() && family != "qwen3-coder" && family != "glm" { // both have hermes' markers, too
			assert.Equal(t, family, toolcall.Written(style.Markers(true)).Family())
		}
	}
}

func TestPhiHasItsToolsInTheSystemMessage(t *testing.T) {
	style := toolcall.Detect(`{% if message['role'] == 'system' and message['tools'] is not none %}<|tool|>{{ message['tools'] }}<|/tool|>`)
	assert.Equal(t, "pipe", style.Family())
	got, native := style.Conversation(talk[1:], tools)
	assert.Equal(t, tools, native)
	assert.Equal(t, "system", got[0].Role, "there is one, for the template to put them into")
	assert.Contains(t, got[2].Content, `<|tool_call|>[{"name": "now"`, "it knows no calls of earlier turns: they are text")
}

func TestKimiReadsNamesFromIDs(t *testing.T) {
	style := toolcall.Detect(templates["kimi"])
	sent := []llm.Message{
		{Role: "user", Content: "u"},
		{Role: "assistant", ToolCalls: []llm.ToolCall{{ID: "call_a", Name: "now"}, {ID: "call_b", Name: "read_file"}}},
		{Role: "tool", ToolCallID: "call_b", Content: "text"},
		{Role: "tool", ToolCallID: "call_a", Content: "noon"},
		{Role: "assistant", ToolCalls: []llm.ToolCall{{ID: "call_c", Name: "now"}}},
		{Role: "tool", Content: "one"},
	}
	got, _ := style.Conversation(sent, tools)
	var ids []string
	for _, m := range got {
		for _, c := range m.ToolCalls {
			ids = append(ids, c.ID)
		}
		if m.Role == "tool" {
			ids = append(ids, m.ToolCallID)
		}
	}
	assert.Equal(t, []string{"functions.now:0", "functions.read_file:1", "functions.read_file:1", "functions.now:0", "functions.now:2", "functions.now:2"}, ids)
	assert.Equal(t, "call_a", sent[1].ToolCalls[0].ID, "the caller's own stay")
}
