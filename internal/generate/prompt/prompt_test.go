package prompt_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/generate/prompt"
)

var now = time.Date(2026, 11, 30, 9, 5, 7, 0, time.UTC)

// folder makes a model folder of these files.
func folder(t testing.TB, files map[string]string) string {
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// load loads a template from its source.
func load(t testing.TB, source string, specials ...string) *prompt.Template {
	template, err := prompt.Load(folder(t, map[string]string{"chat_template.jinja": source}), specials...)
	require.NoError(t, err)
	return template
}

func user(content string) llm.Message { return llm.Message{Role: "user", Content: content} }

// text renders what must come out as one ordinary segment.
func text(t testing.TB, template *prompt.Template, in prompt.Input) string {
	segments, err := template.Render(in)
	require.NoError(t, err)
	require.Len(t, segments, 1)
	require.False(t, segments[0].Literal)
	return segments[0].Text
}

func TestConversationsRenderAsInJinja2(t *testing.T) {
	var given struct {
		Tokens        map[string]string
		Conversations map[string]struct {
			Messages   []llm.Message
			Tools      json.RawMessage
			Generation *bool `json:"add_generation_prompt"`
			Thinking   *bool
		}
	}
	read(t, "testdata/conversations.json", &given)
	var cases []struct {
		Template, Conversation string
		Expected, Error        *string
	}
	read(t, "testdata/chats.json", &cases)
	tokens, err := json.Marshal(given.Tokens)
	require.NoError(t, err)
	for _, c := range cases {
		t.Run(c.Template+", "+c.Conversation, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("testdata/templates", c.Template))
			require.NoError(t, err)
			template, err := prompt.Load(folder(t, map[string]string{"chat_template.jinja": string(source), "tokenizer_config.json": string(tokens)}))
			require.NoError(t, err)
			talk := given.Conversations[c.Conversation]
			segments, err := template.Render(prompt.Input{Messages: talk.Messages, Tools: talk.Tools, Thinking: talk.Thinking, Now: now,
				AddGenerationPrompt: talk.Generation == nil || *talk.Generation})
			if c.Expected == nil {
				require.ErrorContains(t, err, *c.Error)
				assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
				return
			}
			require.NoError(t, err)
			var got strings.Builder
			for _, s := range segments {
				got.WriteString(s.Text)
			}
			assert.Equal(t, *c.Expected, got.String())
			assert.LessOrEqual(t, len(segments), 1)
		})
	}
}

func read(t *testing.T, file string, v any) {
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, v))
}

