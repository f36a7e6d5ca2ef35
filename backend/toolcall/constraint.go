package toolcall

import (
	"encoding/json"
	"slices"
	"strings"

	"signalbox/backend/llm"
)

// Demand is what an answer must be.
type Demand struct {
	Tools    json.RawMessage
	Choice   llm.ToolChoice
	Format   *llm.Constraint // of an answer that is no call; nil: any
	Prompt   string          // how the prompt ends
	Thinking *bool           // as in llm.PrepareRequest
}

// format is a part of a structural tag: the grammar library's description of text (its documentation: "structural tag").
type format = map[string]any

// Constraint is what holds the model to the demand, nil when it is free. Tools that must be called, or whose arguments
// must match their schemas, become a structural tag in the model's own notation; a thought may come before.
//
// Where the caller does not insist on strict arguments, keywords of their schemas that not every grammar can hold are left out:
// most tools have some. A model whose template knows no tools has never learned to call them: it may call or not, but what it
// begins as a call becomes one.
func (s Style) Constraint(d Demand) (*llm.Constraint, error) {
	tags, err := s.tags(d)
	if err != nil {
		return nil, err
	}
	must := d.Choice.Mode == "required" || d.Choice.Mode == "named"
	thought := s.before(d)
	var body format
	switch {
	case must:
		body = s.calls(tags, d.Choice, true)
	case len(tags) > 0 && d.Format != nil:
		body = either(s.calls(tags, d.Choice, true), s.final(formatOf(d.Format)))
	case len(tags) > 0 && (d.Choice.Strict || !s.facts.native):
		body = s.calls(tags, d.Choice, false)
		if s.family == harmony {
			body = either(body, s.final(format{"type": "any_text"}))
		}
	case d.Format == nil:
		return nil, nil
	case thought == nil && s.family != harmony:
		return d.Format, nil
	case s.opened(d.Prompt):
		free := *d.Format
		free.After = s.thought.close
		return &free, nil
	default:
		body = s.final(formatOf(d.Format))
	}
	if thought != nil {
		body = format{"type": "sequence", "elements": append(thought, body)}
	}
	raw, err := json.Marshal(format{"type": "structural_tag", "format": body})
	if err != nil {
		return nil, llm.Errorf(llm.CodeInvalid, "read tools: %w", err)
	}
	return &llm.Constraint{Structural: raw}, nil
}

func either(a, b format) format { return format{"type": "or", "elements": []format{a, b}} }

// final is an answer's text behind what the model writes before it.
func (s Style) final(f format) format {
	if s.family != harmony {
		return f
	}
	return format{"type": "sequence", "elements": []format{constant("<|channel|>final<|message|>"), f}}
}

func constant(text string) format { return format{"type": "const_string", "value": text} }

// formatOf is a constraint as part of a structural tag.
func formatOf(c *llm.Constraint) format {
	switch {
	case c.Regex != "":
		return format{"type": "regex", "pattern": c.Regex}
	case c.EBNF != "":
		return format{"type": "grammar", "grammar": c.EBNF}
	case c.Schema != nil:
		return format{"type": "json_schema", "json_schema": c.Schema}
	}
	return format{"type": "json_schema", "json_schema": json.RawMessage(`{"type":"object"}`)}
}

// opened tells whether the prompt ends within a thought.
func (s Style) opened(prompt string) bool {
	at := strings.LastIndex(prompt, s.thought.open)
	return s.thought.open != "" && at >= 0 &&
		strings.TrimSpace(strings.TrimPrefix(prompt[at+len(s.thought.open):], s.thought.skip)) == ""
}

