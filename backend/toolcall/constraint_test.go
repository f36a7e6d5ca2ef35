package toolcall_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/toolcall"
	"signalbox/internal/generate/constrain"
	"signalbox/internal/testenv"
)

// holder compiles constraints over a vocabulary of bytes: token 0 ends an answer, a byte b is token b+1.
func holder(t *testing.T) *constrain.Compiler {
	v := constrain.Vocabulary{Text: [][]byte{nil}, Names: [][]byte{[]byte("<end>")}, Ends: []int32{0}}
	for b := range 256 {
		v.Text, v.Names = append(v.Text, []byte{byte(b)}), append(v.Names, []byte{byte(b)})
	}
	c := constrain.New(testenv.Runtime(t), v, constrain.Options{})
	t.Cleanup(c.Close)
	return c
}

// allows tells whether text is a whole answer under a constraint.
func allows(t *testing.T, c *constrain.Compiler, want *llm.Constraint, text string) bool {
	require.NotNil(t, want)
	m, err := c.Compile(context.Background(), want, nil)
	require.NoError(t, err, "%s", want.Structural)
	defer m.Close()
	may := func(id int32) bool {
		mask, err := m.Mask()
		require.NoError(t, err)
		return mask == nil || mask[id/32]>>(id%32)&1 == 1
	}
	for i := range len(text) {
		id := int32(text[i]) + 1
		if m.Done() || !may(id) {
			t.Logf("stopped at %q", text[i:])
			return false
		}
		require.NoError(t, m.Accept(id))
	}
	return m.Done() || may(0)
}

func no() *bool { b := false; return &b }

// written is one call in each family's own way, as a grammar has it.
var written = map[string]string{
	"generic":       "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"x\"}}\n</tool_call>",
	"hermes":        "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"x\"}}\n</tool_call>",
	"qwen3-coder":   "<tool_call>\n<function=read_file>\n<parameter=path>x</parameter>\n</function>\n</tool_call>",
	"glm":           "<tool_call>read_file\n<arg_key>path</arg_key><arg_value>x</arg_value></tool_call>",
	"llama":         `{"name": "read_file", "parameters": {"path": "x"}}`,
	"pipe":          `<|tool_call|>[{"name": "read_file", "arguments": {"path": "x"}}]`,
	"mistral":       `[TOOL_CALLS][{"name": "read_file", "arguments": {"path": "x"}}]`,
	"deepseek":      `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{"path": "x"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
	"kimi":          `<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:3<|tool_call_argument_begin|>{"path": "x"}<|tool_call_end|><|tool_calls_section_end|>`,
	"lfm":           `<|tool_call_start|>[{"name": "read_file", "arguments": {"path": "x"}}]<|tool_call_end|>`,
	"tool_code":     "```tool_code\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"x\"}}\n```",
	"gemma":         `<|tool_call>call:read_file{path:<|"|>x<|"|>}<tool_call|>`,
	"functiongemma": `<start_function_call>{"name": "read_file", "arguments": {"path": "x"}}<end_function_call>`,
	"harmony":       `<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{"path": "x"}`,
}

var strictTools = json.RawMessage(`[{"type":"function","function":{"name":"read_file","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}}},
	{"type":"function","function":{"name":"now"}}]`)

func TestRequiredCallsAreHeldInEachFamilysNotation(t *testing.T) {
	c := holder(t)
	for family, text := range written {
		t.Run(family, func(t *testing.T) {
			style := toolcall.Detect(templates[family])
			require.Equal(t, heard{Calls: []string{`read_file {"path":"x"}`}}, everyCut(t, style, toolcall.Options{Tools: tools}, text), "the parser reads it")

			for _, mode := range []string{"required", "named"} {
				want, err := style.Constraint(toolcall.Demand{Tools: strictTools, Choice: llm.ToolChoice{Mode: mode, Name: "read_file", Parallel: no(), Strict: true}, Thinking: no()})
				require.NoError(t, err)
				assert.True(t, allows(t, c, want, text), mode)
				assert.False(t, allows(t, c, want, "I'd rather not."), mode)
				assert.False(t, allows(t, c, want, text+text), "two calls where one was asked for")
				assert.False(t, allows(t, c, want, text+" And"), "words behind it")
			}
			named, err := style.Constraint(toolcall.Demand{Tools: strictTools, Choice: llm.ToolChoice{Mode: "named", Name: "now"}, Thinking: no()})
			require.NoError(t, err)
			assert.False(t, allows(t, c, named, text), "another tool")
		})
	}
}