func TestTheTemplateIsFoundWhereItIs(t *testing.T) {
	ir := func(template string) string {
		return `<?xml version="1.0"?><net name="tokenizer"><layers></layers><rt_info><bos_token_id value="1" />` +
			`<chat_template value="` + template + `" /></rt_info></net>`
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"its own file":            {map[string]string{"chat_template.jinja": "A", "chat_template.json": `{"chat_template":"B"}`}, "A"},
		"chat_template.json":      {map[string]string{"chat_template.json": `{"chat_template":"B"}`, "tokenizer_config.json": `{"chat_template":"C"}`}, "B"},
		"tokenizer_config.json":   {map[string]string{"tokenizer_config.json": `{"chat_template":"C"}`, "openvino_tokenizer.xml": ir("D")}, "C"},
		"named templates":         {map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"R"},{"name":"default","template":"C"}]}`}, "C"},
		"the tokenizer's rt_info": {map[string]string{"tokenizer_config.json": `{"bos_token":"<s>"}`, "openvino_tokenizer.xml": ir("&lt;b>&#10;{{ messages[0].content }}")}, "<b>\nhi"},
		"a byte order mark":       {map[string]string{"chat_template.jinja": "\xef\xbb\xbfA"}, "A"},
		"null in the config":      {map[string]string{"tokenizer_config.json": `{"chat_template":null}`}, "user: hi\nassistant:"},
		"nothing":                 {nil, "user: hi\nassistant:"},
		"a tokenizer without one": {map[string]string{"openvino_tokenizer.xml": `<net><rt_info><x value="1"/></rt_info></net>`}, "user: hi\nassistant:"},
	} {
		t.Run(name, func(t *testing.T) {
			template, err := prompt.Load(folder(t, c.files))
			require.NoError(t, err)
			assert.Equal(t, c.want, text(t, template, prompt.Input{Messages: []llm.Message{user("hi")}, AddGenerationPrompt: true}))
		})
	}
}

func TestToolsTakeTheTemplateForTools(t *testing.T) {
	template, err := prompt.Load(folder(t, map[string]string{
		"tokenizer_config.json": `{"chat_template":[{"name":"default","template":"plain"},{"name":"tool_use","template":"tools {{ tools|length }}"}]}`}))
	require.NoError(t, err)
	assert.Equal(t, "plain", text(t, template, prompt.Input{}))
	assert.Equal(t, "tools 1", text(t, template, prompt.Input{Tools: json.RawMessage(`[{"type":"function"}]`)}))
}

func TestSpecialTokensComeFromTheConfigs(t *testing.T) {
	files := map[string]string{
		"chat_template.jinja":     "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}",
		"tokenizer_config.json":   `{"bos_token":{"content":"<s>","lstrip":false},"add_bos_token":true,"pad_token":null,"added_tokens_decoder":{"7":{"content":"<pad>"}}}`,
		"special_tokens_map.json": `{"bos_token":"<other>","eos_token":"</s>"}`,
		"config.json":             `{"pad_token_id":7,"unk_token_id":99,"eos_token_id":[1,2]}`,
	}
	template, err := prompt.Load(folder(t, files))
	require.NoError(t, err)
	assert.Equal(t, "<s>|</s>||<pad>", text(t, template, prompt.Input{}))
}

func TestRenderedTextTellsWhetherItBeginsWithBOS(t *testing.T) {
	for source, want := range map[string]bool{"{{ bos_token }}x": true, "x{{ bos_token }}": false, "{{ messages[0].content }}": false} {
		template, err := prompt.Load(folder(t, map[string]string{"chat_template.jinja": source, "tokenizer_config.json": `{"bos_token":"<s>"}`}), "<s>")
		require.NoError(t, err)
		segments, err := template.Render(prompt.Input{Messages: []llm.Message{user("<s>")}})
		require.NoError(t, err)
		assert.Equal(t, want, template.StartsWithBOS(segments), source)
	}
}

const chatml = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"

func TestSpecialTokensOfADocumentAreLiteral(t *testing.T) {
	template := load(t, chatml, "<|im_start|>", "<|im_end|>", "<|im", "")
	for name, c := range map[string]struct {
		content string
		want    []prompt.Segment
	}{
		"none": {"hello < | >", []prompt.Segment{{"<|im_start|>user\nhello < | ><|im_end|>\n", false}}},
		"one":  {"a<|im_end|>b", []prompt.Segment{{"<|im_start|>user\na", false}, {"<|im_end|>", true}, {"b<|im_end|>\n", false}}},
		"two side by side": {"<|im_end|><|im_start|>", []prompt.Segment{{"<|im_start|>user\n", false}, {"<|im_end|><|im_start|>", true},
			{"<|im_end|>\n", false}}},
		"one inside another's halves": {"<|im_<|im_end|>end|>", []prompt.Segment{{"<|im_start|>user\n", false}, {"<|im", true}, {"_", false}, {"<|im_end|>", true},
			{"end|><|im_end|>\n", false}}},
		"private-use characters": {"\U000F0000\U000F0001\U000F0003\U000F0004\U0010FFFD", []prompt.Segment{
			{"<|im_start|>user\n\U000F0000\U000F0001\U000F0003\U000F0004\U0010FFFD<|im_end|>\n", false}}},
	} {
		t.Run(name, func(t *testing.T) {
			segments, err := template.Render(prompt.Input{Messages: []llm.Message{user(c.content)}})
			require.NoError(t, err)
			assert.Equal(t, c.want, segments)
		})
	}
}

func TestEveryPartOfAMessageAndOfToolsIsGuarded(t *testing.T) {
	template := load(t, `{{ messages | tojson }}{{ tools | tojson }}`, "<|x|>")
	segments, err := template.Render(prompt.Input{
		Messages: []llm.Message{{Role: "<|x|>", Content: "<|x|>", Thinking: "<|x|>", ToolCallID: "<|x|>", ToolName: "<|x|>", ToolCalls: []llm.ToolCall{
			{ID: "<|x|>", Name: "<|x|>", Arguments: json.RawMessage(`{"<|x|>":["\u003c|x|>"]}`)}}}},
		Tools: json.RawMessage(`[{"<|x|>":"\u003c|x|\u003e"}]`),
	})
	require.NoError(t, err)
	literal := 0
	for _, s := range segments {
		if s.Literal {
			literal++
			assert.Equal(t, "<|x|>", s.Text)
		} else {
			assert.NotContains(t, s.Text, "<|x|>")
		}
	}
	assert.Equal(t, 12, literal, "%v", segments)
}

func TestTheFallbackIsGuardedToo(t *testing.T) {
	template, err := prompt.Load(t.TempDir(), "</s>")
	require.NoError(t, err)
	segments, err := template.Render(prompt.Input{Messages: []llm.Message{user("a</s>")}, AddGenerationPrompt: true})
	require.NoError(t, err)
	assert.Equal(t, []prompt.Segment{{"user: a", false}, {"</s>", true}, {"\nassistant:", false}}, segments)
}

func TestRefusalsNameTheTemplate(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"its own words":  {"{{ raise_exception('roles must alternate') }}", "the model's chat template (chat_template.jinja) refuses this conversation: roles must alternate"},
		"a broken step":  {"\n{{ messages.x.y }}", "line 2"},
		"too much of it": {"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "too much depth"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.source).Render(prompt.Input{})
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "chat_template.jinja")
			assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
		})
	}
}

func TestBrokenFilesAreNamed(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"chat_template.jinja":     {"chat_template.jinja": "{% if %}"},
		"chat_template.json":      {"chat_template.json": "{"},
		"tokenizer_config.json":   {"tokenizer_config.json": `{"chat_template":5}`},
		"special_tokens_map.json": {"special_tokens_map.json": "["},
	} {
		_, err := prompt.Load(folder(t, files))
		require.ErrorContains(t, err, name)
	}
	_, err := prompt.Load(folder(t, map[string]string{"chat_template.jinja": strings.Repeat("x", 1<<20+1)}))
	require.ErrorContains(t, err, "1048576")
}

func TestBadArgumentsAndToolsAreTheCallersFault(t *testing.T) {
	template := load(t, "x")
	for name, in := range map[string]prompt.Input{
		"arguments": {Messages: []llm.Message{{ToolCalls: []llm.ToolCall{{Name: "f", Arguments: json.RawMessage(`{"a":`)}}}}},
		"tools":     {Tools: json.RawMessage(`[1] [2]`)},
		"depth":     {Tools: json.RawMessage(strings.Repeat("[", 1000) + strings.Repeat("]", 1000))},
	} {
		_, err := template.Render(in)
		require.Error(t, err, name)
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), name)
	}
}

func FuzzGuardKeepsTheTextAndTheLiterals(f *testing.F) {
	f.Add("a<|im_end|>b\U000F0000\U000F0002", "<|im_end|>", "end")
	f.Fuzz(func(t *testing.T, content, a, b string) {
		content, a, b = strings.ToValidUTF8(content, ""), strings.ToValidUTF8(a, ""), strings.ToValidUTF8(b, "")
		segments, err := load(t, "{{ messages[0].content }}", a, b).Render(prompt.Input{Messages: []llm.Message{user(content)}})
		require.NoError(t, err)
		var got strings.Builder
		for _, s := range segments {
			got.WriteString(s.Text)
			if !s.Literal {
				for _, special := range []string{a, b} {
					require.False(t, special != "" && strings.Contains(s.Text, special), "%q in %q", special, s.Text)
				}
			}
		}
		require.Equal(t, content, got.String())
	})
}

func BenchmarkRender(b *testing.B) {
	source, err := os.ReadFile("testdata/templates/qwen-style.jinja")
	require.NoError(b, err)
	template := load(b, string(source), "<|im_start|>", "<|im_end|>", "<|endoftext|>")
	var talk []llm.Message
	for range 10 {
		talk = append(talk, user(strings.Repeat("word ", 100)), llm.Message{Role: "assistant", Content: strings.Repeat("word ", 200)})
	}
	for b.Loop() {
		_, err := template.Render(prompt.Input{Messages: talk, AddGenerationPrompt: true})
		require.NoError(b, err)
	}
}

func TestArgumentsAreTextWhereTheTemplateAddsThemToText(t *testing.T) {
	template := load(t, `{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name + '|' + c.function['arguments'] }}{% endfor %}{% endfor %}`)
	call := llm.Message{Role: "assistant", ToolCalls: []llm.ToolCall{{Name: "f", Arguments: json.RawMessage(`{"b":1,"a":2}`)}, {Name: "g"}}}
	assert.Equal(t, `f|{"b":1,"a":2}g|{}`, text(t, template, prompt.Input{Messages: []llm.Message{call}}))
}

func TestToolsAreInTheSystemMessageWhereTheTemplateLooksForThem(t *testing.T) {
	template := load(t, `{% for m in messages %}{% if 'tools' in m %}<|tool|>{{ m['role'] + message['tools'] if false else m['tools'] }}<|/tool|>{% endif %}{% endfor %}`)
	messages := []llm.Message{{Role: "system", Content: "s"}, user("hi")}
	tools := json.RawMessage(`[{"type":"function","function":{"name":"b","parameters":{}}},{"type":"function","function":{"name":"a"}}]`)
	assert.Equal(t, `<|tool|>[{"name":"b","parameters":{}}, {"name":"a"}]<|/tool|>`, text(t, template, prompt.Input{Messages: messages, Tools: tools}))
}

func TestARequestMayBringItsTemplate(t *testing.T) {
	template := load(t, "own", "<|end|>")
	other, err := template.With("{{ messages[0].content }}|{{ reasoning_effort }}")
	require.NoError(t, err)
	segments, err := other.Render(prompt.Input{Messages: []llm.Message{user("a<|end|>")}, Effort: "low"})
	require.NoError(t, err)
	assert.Equal(t, []prompt.Segment{{Text: "a"}, {Text: "<|end|>", Literal: true}, {Text: "|low"}}, segments, "what the user says is no special token there either")
	_, err = template.With("{% if %}")
	assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
}
