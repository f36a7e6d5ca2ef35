package llmtest_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
	"signalbox/backend/toolcall"
)

var tools = json.RawMessage(`[{"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}]`)

// answer is what the fake answers to a conversation, put to it in the style of a template.
func answer(t *testing.T, template string, tools json.RawMessage, demand *toolcall.Demand, messages ...llm.Message) (text string, calls []llm.ToolCall) {
	t.Helper()
	fake := llmtest.NewFake(llmtest.Options{})
	defer fake.Close()
	model := llm.ModelRef{Name: "m"}
	_, err := fake.Load(t.Context(), llm.LoadRequest{Model: model}, nil)
	require.NoError(t, err)
	style := toolcall.Detect(template)
	req := llm.PrepareRequest{Model: model}
	req.Messages, req.Tools = style.Conversation(messages, tools)
	prompt, err := fake.Prepare(t.Context(), req)
	require.NoError(t, err)
	generate := llm.GenerateRequest{Model: model, Tokens: prompt.Tokens, Markers: style.Markers(tools != nil)}
	if demand != nil {
		generate.Constraint, err = style.Constraint(*demand)
		require.NoError(t, err)
	}
	parser := style.Parser(toolcall.Options{Tools: tools, Prompt: prompt.Tail})
	var deltas []llm.Delta
	_, err = fake.Generate(t.Context(), generate, func(d llm.Delta) error {
		deltas = append(deltas, parser.Push(d.Text)...)
		return nil
	})
	require.NoError(t, err)
	for _, d := range append(deltas, parser.Finish()...) {
		text += d.Text
		for _, c := range d.ToolCalls {
			if c.ID != "" {
				calls = append(calls, llm.ToolCall{ID: c.ID, Name: c.Name})
			}
			calls[c.Index].Arguments = append(calls[c.Index].Arguments, c.Arguments...)
		}
	}
	return text, calls
}

var kinds = map[string]string{
	"no tools in the template": "chatml",
	"qwen":                     "{{ tools }} tool_calls <tool_call>",
	"mistral":                  "{{ tools }} tool_calls [TOOL_CALLS]",
	"llama":                    `{{ tools }} tool_calls "parameters": `,
	"gpt-oss":                  "{{ tools }} tool_calls <|channel|><|message|>",
}

func TestToolLoopCallsOnceAndThenAnswers(t *testing.T) {
	for name, template := range kinds {
		t.Run(name, func(t *testing.T) {
			talk := []llm.Message{{Role: "system", Content: "Help."}, {Role: "user", Content: `[[tool read {"path":"a]]b"} read {"path":"c"}]] [[tool read {"path":"d"}]] [[say All read.]]`}}
			var made []string
			for range 5 {
				text, calls := answer(t, template, tools, nil, talk...)
				if len(calls) == 0 {
					assert.Equal(t, "All read.", text)
					break
				}
				assert.Empty(t, text)
				talk = append(talk, llm.Message{Role: "assistant", ToolCalls: calls})
				for _, c := range calls {
					made = append(made, string(c.Arguments))
					talk = append(talk, llm.Message{Role: "tool", ToolCallID: c.ID, Content: "[[error]] is what the file says"})
				}
			}
			assert.Equal(t, []string{`{"path":"a]]b"}`, `{"path":"c"}`, `{"path":"d"}`}, made)
		})
	}
}

func TestNoToolsNoCalls(t *testing.T) {
	text, calls := answer(t, kinds["qwen"], nil, nil, llm.Message{Role: "user", Content: `Title for: [[tool read {"path":"a"}]]`})
	assert.Equal(t, llmtest.Canned, text)
	assert.Empty(t, calls)
}

func TestConstraintsAreHeld(t *testing.T) {
	for name, template := range kinds {
		_, calls := answer(t, template, tools, &toolcall.Demand{Tools: tools, Choice: llm.ToolChoice{Mode: "required"}}, llm.Message{Role: "user", Content: "hi"})
		require.Len(t, calls, 1, name)
		assert.Equal(t, `{"path":"text"}`, string(calls[0].Arguments), name)
	}
	schema := &llm.Constraint{Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"e":{"enum":["x"]},"l":{"type":"array","items":{"type":"boolean"},"minItems":1}},"required":["n","e","l"]}`)}
	text, _ := answer(t, "chatml", nil, &toolcall.Demand{Format: schema}, llm.Message{Role: "user", Content: "hi"})
	assert.JSONEq(t, `{"n":1,"e":"x","l":[true]}`, text)
	text, _ = answer(t, "chatml", nil, &toolcall.Demand{Format: schema}, llm.Message{Role: "user", Content: "[[say as I like]]"})
	assert.Equal(t, "as I like", text)
}
