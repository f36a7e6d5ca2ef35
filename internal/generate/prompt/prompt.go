// Package prompt turns a conversation into the text a model was trained on, by the chat template that came with it.
//
//	t, err := prompt.Load(dir, specials...)
//	segments, err := t.Render(prompt.Input{Messages: messages, AddGenerationPrompt: true, Now: time.Now()})
//
// Templates are programs in Jinja2, run in the environment that Hugging Face's transformers gives them. They come from
// strangers, so each render has a budget.
package prompt

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/generate/prompt/jinja"
)

// Template is a model's chat template. It may be used by several goroutines at once.
type Template struct {
	source   source
	main     *jinja.Template
	tools    *jinja.Template // for requests with tools; main when there is no other
	tokens   map[string]string
	literals *literals
}

// Input is what a template renders.
type Input struct {
	Messages            []llm.Message
	Tools               json.RawMessage // a JSON array, or nil
	AddGenerationPrompt bool            // end with the beginning of the assistant's turn
	Thinking            *bool           // whether the model should think first; nil leaves it to the template
	Effort              string          // how much: "low", "medium", "high"; empty leaves it to the template
	Now                 time.Time       // what strftime_now tells
}

// Segment is a part of rendered text. Literal text looks like special tokens but came from a message or a tool: the
// tokenizer must not see it as one. All other text may hold special tokens, which the template wrote.
type Segment struct {
	Text    string
	Literal bool
}

// Load reads the chat template of the model in dir from chat_template.jinja, chat_template.json, tokenizer_config.json
// or the rt_info of openvino_tokenizer.xml, whichever is there first. Without any, Render writes "role: content" lines
// and "assistant:" at the end, as the program this one replaces did.
//
// Specials are the texts of the tokenizer's special tokens. What of them occurs in messages and tools is rendered as
// Literal segments.
func Load(dir string, special ...string) (*Template, error) {
	src, err := find(dir)
	if err != nil {
		return nil, err
	}
	tokens, err := specials(dir)
	if err != nil {
		return nil, err
	}
	t := &Template{source: src, tokens: tokens, literals: newLiterals(special)}
	if src.text == "" {
		return t, nil
	}
	if t.main, err = compile(src.file, src.text); err != nil {
		return nil, err
	}
	t.tools = t.main
	if src.tools != "" {
		t.tools, err = compile(src.file, src.tools)
	}
	return t, err
}

func compile(file, text string) (*jinja.Template, error) {
	t, err := jinja.Parse(text)
	if err != nil {
		return nil, llm.Errorf(llm.CodeUnsupported, "compile the chat template in %s: %w", file, err)
	}
	return t, nil
}

// With returns a template from another source, for the same model.
func (t *Template) With(text string) (*Template, error) {
	src := source{file: "the request's template", text: text}
	if err := src.check(); err != nil {
		return nil, err
	}
	main, err := jinja.Parse(text)
	if err != nil {
		e := llm.Errorf(llm.CodeInvalid, "compile the request's template: %w", err)
		e.Param = "template"
		return nil, e
	}
	return &Template{source: src, main: main, tools: main, tokens: t.tokens, literals: t.literals}, nil
}

// Source is the template's text, "" when the model has none.
func (t *Template) Source() string { return t.source.text }

// File names the file the template was in, "" when the model has none.
func (t *Template) File() string { return t.source.file }

// StartsWithBOS tells whether the rendered text begins with the beginning-of-sequence token, so that the tokenizer must not add another.
func (t *Template) StartsWithBOS(segments []Segment) bool {
	bos := t.tokens["bos_token"]
	return bos != "" && len(segments) > 0 && !segments[0].Literal && strings.HasPrefix(segments[0].Text, bos)
}

// Render writes the conversation as the model expects it. Ordinary conversations come out as one segment.
// When the template refuses the conversation, the error has CodeInvalid and the template's own words.
func (t *Template) Render(in Input) ([]Segment, error) {
	if t.main == nil {
		return t.literals.split(fallback(in, t.literals.mark)), nil
	}
	template := t.main
	if len(in.Tools) > 0 {
		template = t.tools
	}
	text, err := t.render(template, in, false)
	if err != nil && slices.ContainsFunc(in.Messages, func(m llm.Message) bool { return len(m.ToolCalls) > 0 }) {
		// Some templates (DeepSeek's) add the arguments of calls to text: they must be text.
		if again, failed := t.render(template, in, true); failed == nil {
			text, err = again, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return t.literals.split(text), nil
}

// render runs a template. Arguments of calls are objects, or with quoted their JSON.
func (t *Template) render(template *jinja.Template, in Input, quoted bool) (string, error) {
	data, err := t.data(in, quoted)
	if err != nil {
		return "", err
	}
	text, err := template.Render(data, jinja.Limits{}, in.Now)
	if err != nil {
		return "", t.refusal(err)
	}
	return text, nil
}

// refusal words a failed render for people.
func (t *Template) refusal(err error) error {
	e, ok := errors.AsType[*jinja.Error](err)
	switch {
	case !ok:
		return llm.Errorf(llm.CodeInternal, "render the model's chat template (%s): %w", t.source.file, err)
	case e.Budget:
		return llm.Errorf(llm.CodeInvalid, "render the model's chat template (%s): %w", t.source.file, err).
			WithHint("a shorter conversation may do; else the template is broken or hostile")
	case e.Raised:
		return llm.Errorf(llm.CodeInvalid, "the model's chat template (%s) refuses this conversation: %w", t.source.file, err)
	}
	return llm.Errorf(llm.CodeInvalid, "the model's chat template (%s) cannot render this conversation: %w", t.source.file, err)
}

// data is what the template sees, by the names transformers' apply_chat_template uses.
func (t *Template) data(in Input, quoted bool) (map[string]any, error) {
	data := map[string]any{
		"add_generation_prompt": in.AddGenerationPrompt,
		"tools":                 nil,
		"documents":             nil,
	}
	for name, text := range t.tokens {
		data[name] = text
	}
	if in.Thinking != nil {
		data["enable_thinking"] = *in.Thinking // Qwen, GLM
		data["thinking"] = *in.Thinking        // DeepSeek, Granite
	}
	if in.Effort != "" {
		data["reasoning_effort"] = in.Effort
	}
	messages := jinja.NewList()
	for i, m := range in.Messages {
		message, err := messageValue(m, t.literals.mark, quoted)
		if err != nil {
			return nil, err
		}
		if i == 0 && len(in.Tools) > 0 && strings.Contains(t.source.text, "message['tools']") {
			message.Set("tools", t.literals.mark(functions(in.Tools))) // Phi-4 has them there
		}
		messages.Items = append(messages.Items, message)
	}
	data["messages"] = messages
	if len(in.Tools) > 0 {
		tools, err := jinja.FromJSON(in.Tools, t.literals.mark)
		if err != nil {
			return nil, llm.Errorf(llm.CodeInvalid, "read tools: %w", err)
		}
		data["tools"] = tools
	}
	return data, nil
}

// functions is the list of tools without OpenAI's wrapping.
func functions(tools json.RawMessage) string {
	var list []struct{ Function json.RawMessage }
	if json.Unmarshal(tools, &list) != nil {
		return string(tools)
	}
	var parts []string
	for _, t := range list {
		parts = append(parts, string(t.Function))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// fallback writes a conversation for a model without a template.
func fallback(in Input, mark func(string) string) string {
	var out strings.Builder
	for _, m := range in.Messages {
		out.WriteString(mark(m.Role) + ": " + mark(m.Content) + "\n")
	}
	if in.AddGenerationPrompt {
		out.WriteString("assistant:")
	}
	return out.String()
}
