package toolcall

import (
	"encoding/json"
	"fmt"
	"strings"
)

// families, in the order in which a template is looked at: the most peculiar markers first.
var families = []*family{harmony, lfm, deepseek, kimi, mistral, gemma, functionGemma, toolCode, pipe, coder, glm, hermes, llama}

// hermes is Qwen's and Hermes' way, and that of many others: <tool_call>{"name": ..., "arguments": {...}}</tool_call>.
var hermes = &family{
	name:    "hermes",
	found:   contains("<tool_call>"),
	markers: []string{"<tool_call>", "</tool_call>"},
	bare:    true,
	write:   between("<tool_call>\n", "\n</tool_call>", asArguments),
}

// generic is hermes for models whose template knows no tools: Conversation tells them how.
var generic = &family{name: "generic", markers: hermes.markers, bare: true, write: hermes.write}

// coder is Qwen3-Coder's way: see parameters.
var coder = &family{
	name:    "qwen3-coder",
	found:   contains(functionOpen),
	markers: []string{"<tool_call>", "</tool_call>", functionClose, parameterClose},
	bare:    true,
	write:   writeParameters,
}

// glm is GLM's way: <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>.
var glm = &family{
	name:    "glm",
	found:   contains("<arg_key>"),
	markers: []string{"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
	write:   writePairs,
}

// llama is Llama 3's way: a bare {"name": ..., "parameters": {...}}, also behind <|python_tag|>.
var llama = &family{
	name: "llama",
	found: func(t string) bool {
		return strings.Contains(t, "<|python_tag|>") || strings.Contains(t, `"parameters": `)
	},
	markers: []string{"<|python_tag|>"},
	bare:    true,
	write: func(calls []call) string {
		var list []string
		for _, c := range calls {
			list = append(list, `{"name": `+quote(c.name)+`, "parameters": `+c.arguments+`}`)
		}
		return strings.Join(list, "; ")
	},
}

// pipe is the way of Phi-4 and Granite 3: <|tool_call|>[{...}], with or without an end.
var pipe = &family{
	name: "pipe",
	found: func(t string) bool {
		return strings.Contains(t, "<|tool_call|>") || strings.Contains(t, "<|tool|>")
	},
	markers: []string{"<|tool_call|>", "<|/tool_call|>"},
	bare:    true,
	write: func(calls []call) string {
		return "<|tool_call|>[" + join(calls, ", ", asArguments) + "]<|/tool_call|>"
	},
}

// mistral is [TOOL_CALLS][{...}] of older and [TOOL_CALLS]NAME[ARGS]{...} of newer models.
var mistral = &family{
	name:    "mistral",
	found:   contains("[TOOL_CALLS]"),
	markers: []string{"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
	write: func(calls []call) string {
		var b strings.Builder
		for _, c := range calls {
			b.WriteString("[TOOL_CALLS]" + c.name + "[ARGS]" + c.arguments)
		}
		return b.String()
	},
}

// deepseek is <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜><｜tool▁calls▁end｜>, or with
// "function" before the separator and the name and a block of JSON behind it.
var deepseek = &family{
	name:    "deepseek",
	found:   contains("<｜tool▁calls▁begin｜>"),
	markers: []string{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"},
	write: func(calls []call) string {
		var b strings.Builder
		for _, c := range calls {
			b.WriteString("<｜tool▁call▁begin｜>" + c.name + "<｜tool▁sep｜>" + c.arguments + "<｜tool▁call▁end｜>")
		}
		return "<｜tool▁calls▁begin｜>" + b.String() + "<｜tool▁calls▁end｜>"
	},
}

// kimi is Kimi K2's way: <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}
// <|tool_call_end|><|tool_calls_section_end|>. What stands for the name is the call's id, which counts up in the conversation.
var kimi = &family{
	name:  "kimi",
	found: contains(kimiArguments),
	markers: []string{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_section_begin|>", "<|tool_call_section_end|>",
		"<|tool_call_begin|>", "<|tool_call_end|>", kimiArguments},
	write: func(calls []call) string {
		var b strings.Builder
		for i, c := range calls {
			b.WriteString("<|tool_call_begin|>" + kimiID(c.name, i) + kimiArguments + c.arguments + "<|tool_call_end|>")
		}
		return "<|tool_calls_section_begin|>" + b.String() + "<|tool_calls_section_end|>"
	},
}

const kimiArguments = "<|tool_call_argument_begin|>"

func kimiID(name string, nth int) string { return fmt.Sprintf("functions.%s:%d", name, nth) }

// kimiName is the name in an id, which some models write without all that is around it.
func kimiName(id string) string {
	name := strings.TrimPrefix(strings.TrimSpace(id), "functions.")
	if at := strings.LastIndexByte(name, ':'); at >= 0 && at+1 < len(name) && strings.Trim(name[at+1:], "0123456789") == "" {
		name = name[:at]
	}
	return name
}

// lfm is Liquid's way: <|tool_call_start|>[f(a=1, b="x")]<|tool_call_end|>.
var lfm = &family{
	name: "lfm",
	found: func(t string) bool {
		return strings.Contains(t, "<|tool_call_start|>") || strings.Contains(t, "List of tools: [")
	},
	markers: []string{"<|tool_call_start|>", "<|tool_call_end|>"},
	write:   between("<|tool_call_start|>[", "]<|tool_call_end|>", asPython),
}

// toolCode is Gemma 3's way: Python in a block of Markdown.
var toolCode = &family{
	name:    "tool_code",
	found:   contains("```tool_code"),
	markers: []string{"```tool_code"},
	write:   between("```tool_code\n", "\n```", asPython),
}

// gemma is Gemma 4's way: <|tool_call>call:NAME{KEY:<|"|>TEXT<|"|>,KEY:1}<tool_call|>.
var gemma = &family{
	name:    "gemma",
	found:   contains("<|tool_call>"),
	markers: []string{"<|tool_call>", "<tool_call|>", `<|"|>`},
	stops:   []string{"<|tool_response>"},
	write:   between("<|tool_call>", "<tool_call|>", asNotation(`<|"|>`)),
}

// functionGemma is FunctionGemma's way, which is Gemma 4's with other words.
var functionGemma = &family{
	name:    "functiongemma",
	found:   contains("<start_function_call>"),
	markers: []string{"<start_function_call>", "<end_function_call>", "<escape>"},
	stops:   []string{"<start_function_response>"},
	write:   between("<start_function_call>", "<end_function_call>", asNotation("<escape>")),
}

// harmony is gpt-oss's way: see harmony.go.
var harmony = &family{
	name:    "harmony",
	found:   func(t string) bool { return strings.Contains(t, "<|channel|>") && strings.Contains(t, "<|message|>") },
	markers: []string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>"},
	write: func(calls []call) string {
		var list []string
		for _, c := range calls {
			list = append(list, "<|channel|>commentary to=functions."+c.name+" <|constrain|>json<|message|>"+c.arguments)
		}
		return strings.Join(list, "<|call|><|start|>assistant")
	},
}

// The readers know the families, so these cannot name them where they are declared.
func init() {
	hermes.opens = map[string]func(*Parser){"<tool_call>": openTag}
	generic.opens = hermes.opens
	coder.opens = map[string]func(*Parser){"<tool_call>": openTag, functionOpen: openFunction}
	glm.opens = map[string]func(*Parser){"<tool_call>": openTag}
	llama.opens = map[string]func(*Parser){"<|python_tag|>": openObjects(), functionOpen: openFunction}
	pipe.opens = map[string]func(*Parser){"<|tool_call|>": openObjects("<|/tool_call|>"), "functools[": openArray}
	mistral.opens = map[string]func(*Parser){"[TOOL_CALLS]": openMistral}
	deepseek.opens = map[string]func(*Parser){"<｜tool▁call▁begin｜>": openDeepSeek}
	kimi.opens = map[string]func(*Parser){"<|tool_call_begin|>": openKimi}
	lfm.opens = map[string]func(*Parser){"<|tool_call_start|>": openBlock("<|tool_call_end|>", readCode)}
	toolCode.opens = map[string]func(*Parser){"```tool_code": openBlock("```", readCode)}
	gemma.opens = map[string]func(*Parser){"<|tool_call>": openBlock("<tool_call|>", readNotation(`<|"|>`))}
	functionGemma.opens = map[string]func(*Parser){"<start_function_call>": openBlock("<end_function_call>", readNotation("<escape>"))}
}

func contains(mark string) func(string) bool {
	return func(template string) bool { return strings.Contains(template, mark) }
}

// openTag looks at what is in <tool_call>: JSON, or one of the forms with tags.
func openTag(p *Parser) {
	p.state = func() bool {
		if !p.skipSpace() {
			return giveUp(p)
		}
		if p.held[0] == '{' || p.held[0] == '[' {
			beginObjects(p, &objects{closes: []string{"</tool_call>"}})
			return true
		}
		ok, sure := p.accept(functionOpen)
		switch {
		case ok:
			p.state = (&parameters{p: p, closes: []string{"</tool_call>"}}).name
		case !sure:
			return false
		case p.style.of() == glm:
			openBlock("</tool_call>", readPairs)(p)
		default:
			p.spill()
		}
		return true
	}
}

func openArray(p *Parser) {
	p.lead.word = "functools["
	beginObjects(p, &objects{array: true})
}

// openMistral looks at which of the two forms it is.
func openMistral(p *Parser) {
	p.state = func() bool {
		if !p.skipSpace() {
			return giveUp(p)
		}
		if p.held[0] == '{' || p.held[0] == '[' {
			beginObjects(p, &objects{})
			return true
		}
		at, mark, sure := p.find([]string{"[ARGS]", "[CALL_ID]", "{"})
		if !isName(p.held[:max(at, 0)]) || at < 0 && !isName(p.held) {
			p.spill()
			return true
		}
		if at < 0 || !sure {
			return giveUp(p)
		}
		name := strings.TrimSpace(p.held[:at])
		if mark == "{" {
			mark = ""
		}
		p.consume(at)
		if mark == "[CALL_ID]" {
			p.state = func() bool { return callID(p, name) }
			return true
		}
		p.consume(len(mark))
		beginArguments(p, name)
		return true
	}
}

func callID(p *Parser, name string) bool {
	_, mark, ok := p.until("[ARGS]", "{")
	if !ok {
		return giveUp(p)
	}
	if mark != "{" {
		p.consume(len(mark))
	}
	beginArguments(p, name)
	return true
}

// isName tells whether text may be the name of a tool, or the beginning of one.
func isName(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) <= 256 && !strings.ContainsAny(text, " \n\t[]{}()<>\"'")
}

// beginArguments reads the object that follows a name, up to one of closes if they are there.
func beginArguments(p *Parser, name string, closes ...string) {
	if name == "" {
		p.spill()
		return
	}
	x := &parameters{p: p, closes: closes}
	p.state = func() bool {
		if !p.skipSpace() {
			return giveUp(p)
		}
		if p.held[0] != '{' {
			p.spill()
			return true
		}
		x.fields = &scanner{}
		p.state = x.object
		p.begin(name)
		return true
	}
}

func openDeepSeek(p *Parser) {
	const separator = "<｜tool▁sep｜>"
	p.state = func() bool {
		name, mark, ok := p.until(separator, "\n", "<｜tool▁call▁end｜>")
		if !ok {
			return giveUp(p)
		}
		if mark != separator {
			p.spill()
			return true
		}
		p.consume(len(mark))
		p.state = func() bool {
			if !p.skipSpace() {
				return giveUp(p)
			}
			if p.held[0] == '{' {
				beginArguments(p, strings.TrimSpace(name), "<｜tool▁call▁end｜>")
				return true
			}
			return deepSeekBlock(p)
		}
		return true
	}
}

// deepSeekBlock reads NAME, a line end, and an object in a block of Markdown.
func deepSeekBlock(p *Parser) bool {
	name, mark, ok := p.until("{", "<｜tool▁call▁end｜>")
	if !ok {
		return giveUp(p)
	}
	name, fence, _ := strings.Cut(name, "\n")
	if fence = strings.TrimSpace(fence); mark != "{" || fence != "" && fence != "```json" && fence != "```" {
		p.spill()
		return true
	}
	beginArguments(p, strings.TrimSpace(name), "```", "<｜tool▁call▁end｜>")
	return true
}

func openKimi(p *Parser) {
	p.state = func() bool {
		id, mark, ok := p.until(kimiArguments, "{", "<|tool_call_end|>")
		if !ok {
			return giveUp(p)
		}
		name := kimiName(id)
		if mark == "<|tool_call_end|>" || !isName(name) {
			p.spill()
			return true
		}
		if mark == kimiArguments {
			p.consume(len(mark))
		}
		beginArguments(p, name, "<|tool_call_end|>")
		return true
	}
}

// openBlock reads a part as a whole: its form does not show before the end whether it is a call.
func openBlock(end string, read func(text string, p *Parser) ([]call, bool)) func(*Parser) {
	return func(p *Parser) {
		p.state = func() bool {
			text, mark, ok := p.until(end)
			if !ok && !p.ended {
				return false
			}
			if !ok {
				text = p.held
				p.consume(len(text))
			}
			calls, ok := read(strings.TrimSpace(text), p)
			if !ok {
				p.spill()
				return true
			}
			p.consume(len(mark))
			p.whole(calls)
			p.leave()
			return true
		}
	}
}

// readPairs reads GLM's NAME <arg_key>KEY</arg_key><arg_value>VALUE</arg_value>.
func readPairs(text string, p *Parser) ([]call, bool) {
	name, rest, _ := strings.Cut(text, "<arg_key>")
	if name = strings.TrimSpace(name); name == "" || !isName(name) {
		return nil, false
	}
	var members []string
	for rest != "" {
		key, after, ok := strings.Cut(rest, "</arg_key>")
		if !ok {
			return nil, false
		}
		value, after, ok := strings.Cut(strings.TrimSpace(after), "</arg_value>")
		value, opened := strings.CutPrefix(value, "<arg_value>")
		if !ok || !opened {
			return nil, false
		}
		key = strings.TrimSpace(key)
		if p.tools[name].isText(key) {
			value = quote(value)
		} else {
			value = asJSON(value)
		}
		members = append(members, quote(key)+":"+value)
		if after = strings.TrimSpace(after); after == "" {
			break
		}
		if rest, ok = strings.CutPrefix(after, "<arg_key>"); !ok {
			return nil, false
		}
	}
	return []call{{name, "{" + strings.Join(members, ",") + "}"}}, true
}

func asArguments(c call) string {
	return `{"name": ` + quote(c.name) + `, "arguments": ` + c.arguments + `}`
}

// between writes each call between two marks.
func between(open, close string, one func(call) string) func([]call) string {
	return func(calls []call) string {
		var list []string
		for _, c := range calls {
			list = append(list, open+one(c)+close)
		}
		return strings.Join(list, "\n")
	}
}

func join(calls []call, separator string, one func(call) string) string {
	var list []string
	for _, c := range calls {
		list = append(list, one(c))
	}
	return strings.Join(list, separator)
}

func writeParameters(calls []call) string {
	return between("<tool_call>\n", "\n</tool_call>", func(c call) string {
		var b strings.Builder
		b.WriteString(functionOpen + c.name + ">\n")
		for _, m := range members([]byte(c.arguments)) {
			b.WriteString(parameterOpen + m.key + ">\n" + plainValue(m.value) + "\n" + parameterClose + "\n")
		}
		return b.String() + functionClose
	})(calls)
}

func writePairs(calls []call) string {
	return between("<tool_call>", "</tool_call>", func(c call) string {
		var b strings.Builder
		b.WriteString(c.name + "\n")
		for _, m := range members([]byte(c.arguments)) {
			b.WriteString("<arg_key>" + m.key + "</arg_key>\n<arg_value>" + plainValue(m.value) + "</arg_value>\n")
		}
		return b.String()
	})(calls)
}

// plainValue is a string's text, or JSON.
func plainValue(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