// before is the thought that may come first; nil when none may.
func (s Style) before(d Demand) []format {
	t := s.thought
	switch {
	case !t.native:
		return nil
	case s.family == harmony:
		analysis := format{"type": "tag", "begin": "<|channel|>analysis<|message|>", "content": freeText("<|end|>"), "end": "<|end|>"}
		return []format{optional(format{"type": "sequence", "elements": []format{analysis, constant("<|start|>assistant")}})}
	case s.opened(d.Prompt):
		return []format{{"type": "tag", "begin": "", "content": freeText(t.open, t.close), "end": t.close}, optional(constant("\n\n"))}
	case d.Thinking != nil && !*d.Thinking || strings.HasSuffix(strings.TrimSpace(d.Prompt), t.close):
		return nil
	}
	thought := format{"type": "tag", "begin": t.open, "content": freeText(t.open, t.close), "end": t.close}
	return []format{optional(format{"type": "sequence", "elements": []format{thought, optional(constant("\n\n"))}})}
}

func freeText(without ...string) format { return format{"type": "any_text", "excludes": without} }

func optional(f format) format { return format{"type": "optional", "content": f} }

// notation is how a family's calls are described.
type notation struct {
	trigger string
	begin   func(name string) string
	style   string // of the arguments; empty: JSON
	end     string
	// around the calls, with separator between them; empty: each stands for itself
	open, close, separator string
}

var notations = map[*family]notation{
	hermes:        {trigger: "<tool_call>", begin: beginsObject("<tool_call>\n", "arguments"), end: "}\n</tool_call>"},
	coder:         {trigger: "<tool_call>", begin: func(n string) string { return "<tool_call>\n<function=" + n + ">\n" }, style: "qwen_xml", end: "\n</function>\n</tool_call>"},
	glm:           {trigger: "<tool_call>", begin: func(n string) string { return "<tool_call>" + n + "\n" }, style: "glm_xml", end: "</tool_call>"},
	llama:         {trigger: `{"name": "`, begin: beginsObject("", "parameters"), end: "}"},
	pipe:          {begin: beginsObject("", "arguments"), end: "}", open: "<|tool_call|>[", close: "]", separator: ", "},
	mistral:       {begin: beginsObject("", "arguments"), end: "}", open: "[TOOL_CALLS][", close: "]", separator: ", "},
	deepseek:      {begin: func(n string) string { return "<｜tool▁call▁begin｜>" + n + "<｜tool▁sep｜>" }, end: "<｜tool▁call▁end｜>", open: "<｜tool▁calls▁begin｜>", close: "<｜tool▁calls▁end｜>"},
	kimi:          {begin: func(n string) string { return "<|tool_call_begin|>functions." + n + ":" }, end: "<|tool_call_end|>", open: "<|tool_calls_section_begin|>", close: "<|tool_calls_section_end|>"},
	lfm:           {begin: beginsObject("", "arguments"), end: "}", open: "<|tool_call_start|>[", close: "]<|tool_call_end|>", separator: ", "},
	toolCode:      {trigger: "```tool_code", begin: beginsObject("```tool_code\n", "arguments"), end: "}\n```"},
	gemma:         {trigger: "<|tool_call>", begin: func(n string) string { return "<|tool_call>call:" + n }, style: "gemma", end: "<tool_call|>"},
	functionGemma: {trigger: "<start_function_call>", begin: beginsObject("<start_function_call>", "arguments"), end: "}<end_function_call>"},
}

// beginsObject begins a JSON call.
func beginsObject(before, member string) func(string) string {
	return func(name string) string { return before + `{"name": ` + quote(name) + `, "` + member + `": ` }
}

func (s Style) notation() notation {
	if n, ok := notations[s.of()]; ok {
		return n
	}
	return notations[hermes]
}

