package toolcall_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/toolcall"
)

// templates have what a family is known by. They stand for the makers' own.
var templates = map[string]string{
	"generic":       `{{ messages }}`,
	"hermes":        `{% for t in tools %}{% endfor %}<tool_call> tool_calls {% if enable_thinking %}<think>`,
	"qwen3-coder":   `{{ tools }}<tool_call><function= <think>`,
	"glm":           `{{ tools }}<tool_call><arg_key>`,
	"llama":         `{{ tools }} Respond in the format {"name": x, "parameters": y} "parameters": tool_calls`,
	"pipe":          `{{ tools }}<|tool_call|>`,
	"mistral":       `{{ tools }}[TOOL_CALLS][ARGS][THINK] tool_calls`,
	"deepseek":      `{{ tools }}<｜tool▁calls▁begin｜><think>`,
	"kimi":          `{{ tools }}<|tool_call_begin|><|tool_call_argument_begin|> tool_calls`,
	"lfm":           `"List of tools: [" tools`,
	"tool_code":     "{{ tools }}```tool_code",
	"gemma":         `{{ tools }}<|tool_call>call:<|channel>thought enable_thinking`,
	"functiongemma": `{{ tools }}<start_function_call>`,
	"harmony":       `{{ tools }}<|channel|>analysis<|message|> tool_calls reasoning_effort`,
}

var tools = json.RawMessage(`[
	{"type":"function","function":{"name":"read_file","parameters":{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer"},"deep":{"type":"object"}}}}},
	{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}]`)

// heard is what an answer comes to.
type heard struct {
	Text, Thinking string
	Calls          []string // NAME ARGUMENTS
}

// listen joins deltas and checks what every client relies on.
func listen(t testing.TB, deltas []llm.Delta, told bool) heard {
	var h heard
	var names, arguments []string
	var done []bool
	ids := map[string]bool{}
	for _, d := range deltas {
		require.True(t, utf8.ValidString(d.Text+d.Thinking), "%+v", d)
		require.NotEqual(t, llm.Delta{}, d, "an empty piece")
		h.Text += d.Text
		h.Thinking += d.Thinking
		for _, c := range d.ToolCalls {
			require.True(t, utf8.ValidString(c.Arguments))
			if c.ID != "" {
				require.Equal(t, len(names), c.Index, "indices go up from 0")
				require.NotEmpty(t, c.Name)
				require.False(t, ids[c.ID], "ids differ")
				ids[c.ID] = true
				names, arguments, done = append(names, c.Name), append(arguments, ""), append(done, false)
			}
			require.Less(t, c.Index, len(names), "a piece before its call's first")
			require.False(t, done[c.Index], "nothing comes after the end")
			arguments[c.Index] += c.Arguments
			done[c.Index] = c.Done
		}
	}
	broken := false
	for i, name := range names {
		require.True(t, done[i], "call %d has no end", i)
		broken = broken || !isObject(arguments[i])
		h.Calls = append(h.Calls, name+" "+arguments[i])
	}
	require.Equal(t, broken, told, "%v", arguments)
	return h
}

func isObject(text string) bool {
	var v map[string]any
	return json.Unmarshal([]byte(text), &v) == nil && v != nil
}

func ids() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("call_%d", n) }
}

func parse(t testing.TB, style toolcall.Style, o toolcall.Options, pieces ...string) heard {
	o.ID = ids()
	p := style.Parser(o)
	var all []llm.Delta
	for _, piece := range pieces {
		all = append(all, p.Push(piece)...)
	}
	all = append(all, p.Finish()...)
	return listen(t, all, p.Broken())
}

// everyCut parses text whole, cut in two at each byte, and byte by byte: all must come to the same.
func everyCut(t testing.TB, style toolcall.Style, o toolcall.Options, text string) heard {
	whole := parse(t, style, o, text)
	for i := 1; i < len(text); i++ {
		require.Equal(t, whole, parse(t, style, o, text[:i], text[i:]), "cut at %d: %q | %q", i, text[:i], text[i:])
	}
	require.Equal(t, whole, parse(t, style, o, strings.Split(text, "")...), "character by character")
	bytes := make([]string, len(text))
	for i := range len(text) {
		bytes[i] = text[i : i+1]
	}
	require.Equal(t, whole, parse(t, style, o, bytes...), "byte by byte")
	return whole
}

