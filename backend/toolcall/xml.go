package toolcall

import (
	"encoding/json"
	"strings"
)

// parameters reads the call that Qwen3-Coder writes, from behind "<function=":
//
//	<function=NAME>
//	<parameter=KEY>
//	VALUE
//	</parameter>
//	</function>
//
// Values are text; what type they are the tool's schema says. Llama's <function=NAME>{"key": "value"}</function> is taken too.
type parameters struct {
	p      *Parser
	bare   bool     // without <tool_call>: only a tool of the request is a call
	closes []string // what may follow </function>

	tool   tool
	count  int
	text   bool   // the value is a string: it flows
	gap    string // white space at the end of a value, which may belong to its end
	value  strings.Builder
	fields *scanner // arguments as JSON
}

const (
	functionOpen   = "<function="
	functionClose  = "</function>"
	parameterOpen  = "<parameter="
	parameterClose = "</parameter>"
)

func openFunction(p *Parser) {
	p.lead.word = functionOpen
	x := &parameters{p: p, bare: true, closes: []string{"</tool_call>"}}
	p.state = x.name
}

func (x *parameters) name() bool {
	p := x.p
	name, mark, ok := p.until(">", "\n", "<")
	if !ok {
		return giveUp(p)
	}
	if name = strings.Trim(name, " \t\"'"); name == "" || mark != ">" {
		p.spill()
		return true
	}
	tool, known := p.tools[name]
	if x.bare && !known {
		p.spill()
		return true
	}
	x.tool = tool
	p.consume(1)
	p.state = x.first
	p.begin(name)
	return true
}

// giveUp is the end of an answer within something that has not become a call. It tells whether there is more to do.
func giveUp(p *Parser) bool {
	if !p.ended {
		return false
	}
	p.spill()
	return true
}

// first looks at which kind of arguments there is.
func (x *parameters) first() bool {
	p := x.p
	if !p.skipSpace() {
		return x.breakOff()
	}
	if p.held[0] == '{' {
		x.fields = &scanner{}
		p.state = x.object
		return true
	}
	p.argue("{")
	p.state = x.next
	return true
}

// breakOff is the end of an answer within a call. It tells whether there is more to do.
func (x *parameters) breakOff() bool {
	if !x.p.ended {
		return false
	}
	x.p.end(false)
	x.p.leave()
	return true
}

func (x *parameters) object() bool {
	p := x.p
	var out []byte
	for i := range len(p.held) {
		var st status
		if out, st = x.fields.push(out, p.held[i]); st == more {
			continue
		}
		if st == complete {
			i++
		}
		p.consume(i)
		p.argue(string(out))
		p.end(st == complete)
		p.state = x.behind
		return true
	}
	p.consume(len(p.held))
	p.argue(string(out))
	return x.breakOff()
}

// next is before a parameter, or the end.
func (x *parameters) next() bool {
	p := x.p
	if !p.skipSpace() {
		return x.breakOff()
	}
	for _, mark := range append([]string{parameterOpen, functionClose}, x.closes...) {
		if strings.HasPrefix(mark, p.held) && mark != p.held && !p.ended {
			return false
		}
		if !strings.HasPrefix(p.held, mark) {
			continue
		}
		if mark == parameterOpen {
			p.consume(len(mark))
			p.state = x.key
			return true
		}
		p.argue("}")
		p.end(true)
		p.state = x.behind
		return true
	}
	p.end(false)
	p.leave()
	return true
}

func (x *parameters) key() bool {
	p := x.p
	key, mark, ok := p.until(">", "\n", "<")
	if !ok {
		return x.breakOff()
	}
	if mark != ">" {
		p.end(false)
		p.leave()
		return true
	}
	p.consume(1)
	key = strings.Trim(key, " \t\"'")
	x.text = x.tool.isText(key)
	start := quote(key) + ":"
	if x.count > 0 {
		start = "," + start
	}
	if x.text {
		start += `"`
	}
	x.count++
	p.argue(start)
	x.gap = ""
	x.value.Reset()
	p.state = x.newline
	return true
}

// newline drops the one that stands before a value.
func (x *parameters) newline() bool {
	if x.p.held == "" && !x.p.ended {
		return false
	}
	if strings.HasPrefix(x.p.held, "\n") {
		x.p.consume(1)
	}
	x.p.state = x.content
	return true
}

func (x *parameters) content() bool {
	p := x.p
	at, _, sure := p.find([]string{parameterClose})
	text := p.held
	if at >= 0 {
		text = p.held[:at]
	}
	p.consume(len(text))
	x.add(text)
	if !sure {
		return x.breakOff()
	}
	p.consume(len(parameterClose))
	if x.text {
		p.argue(`"`)
	} else {
		p.argue(asJSON(x.value.String()))
	}
	p.state = x.next
	return true
}

// add goes on with a value. The line end at its end is not part of it, so the last one waits.
func (x *parameters) add(text string) {
	if text == "" {
		return
	}
	if !x.text {
		x.value.WriteString(text)
		return
	}
	text = x.gap + text
	x.gap = ""
	if strings.HasSuffix(text, "\n") {
		text, x.gap = text[:len(text)-1], "\n"
	}
	x.p.argue(string(appendEscaped(nil, text)))
}

// asJSON is a value whose type is not text: JSON when it is that, or a string.
func asJSON(text string) string {
	text = strings.TrimSuffix(text, "\n")
	trimmed := strings.TrimSpace(text)
	if word := literal(trimmed); word != "" && json.Valid([]byte(word)) {
		return compact(word)
	}
	return quote(text)
}

// compact is valid JSON without white space.
func compact(text string) string {
	var s scanner
	var out []byte
	for i := range len(text) {
		out, _ = s.push(out, text[i])
	}
	out, _ = s.push(out, ' ') // ends a number
	return string(out)
}

// behind is after the arguments.
func (x *parameters) behind() bool {
	p := x.p
	if p.Full() {
		p.leave()
		return true
	}
	if !p.skipSpace() {
		if p.ended {
			p.leave()
		}
		return false
	}
	for _, mark := range append([]string{functionClose}, x.closes...) {
		ok, sure := p.accept(mark)
		if !sure {
			return false
		}
		if ok && mark != functionClose {
			p.leave()
			return true
		}
		if ok {
			return true
		}
	}
	if ok, sure := p.accept(functionOpen); ok { // another one within the same part
		p.raw.Reset()
		p.lead = lead{word: functionOpen, fresh: true}
		p.state = (&parameters{p: p, bare: x.bare, closes: x.closes}).name
		return true
	} else if !sure {
		return false
	}
	p.leave()
	return true
}

// tool is what a parser must know of a tool: which of its parameters are text, and whether they are anything else.
type tool struct {
	types map[string]string
}

// isText tells whether a parameter is a string and nothing else.
func (t tool) isText(parameter string) bool { return t.types[parameter] == "string" }

// readTools reads the request's tools; nil when there are none.
func readTools(raw json.RawMessage) map[string]tool {
	var list []struct {
		Function struct {
			Name       string
			Parameters struct {
				Properties map[string]struct {
					Type json.RawMessage
				}
			}
		}
	}
	if len(raw) == 0 {
		return nil
	}
	_ = json.Unmarshal(raw, &list) // what cannot be read is a tool without types
	if len(list) == 0 {
		return nil
	}
	tools := map[string]tool{}
	for _, t := range list {
		types := map[string]string{}
		for name, p := range t.Function.Parameters.Properties {
			var kind string
			if json.Unmarshal(p.Type, &kind) == nil {
				types[name] = kind
			}
		}
		tools[t.Function.Name] = tool{types}
	}
	return tools
}