// tags describes a call of each tool that may be called.
func (s Style) tags(d Demand) ([]format, error) {
	if d.Choice.Mode == "none" || len(d.Tools) == 0 {
		if d.Choice.Mode == "required" || d.Choice.Mode == "named" {
			return nil, invalid("a tool must be called, but there are no tools")
		}
		return nil, nil
	}
	var list []struct {
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if err := json.Unmarshal(d.Tools, &list); err != nil {
		e := llm.Errorf(llm.CodeInvalid, "read tools: %w", err)
		e.Param = "tools"
		return nil, e
	}
	var tags []format
	for _, t := range list {
		f := t.Function
		if f.Name == "" || d.Choice.Mode == "named" && f.Name != d.Choice.Name {
			continue
		}
		schema := f.Parameters
		if len(schema) == 0 || schema[0] != '{' {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		if !d.Choice.Strict {
			schema = relax(schema, 0)
		}
		tags = append(tags, s.tag(f.Name, schema))
	}
	if len(tags) == 0 && d.Choice.Mode == "named" {
		return nil, invalid("the tool %q must be called, but is not among the tools", d.Choice.Name)
	}
	return tags, nil
}

func invalid(text string, args ...any) error {
	e := llm.Errorf(llm.CodeInvalid, text, args...)
	e.Param = "tool_choice"
	return e
}

// maxBlanks is how many blanks may stand in a row in arguments: small models like to go on with them.
const maxBlanks = 2

func (s Style) tag(name string, schema json.RawMessage) format {
	content := format{"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": maxBlanks}
	if s.family == harmony {
		// What ends a call there ends the answer: it is no text.
		return format{"type": "sequence", "elements": []format{
			constant("<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>"), content}}
	}
	if s.family == kimi { // which number the call has is the model's to say
		content = format{"type": "sequence", "elements": []format{{"type": "regex", "pattern": "[0-9]{1,4}"}, constant(kimiArguments), content}}
	}
	n := s.notation()
	if n.style != "" {
		content["style"] = n.style
	}
	return format{"type": "tag", "begin": n.begin(name), "content": content, "end": n.end}
}

// calls describes calls; must says that there is at least one, and nothing else. More than one must then be asked for: nothing
// but the caller's wish keeps a small model from calling for ever.
func (s Style) calls(tags []format, choice llm.ToolChoice, must bool) format {
	several := choice.Parallel != nil && *choice.Parallel
	once := choice.Parallel != nil && !several || must && !several || choice.Mode == "named"
	if s.family == harmony {
		return format{"type": "or", "elements": tags}
	}
	n := s.notation()
	if n.open != "" {
		inner := format{"type": "tags_with_separator", "tags": tags, "separator": n.separator, "at_least_one": true, "stop_after_first": once}
		group := format{"type": "tag", "begin": n.open, "content": inner, "end": n.close}
		if must {
			return group
		}
		return format{"type": "triggered_tags", "triggers": []string{n.open}, "tags": []format{group}, "stop_after_first": once}
	}
	if must { // and nothing behind them: a small model would never end
		return format{"type": "tags_with_separator", "tags": tags, "separator": "\n", "at_least_one": true, "stop_after_first": once}
	}
	return format{"type": "triggered_tags", "triggers": []string{n.trigger}, "tags": tags, "stop_after_first": once}
}

// held are the keywords that every grammar can hold. The others only narrow what they allow.
var held = []string{"type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "$ref", "$defs", "definitions", "additionalProperties"}

// relax leaves out of a schema what a grammar may not be able to hold.
func relax(schema json.RawMessage, depth int) json.RawMessage {
	if depth > maxDepth || len(schema) == 0 || schema[0] != '{' {
		return schema
	}
	var parts []string
	for _, m := range members(schema) {
		if !slices.Contains(held, m.key) {
			continue
		}
		key, value := m.key, m.value
		switch key {
		case "properties", "$defs", "definitions":
			value = relaxEach(value, depth)
		case "items", "additionalProperties":
			value = relax(value, depth+1)
		case "anyOf", "oneOf":
			key, value = "anyOf", relaxAll(value, depth)
		}
		parts = append(parts, quote(key)+":"+string(value))
	}
	return json.RawMessage("{" + strings.Join(parts, ",") + "}")
}

func relaxEach(object json.RawMessage, depth int) json.RawMessage {
	var parts []string
	for _, m := range members(object) {
		parts = append(parts, quote(m.key)+":"+string(relax(m.value, depth+1)))
	}
	return json.RawMessage("{" + strings.Join(parts, ",") + "}")
}

func relaxAll(list json.RawMessage, depth int) json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil {
		return list
	}
	var parts []string
	for _, item := range items {
		parts = append(parts, string(relax(item, depth+1)))
	}
	return json.RawMessage("[" + strings.Join(parts, ",") + "]")
}
