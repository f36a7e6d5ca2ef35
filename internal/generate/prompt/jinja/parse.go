package jinja

import "slices"

// maxNesting bounds how deep blocks and expressions stand in one another: the parser and the evaluator are recursive.
const maxNesting = 200

type parser struct {
	tokens []token
	pos    int
	depth  int
	macros []*macroDef // that are being read
}

func parse(source string) []stmt {
	p := &parser{tokens: lex(source)}
	body := p.statements()
	if t := p.peek(); t.kind != endOfSource {
		fail(t.line, "unexpected %q", t.text)
	}
	return body
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != endOfSource {
		p.pos++
	}
	return t
}

func (p *parser) isOp(op string) bool {
	return p.peek().kind == operatorToken && p.peek().text == op
}

func (p *parser) isName(names ...string) bool {
	return p.peek().kind == nameToken && slices.Contains(names, p.peek().text)
}

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expectOp(op string) {
	if !p.skipOp(op) {
		fail(p.peek().line, "expected %q, got %q", op, p.peek().text)
	}
}

func (p *parser) expectName() string {
	if p.peek().kind != nameToken {
		fail(p.peek().line, "expected a name, got %q", p.peek().text)
	}
	return p.next().text
}

func (p *parser) expect(kind tokenKind) {
	if p.peek().kind != kind {
		fail(p.peek().line, "expected the end of the tag, got %q", p.peek().text)
	}
	p.next()
}

// enter and leave bracket each rule that contains itself.
func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		fail(p.peek().line, "nested deeper than %d levels", maxNesting)
	}
}

func (p *parser) leave() { p.depth-- }

// statements reads until a block whose name is in ends, and leaves the parser at that name.
func (p *parser) statements(ends ...string) []stmt {
	p.enter()
	defer p.leave()
	var body []stmt
	for {
		t := p.peek()
		switch t.kind {
		case dataToken:
			p.next()
			body = append(body, &text{t.text})
		case outputBegin:
			p.next()
			body = append(body, &output{t.line, p.tuple(nil, true, false)})
			p.expect(outputEnd)
		case blockBegin:
			p.next()
			if p.isName(ends...) {
				return body
			}
			body = append(body, p.statement()...)
		default:
			if len(ends) > 0 {
				fail(t.line, "unexpected end of template, expected %q", ends)
			}
			return body
		}
	}
}

// block reads the end of the tag, the body and the closing tag.
func (p *parser) block(end string) []stmt {
	p.expect(blockEnd)
	body := p.statements(end)
	p.next()
	p.expect(blockEnd)
	return body
}

func (p *parser) statement() []stmt {
	line := p.peek().line
	switch keyword := p.expectName(); keyword {
	case "if":
		return []stmt{p.conditional(line)}
	case "for":
		return []stmt{p.loop(line)}
	case "set":
		return []stmt{p.set(line)}
	case "macro":
		n := &name{p.expectName()}
		checkTarget(n, false, line)
		m := &macroDef{line: line, name: n.name}
		p.signature(m)
		p.macroBody(m, "endmacro")
		return []stmt{m}
	case "call":
		return []stmt{p.callBlock(line)}
	case "filter":
		f := &filterBlock{line: line, filter: p.filters(&name{captured}, true)}
		f.body = p.block("endfilter")
		return []stmt{f}
	case "with":
		return []stmt{p.with(line)}
	case "generation": // marks the assistant's text for training; its body is a scope of its own
		return []stmt{&with{line: line, body: p.block("endgeneration")}}
	case "break":
		p.expect(blockEnd)
		return []stmt{breakLoop{}}
	case "continue":
		p.expect(blockEnd)
		return []stmt{continueLoop{}}
	default:
		fail(line, "unknown tag %q", keyword)
		return nil
	}
}

func (p *parser) conditional(line int) stmt {
	first := &conditional{line: line}
	for c := first; ; {
		c.test = p.tuple(nil, false, false)
		p.expect(blockEnd)
		c.then = p.statements("elif", "else", "endif")
		switch t := p.next(); t.text {
		case "elif":
			more := &conditional{line: t.line}
			c.otherwise = []stmt{more}
			c = more
			continue
		case "else":
			c.otherwise = p.block("endif")
		default:
			p.expect(blockEnd)
		}
		return first
	}
}

func (p *parser) loop(line int) stmt {
	l := &loop{line: line, target: p.target(false, "in")}
	if n, ok := l.target.(*name); ok && n.name == "loop" || !p.skipName("in") {
		fail(line, "expected a name other than loop, and in")
	}
	l.iter = p.tuple([]string{"recursive"}, false, false)
	if p.skipName("if") {
		l.test = p.expression()
	}
	l.recursive = p.skipName("recursive")
	p.expect(blockEnd)
	l.body = p.statements("endfor", "else")
	if p.next().text == "else" {
		l.otherwise = p.block("endfor")
	} else {
		p.expect(blockEnd)
	}
	return l
}

func (p *parser) set(line int) stmt {
	target := p.target(true)
	if p.skipOp("=") {
		s := &assign{line, target, p.tuple(nil, true, false)}
		p.expect(blockEnd)
		return s
	}
	s := &assignBlock{line: line, target: target}
	if p.isOp("|") {
		s.filter = p.filters(&name{captured}, false)
	}
	s.body = p.block("endset")
	return s
}

func (p *parser) callBlock(line int) stmt {
	m := &macroDef{line: line, name: "caller"}
	if p.isOp("(") {
		p.signature(m)
	}
	c, ok := p.expression().(*call)
	if !ok {
		fail(line, "expected a call")
	}
	p.macroBody(m, "endcall")
	return &callBlock{line, c, m}
}

func (p *parser) with(line int) stmt {
	w := &with{line: line}
	for p.peek().kind != blockEnd {
		if len(w.targets) > 0 {
			p.expectOp(",")
		}
		w.targets = append(w.targets, p.target(false))
		p.expectOp("=")
		w.values = append(w.values, p.expression())
	}
	w.body = p.block("endwith")
	return w
}

func (p *parser) signature(m *macroDef) {
	p.expectOp("(")
	for !p.isOp(")") {
		if len(m.params) > 0 {
			p.expectOp(",")
		}
		m.params = append(m.params, p.expectName())
		if p.skipOp("=") {
			m.defaults = append(m.defaults, p.expression())
		} else if len(m.defaults) > 0 {
			fail(p.peek().line, "a parameter without default follows one with default")
		}
	}
	p.expectOp(")")
}

func (p *parser) macroBody(m *macroDef, end string) {
	p.macros = append(p.macros, m)
	m.body = p.block(end)
	p.macros = p.macros[:len(p.macros)-1]
}

// target reads what can be assigned to: a name, several, or with ns an attribute of a namespace.
func (p *parser) target(ns bool, ends ...string) expr {
	t := p.tuple(ends, false, true)
	checkTarget(t, ns, p.peek().line)
	return t
}

func checkTarget(t expr, ns bool, line int) {
	switch t := t.(type) {
	case *name:
		if !slices.Contains([]string{"true", "True", "false", "False", "none", "None"}, t.name) {
			return
		}
	case nsRef:
		if ns {
			return
		}
	case *listOf:
		if t.tuple {
			for _, item := range t.items {
				checkTarget(item, ns, line)
			}
			return
		}
	}
	fail(line, "cannot assign to this")
}