type golden struct {
	name   string
	family string
	prompt string
	answer string
	want   heard
}

var goldens = []golden{
	{"plain text", "hermes", "", "Hello, wörld 🌍!\n", heard{Text: "Hello, wörld 🌍!\n"}},
	{"a call", "hermes", "", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"/tmp/漢字.txt\", \"lines\": 12}}\n</tool_call>",
		heard{Calls: []string{`read_file {"path":"/tmp/漢字.txt","lines":12}`}}},
	{"text, then two calls", "hermes", "", "I'll look.\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>\n",
		heard{Text: "I'll look.", Calls: []string{`now {}`, `read_file {"path":"a"}`}}},
	{"a thought first", "hermes", "", "<think>\nHm. <b>\n</think>\n\nYes.\n\nNo.", heard{Thinking: "Hm. <b>", Text: "Yes.\n\nNo."}},
	{"a thought that the prompt opened", "hermes", "<|im_start|>assistant\n<think>\n", "Hm.\n</think>\n\n<tool_call>{\"name\":\"now\"}</tool_call>",
		heard{Thinking: "Hm.", Calls: []string{"now {}"}}},
	{"a thought that the prompt closed", "hermes", "<think>\n\n</think>\n\n", "Yes.", heard{Text: "Yes."}},
	{"a call within a thought", "hermes", "<think>\n", "Let me see <tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>", heard{Thinking: "Let me see", Calls: []string{"now {}"}}},
	{"a thought without an end", "hermes", "<think>", "Hm, hm.", heard{Thinking: "Hm, hm."}},
	{"an unknown tool is a call", "hermes", "", `<tool_call>{"name":"nope","arguments":{"a":[1,{"b":null}]}}</tool_call>`, heard{Calls: []string{`nope {"a":[1,{"b":null}]}`}}},
	{"no JSON", "hermes", "", "<tool_call>oh, {well}</tool_call> then", heard{Text: "oh, {well} then"}},
	{"no arguments object", "hermes", "", `<tool_call>{"name":"now","arguments":[1]}</tool_call>`, heard{Text: `{"name":"now","arguments":[1]}`}},
	{"no name", "hermes", "", `<tool_call>{"arguments":{"a":1}}</tool_call>`, heard{Text: `{"arguments":{"a":1}}`}},
	{"a name of no letters", "hermes", "", `<tool_call>{"name":"","arguments":{"a":1}}</tool_call>`, heard{Text: `{"name":"","arguments":{"a":1}}`}},
	{"arguments first", "hermes", "", `<tool_call>{"arguments": {"path": "x"}, "name": "read_file"}</tool_call>`, heard{Calls: []string{`read_file {"path":"x"}`}}},
	{"arguments in a string", "hermes", "", `<tool_call>{"name":"read_file","arguments":"{\"path\": \"a\\nb\"}"}</tool_call>`, heard{Calls: []string{`read_file {"path":"a\nb"}`}}},
	{"function within", "hermes", "", `<tool_call>{"type":"function","id":3,"function":{"name":"read_file","arguments":{"path":"x"}}}</tool_call>`, heard{Calls: []string{`read_file {"path":"x"}`}}},
	{"a bracket missing", "hermes", "", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"x\"}\n</tool_call>", heard{Calls: []string{`read_file {"path":"x"}`}}},
	{"a bracket too many", "hermes", "", "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"x\"}}}\n</tool_call>ok", heard{Text: "ok", Calls: []string{`read_file {"path":"x"}`}}},
	{"line ends and odd backslashes in strings", "hermes", "", "<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\nb\tc\\d\\'\\u00e9\\u00zz\",}}</tool_call>",
		heard{Calls: []string{`read_file {"path":"a\nb\tc\\d'\u00e9\\u00zz"}`}}},
	{"Python's words", "hermes", "", `<tool_call>{"name":"f","arguments":{"a":True,"b":None,"c":-1.5e3}}</tool_call>`, heard{Calls: []string{`f {"a":true,"b":null,"c":-1.5e3}`}}},
	{"several in one part", "hermes", "", `<tool_call>[{"name":"now","arguments":{}}, {"name":"f","arguments":{"a":1}}]</tool_call>`, heard{Calls: []string{"now {}", `f {"a":1}`}}},
	{"cut within the arguments", "hermes", "", `<tool_call>{"name":"read_file","arguments":{"path":"/etc/pa`, heard{Calls: []string{`read_file {"path":"/etc/pa`}}},
	{"cut before the arguments", "hermes", "", `Hm <tool_call>{"name":"read_file"`, heard{Text: `Hm {"name":"read_file"`}},
	{"astray within the arguments", "hermes", "", `<tool_call>{"name":"f","arguments":{"a":1 oops}}</tool_call>`, heard{Text: "oops}}", Calls: []string{`f {"a":1`}}},
	{"markers left over", "hermes", "", "a</tool_call>b</think>c", heard{Text: "abc"}},
	{"nearly a marker", "hermes", "", "a <tool_cal> <thin> </ <", heard{Text: "a <tool_cal> <thin> </ <"}},
	{"a bare call", "hermes", "", ` {"name": "read_file", "arguments": {"path": "x"}}`, heard{Calls: []string{`read_file {"path":"x"}`}}},
	{"bare JSON that is an answer", "hermes", "", ` {"name": "Bob", "arguments": {"x": 1}} `, heard{Text: ` {"name": "Bob", "arguments": {"x": 1}} `}},
	{"other JSON", "hermes", "", `{"answer": 42}`, heard{Text: `{"answer": 42}`}},
	{"JSON after text", "hermes", "", `So: {"name": "now", "arguments": {}}`, heard{Text: `So: {"name": "now", "arguments": {}}`}},

	{"the generic form", "generic", "", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", heard{Calls: []string{"now {}"}}},

	{"coder", "qwen3-coder", "", "On it.\n<tool_call>\n<function=read_file>\n<parameter=path>\n/tmp/a \"b\"\n\n\n</parameter>\n<parameter=lines>\n12\n</parameter>\n<parameter=deep>\n{\"a\": [1, \"x\"]}\n</parameter>\n</function>\n</tool_call>",
		heard{Text: "On it.", Calls: []string{`read_file {"path":"/tmp/a \"b\"\n\n","lines":12,"deep":{"a":[1,"x"]}}`}}},
	{"coder, bare", "qwen3-coder", "", "<function=read_file><parameter=path>x</parameter></function>", heard{Calls: []string{`read_file {"path":"x"}`}}},
	{"coder, two", "qwen3-coder", "<think>\n", "hm</think><tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n<parameter=n>\ntrue\n</parameter>\n<parameter=s>\nit's\n</parameter>\n</function>\n</tool_call>",
		heard{Thinking: "hm", Calls: []string{"now {}", `f {"n":true,"s":"it's"}`}}},
	{"coder writes JSON", "qwen3-coder", "", "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>", heard{Calls: []string{"now {}"}}},
	{"coder, unknown and bare", "qwen3-coder", "", "use <function=foo> here", heard{Text: "use <function=foo> here"}},
	{"coder, cut in a value", "qwen3-coder", "", "<tool_call><function=read_file><parameter=path>/etc/pa", heard{Calls: []string{`read_file {"path":"/etc/pa`}}},
	{"coder, a value with tags", "qwen3-coder", "", "<tool_call><function=read_file><parameter=path>\n<a>\n</b></parameter></function></tool_call>", heard{Calls: []string{`read_file {"path":"<a>\n</b>"}`}}},

	{"glm", "glm", "", "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>12</arg_value>\n<arg_key>lines</arg_key>\n<arg_value>12</arg_value>\n</tool_call>",
		heard{Calls: []string{`read_file {"path":"12","lines":12}`}}},
	{"glm, astray", "glm", "", "<tool_call>read file<arg_key>", heard{Text: "read file"}},

	{"llama", "llama", "", `{"name": "read_file", "parameters": {"path": "x"}}`, heard{Calls: []string{`read_file {"path":"x"}`}}},
	{"llama, two", "llama", "", `<|python_tag|>{"name": "read_file", "parameters": {"path": "x"}}; {"name": "now", "parameters": {}}`, heard{Calls: []string{`read_file {"path":"x"}`, "now {}"}}},
	{"llama, code", "llama", "", "<|python_tag|>print(1)", heard{Text: "print(1)"}},
	{"llama, function tag", "llama", "", `<function=read_file>{"path": "x"}</function>`, heard{Calls: []string{`read_file {"path":"x"}`}}},

	{"phi", "pipe", "", `<|tool_call|>[{"type":"function","function":{"name":"now","arguments":{}}},{"name":"f","arguments":{"a":1}}]<|/tool_call|>`, heard{Calls: []string{"now {}", `f {"a":1}`}}},
	{"phi, one", "pipe", "", `<|tool_call|>{"name": "now", "arguments": {}}<|/tool_call|>`, heard{Calls: []string{"now {}"}}},
	{"phi, functools", "pipe", "", `functools[{"name": "f", "arguments": {"a": "b]"}}]`, heard{Calls: []string{`f {"a":"b]"}`}}},
	{"granite", "pipe", "", `<|tool_call|>[{"name": "now", "arguments": {}}]`, heard{Calls: []string{"now {}"}}},

	{"mistral, old", "mistral", "", `[TOOL_CALLS][{"name": "read_file", "arguments": {"path": "x"}}, {"name": "now", "arguments": {}}]`, heard{Calls: []string{`read_file {"path":"x"}`, "now {}"}}},
	{"mistral, new", "mistral", "", `Sure.[TOOL_CALLS]read_file[ARGS]{"path": "x"}[TOOL_CALLS]now[ARGS]{}`, heard{Text: "Sure.", Calls: []string{`read_file {"path":"x"}`, "now {}"}}},
	{"mistral, with an id", "mistral", "", `[TOOL_CALLS]now[CALL_ID]abc123DEF[ARGS]{}`, heard{Calls: []string{"now {}"}}},
	{"mistral, no marker between", "mistral", "", `[TOOL_CALLS]now{"a": 1}`, heard{Calls: []string{`now {"a":1}`}}},
	{"mistral, thought", "mistral", "", "[THINK]Hm.[/THINK]Yes.", heard{Thinking: "Hm.", Text: "Yes."}},
	{"mistral, astray", "mistral", "", "[TOOL_CALLS]I would call it", heard{Text: "I would call it"}},

	{"deepseek", "deepseek", "", "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\": \"x\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		heard{Text: "Ok.", Calls: []string{`read_file {"path":"x"}`, "now {}"}}},
	{"deepseek, block", "deepseek", "<think>\n", "hm\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{\"path\": \"x\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		heard{Thinking: "hm", Calls: []string{`read_file {"path":"x"}`}}},
	{"deepseek, astray", "deepseek", "", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>well<｜tool▁call▁end｜>", heard{Text: "well"}},

	{"kimi", "kimi", "", "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\": \"x\"}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
		heard{Text: "Ok.", Calls: []string{`read_file {"path":"x"}`, "now {}"}}},
	{"kimi, other words", "kimi", "", "<|tool_call_section_begin|>\n<|tool_call_begin|>\nnow<|tool_call_argument_begin|>\n{}\n<|tool_call_end|>\n<|tool_call_section_end|>\n\nDone.",
		heard{Text: "Done.", Calls: []string{"now {}"}}},
	{"kimi, cut", "kimi", "", "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:12<|tool_call_argument_begin|>{\"path\": \"/etc/pa", heard{Calls: []string{`read_file {"path":"/etc/pa`}}},
	{"kimi, astray", "kimi", "", "<|tool_call_begin|>I would call it<|tool_call_end|>", heard{Text: "I would call it"}},

	{"lfm", "lfm", "", `<|tool_call_start|>[read_file(path="a\"b", deep={'x': [1, True]}), now()]<|tool_call_end|>Reading.`,
		heard{Text: "Reading.", Calls: []string{`read_file {"path":"a\"b","deep":{"x":[1,true]}}`, "now {}"}}},
	{"lfm, JSON", "lfm", "", `<|tool_call_start|>[{"name": "now", "arguments": {}}]<|tool_call_end|>`, heard{Calls: []string{"now {}"}}},
	{"lfm, astray", "lfm", "", `<|tool_call_start|>[now(]<|tool_call_end|>`, heard{Text: "[now(]"}},

	{"tool_code", "tool_code", "", "```tool_code\nprint(read_file(path='x'))\n```", heard{Calls: []string{`read_file {"path":"x"}`}}},

	{"gemma", "gemma", "", `<|tool_call>call:read_file{path:<|"|>a "b", {c}<|"|>,lines:3,deep:{x:[1,<|"|>y<|"|>]}}<tool_call|>`,
		heard{Calls: []string{`read_file {"path":"a \"b\", {c}","lines":3,"deep":{"x":[1,"y"]}}`}}},
	{"gemma, thought", "gemma", "", "<|channel>thought\nHm.<channel|>Yes.", heard{Thinking: "Hm.", Text: "Yes."}},
	{"functiongemma", "functiongemma", "", "<start_function_call>call:now{}<end_function_call><start_function_call>call:f{a:<escape>x<escape>,b:true}<end_function_call>", heard{Calls: []string{"now {}", `f {"a":"x","b":true}`}}},

	{"harmony", "harmony", "<|start|>assistant", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.", heard{Thinking: "Hm.", Text: "Yes."}},
	{"harmony, call", "harmony", "", `<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{"path": "x"}`,
		heard{Thinking: "Hm.", Calls: []string{`read_file {"path":"x"}`}}},
	{"harmony, recipient first", "harmony", "", ` to=functions.now<|channel|>commentary json<|message|>{}<|call|>`, heard{Calls: []string{"now {}"}}},
	{"harmony, preamble", "harmony", "", `<|channel|>commentary<|message|>I'll look.<|end|><|start|>assistant<|channel|>commentary to=functions.now<|message|>{}`, heard{Text: "I'll look.", Calls: []string{"now {}"}}},
	{"harmony, no markers", "harmony", "", "Just text.", heard{Text: "Just text."}},
	{"harmony, cut in a header", "harmony", "", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|chan", heard{Thinking: "Hm."}},
	{"harmony, arguments astray", "harmony", "", "<|channel|>commentary to=functions.now<|message|>well", heard{Text: "well"}},
}

var markers = regexp.MustCompile(`</?tool_call>|</?think>|<\|?/?tool_call\|?>|\[TOOL_CALLS\]|\[ARGS\]|<｜|<\|(start|end|channel|message|constrain|tool_call_start|tool_call_end|tool_calls?_section_begin|tool_calls?_section_end|tool_call_begin|tool_call_argument_begin|python_tag)\|>|functions\.|\[/?THINK\]|<end_function_call>`)

func TestGoldenAnswersCutAnywhereComeToTheSame(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.family+"/"+g.name, func(t *testing.T) {
			style := toolcall.Detect(templates[g.family])
			require.Equal(t, g.family, style.Family())
			got := everyCut(t, style, toolcall.Options{Tools: tools, Prompt: g.prompt}, g.answer)
			assert.Equal(t, g.want, got)
			assert.NotRegexp(t, markers, got.Text, "a marker leaked")
		})
	}
}

func TestWithoutToolsMarkersOfCallsAreText(t *testing.T) {
	style := toolcall.Detect(templates["hermes"])
	text := "Write <tool_call>{\"name\": \"now\"}</tool_call> to call it."
	assert.Equal(t, heard{Text: text}, everyCut(t, style, toolcall.Options{}, text))
	assert.Equal(t, heard{Thinking: "a", Text: text}, everyCut(t, style, toolcall.Options{}, "<think>a</think>"+text))
	assert.Equal(t, heard{Text: `{"name": "now", "arguments": {}}`}, everyCut(t, style, toolcall.Options{}, `{"name": "now", "arguments": {}}`))
}

func TestArgumentsFlowAsSoonAsTheyAreCertain(t *testing.T) {
	p := toolcall.Detect(templates["hermes"]).Parser(toolcall.Options{Tools: tools, ID: ids()})
	assert.Empty(t, p.Push(`<tool_call>{"name": "read_file", `))
	assert.Equal(t, []llm.Delta{{ToolCalls: []llm.ToolCallDelta{{ID: "call_1", Name: "read_file", Arguments: `{"path":"/a/b`}}}}, p.Push(`"arguments": {"path": "/a/b`))
	assert.Equal(t, []llm.Delta{{ToolCalls: []llm.ToolCallDelta{{Arguments: `c"`}}}}, p.Push(`c", `))
	assert.Equal(t, []llm.Delta{{ToolCalls: []llm.ToolCallDelta{{Arguments: `,"lines":`}}}}, p.Push(`"lines": 1`))
	assert.Equal(t, []llm.Delta{{ToolCalls: []llm.ToolCallDelta{{Arguments: `12}`}}}}, p.Push(`2}`))
	assert.Equal(t, []llm.Delta{{ToolCalls: []llm.ToolCallDelta{{Done: true}}}}, p.Push(`}`))
	assert.Empty(t, p.Push("</tool_call>"))
	assert.Empty(t, p.Finish())
}

func TestValuesOfTextFlow(t *testing.T) {
	p := toolcall.Detect(templates["qwen3-coder"]).Parser(toolcall.Options{Tools: tools, ID: ids()})
	p.Push("<tool_call>\n<function=read_file>\n<parameter=path>\n")
	assert.Equal(t, []llm.Delta{{ToolCalls: []llm.ToolCallDelta{{Arguments: `one\ntwo`}}}}, p.Push("one\ntwo\n"))
}

func TestMostCallsEndTheAnswer(t *testing.T) {
	two := map[string]string{
		"hermes":      `<tool_call>{"name":"now","arguments":{}}</tool_call><tool_call>{"name":"now","arguments":{}}</tool_call> and text`,
		"mistral":     `[TOOL_CALLS][{"name":"now","arguments":{}},{"name":"now","arguments":{}}]`,
		"lfm":         `<|tool_call_start|>[now(), now()]<|tool_call_end|> and text`,
		"harmony":     `<|channel|>commentary to=functions.now<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>and text`,
		"qwen3-coder": `<tool_call><function=now></function></tool_call><tool_call><function=now></function></tool_call>`,
		"deepseek":    `<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>`,
	}
	for family, answer := range two {
		style := toolcall.Detect(templates[family])
		assert.Equal(t, heard{Calls: []string{"now {}"}}, everyCut(t, style, toolcall.Options{Tools: tools, Most: 1}, answer), family)
		p := style.Parser(toolcall.Options{Tools: tools, Most: 1})
		p.Push(answer)
		assert.True(t, p.Full(), family)
	}
}

func TestIDsAreOllamas(t *testing.T) {
	assert.Regexp(t, `^call_[a-z0-9]{8}$`, toolcall.NewID())
	assert.NotEqual(t, toolcall.NewID(), toolcall.NewID())
}

func FuzzCutsComeToTheSame(f *testing.F) {
	families := slices.Sorted(maps.Keys(templates)) // by number: a name that was changed is none of them
	for _, g := range goldens {
		f.Add(slices.Index(families, g.family), g.prompt, g.answer, 3)
	}
	f.Fuzz(func(t *testing.T, family int, prompt, answer string, size int) {
		if len(answer) > 2000 {
			t.Skip()
		}
		style := toolcall.Detect(templates[families[uint(family)%uint(len(families))]])
		o := toolcall.Options{Tools: tools, Prompt: prompt}
		size = max(1, size%17)
		var pieces []string
		for rest := answer; rest != ""; rest = rest[min(size, len(rest)):] {
			pieces = append(pieces, rest[:min(size, len(rest))])
		}
		assert.Equal(t, parse(t, style, o, answer), parse(t, style, o, pieces...))
	})
}