func TestSeveralRequiredCallsAreAskedFor(t *testing.T) {
	c := holder(t)
	on := true
	style := toolcall.Detect(templates["hermes"])
	demand := toolcall.Demand{Tools: strictTools, Choice: llm.ToolChoice{Mode: "required"}, Thinking: no()}
	two := written["hermes"] + "\n" + written["hermes"]
	want, err := style.Constraint(demand)
	require.NoError(t, err)
	assert.False(t, allows(t, c, want, two))
	demand.Choice.Parallel = &on
	want, err = style.Constraint(demand)
	require.NoError(t, err)
	assert.True(t, allows(t, c, want, two))
}

func TestThoughtsMayComeBeforeARequiredCall(t *testing.T) {
	c := holder(t)
	style := toolcall.Detect(templates["hermes"])
	demand := toolcall.Demand{Tools: strictTools, Choice: llm.ToolChoice{Mode: "required"}}
	want, err := style.Constraint(demand)
	require.NoError(t, err)
	assert.True(t, allows(t, c, want, written["hermes"]))
	assert.True(t, allows(t, c, want, "<think>\nHm.\n</think>\n\n"+written["hermes"]))
	assert.False(t, allows(t, c, want, "<think>\nHm.\n</think>\n\nNo."))
	assert.False(t, allows(t, c, want, "<think>\nHm."))

	demand.Prompt = "<think>\n"
	want, err = style.Constraint(demand)
	require.NoError(t, err)
	assert.True(t, allows(t, c, want, "Hm.\n</think>\n\n"+written["hermes"]))

	harmony := toolcall.Detect(templates["harmony"])
	want, err = harmony.Constraint(toolcall.Demand{Tools: strictTools, Choice: llm.ToolChoice{Mode: "required"}})
	require.NoError(t, err)
	assert.True(t, allows(t, c, want, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"+written["harmony"]))
	assert.False(t, allows(t, c, want, "<|channel|>final<|message|>No."))
}

func TestStrictArgumentsAreHeldWhereCallsAreFree(t *testing.T) {
	c := holder(t)
	for _, family := range []string{"hermes", "mistral", "harmony", "qwen3-coder", "llama"} {
		style := toolcall.Detect(templates[family])
		want, err := style.Constraint(toolcall.Demand{Tools: strictTools, Choice: llm.ToolChoice{Strict: true}, Thinking: no()})
		require.NoError(t, err)
		text := "No."
		if family == "harmony" {
			text = "<|channel|>final<|message|>No."
		}
		assert.True(t, allows(t, c, want, text), family)
		assert.True(t, allows(t, c, want, written[family]), family)
	}
	style := toolcall.Detect(templates["hermes"])
	want, err := style.Constraint(toolcall.Demand{Tools: strictTools, Choice: llm.ToolChoice{Strict: true}, Thinking: no()})
	require.NoError(t, err)
	assert.True(t, allows(t, c, want, "Two. "+written["hermes"]+"\n"+written["hermes"]))
	assert.False(t, allows(t, c, want, "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"file\": \"x\"}}\n</tool_call>"))
}

// TestAModelThatKnowsNoToolsIsHeldToTheGenericForm: it may answer in words, but a call that it begins is one.
func TestAModelThatKnowsNoToolsIsHeldToTheGenericForm(t *testing.T) {
	c := holder(t)
	style := toolcall.Detect(templates["generic"])
	assert.Equal(t, []string{"tools"}, style.Capabilities())
	assert.Equal(t, "generic format held by a grammar", style.Format())
	want, err := style.Constraint(toolcall.Demand{Tools: tools})
	require.NoError(t, err)
	for text, allowed := range map[string]bool{
		"Hello.":           true,
		"{\"answer\": 42}": true,
		written["generic"]: true,
		"I'll look. " + written["generic"] + "\n" + written["generic"]:                            true,
		"<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>":                        false,
		"<tool_call>\n{\"name\": \"now\"}\n</tool_call>":                                          false,
		"<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"lines\": \"x\"}}\n</tool_call>": false,
		"<tool_call>now()</tool_call>":                                                            false,
	} {
		assert.Equal(t, allowed, allows(t, c, want, text), text)
	}
	want, err = style.Constraint(toolcall.Demand{Tools: tools, Choice: llm.ToolChoice{Mode: "none"}})
	require.NoError(t, err)
	assert.Nil(t, want)
}

func TestAFormatHoldsForAnswersThatAreNoCalls(t *testing.T) {
	c := holder(t)
	style := toolcall.Detect(templates["hermes"])
	format := &llm.Constraint{Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)}
	want, err := style.Constraint(toolcall.Demand{Tools: strictTools, Format: format, Thinking: no()})
	require.NoError(t, err)
	assert.True(t, allows(t, c, want, `{"a": 1}`))
	assert.True(t, allows(t, c, want, written["hermes"]))
	assert.False(t, allows(t, c, want, "Hello"))

	want, err = style.Constraint(toolcall.Demand{Format: format})
	require.NoError(t, err)
	assert.True(t, allows(t, c, want, `{"a": 1}`))
	assert.True(t, allows(t, c, want, "<think>Hm.</think>\n\n{\"a\": 1}"))

	want, err = style.Constraint(toolcall.Demand{Format: format, Prompt: "<think>\n"})
	require.NoError(t, err)
	assert.Equal(t, "</think>", want.After)

	want, err = toolcall.Detect(templates["llama"]).Constraint(toolcall.Demand{Format: format})
	require.NoError(t, err)
	assert.Same(t, format, want, "where nothing is thought and called, it is what it was")

	want, err = toolcall.Detect(templates["harmony"]).Constraint(toolcall.Demand{Format: format})
	require.NoError(t, err)
	assert.True(t, allows(t, c, want, `<|channel|>final<|message|>{"a": 1}`))
}

func TestSchemasOfToolsThatNoGrammarHoldsAreRelaxed(t *testing.T) {
	c := holder(t)
	odd := json.RawMessage(`[{"type":"function","function":{"name":"read_file","parameters":{"$schema":"x","type":"object","properties":{
		"path":{"type":"string","minLength":1,"format":"uri","description":"d","not":{"const":"y"}},
		"list":{"type":"array","items":{"oneOf":[{"type":"string"},{"type":"integer","multipleOf":7}]},"uniqueItems":true}},"required":["path"],"dependentRequired":{"list":["path"]}}}}]`)
	style := toolcall.Detect(templates["hermes"])
	want, err := style.Constraint(toolcall.Demand{Tools: odd, Choice: llm.ToolChoice{Mode: "required"}, Thinking: no()})
	require.NoError(t, err)
	assert.True(t, allows(t, c, want, "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"x\", \"list\": [1, \"a\"]}}\n</tool_call>"))
}

func TestDemandsThatCannotBeAreRefused(t *testing.T) {
	style := toolcall.Detect(templates["hermes"])
	for name, d := range map[string]toolcall.Demand{
		"required without tools":   {Choice: llm.ToolChoice{Mode: "required"}},
		"a tool that is not there": {Tools: tools, Choice: llm.ToolChoice{Mode: "named", Name: "nope"}},
		"tools that are no list":   {Tools: json.RawMessage(`{}`), Choice: llm.ToolChoice{Mode: "required"}},
	} {
		_, err := style.Constraint(d)
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), name)
	}
	for _, choice := range []llm.ToolChoice{{}, {Mode: "auto"}, {Mode: "none"}} {
		want, err := style.Constraint(toolcall.Demand{Tools: tools, Choice: choice})
		require.NoError(t, err)
		assert.Nil(t, want)
	}
}
