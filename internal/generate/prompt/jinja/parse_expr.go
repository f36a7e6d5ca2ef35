package jinja

import (
	"slices"
	"strings"
)

// tuple reads one expression or several with commas, up to a name in ends. Target reads names only.
func (p *parser) tuple(ends []string, conditional, target bool) expr {
	var items []expr
	many := false
	for {
		if p.tupleEnd(ends) {
			break
		}
		switch {
		case target:
			items = append(items, p.targetItem())
		case conditional:
			items = append(items, p.expression())
		default:
			items = append(items, p.or())
		}
		if !p.skipOp(",") {
			break
		}
		many = true
	}
	if many {
		return &listOf{items, true}
	}
	if len(items) == 0 {
		fail(p.peek().line, "expected an expression, got %q", p.peek().text)
	}
	return items[0]
}

func (p *parser) tupleEnd(ends []string) bool {
	k := p.peek().kind
	return k == outputEnd || k == blockEnd || p.isOp(")") || p.isName(ends...)
}

func (p *parser) targetItem() expr {
	if p.skipOp("(") {
		p.enter()
		defer p.leave()
		t := p.tuple(nil, false, true)
		p.expectOp(")")
		return t
	}
	n := p.expectName()
	if p.skipOp(".") {
		return nsRef{n, p.expectName()}
	}
	return &name{n}
}

// expression reads one expression, with if and else.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	x := p.or()
	for p.skipName("if") {
		c := &condition{test: p.or(), then: x}
		if p.skipName("else") {
			c.otherwise = p.expression()
		}
		x = c
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for p.skipName("or") {
		x = &or{x, p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.skipName("and") {
		x = &and{x, p.not()}
	}
	return x
}

func (p *parser) not() expr {
	if p.skipName("not") {
		p.enter()
		defer p.leave()
		return &not{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	x := p.binary(0)
	var rest []comparison
	for {
		op := p.peek().text
		switch {
		case p.peek().kind == operatorToken && slices.Contains([]string{"==", "!=", "<", ">", "<=", ">="}, op):
			p.next()
		case p.isName("in"):
			p.next()
		case p.isName("not") && p.tokens[p.pos+1].kind == nameToken && p.tokens[p.pos+1].text == "in":
			p.pos += 2
			op = "not in"
		case len(rest) > 0:
			return &compare{x, rest}
		default:
			return x
		}
		rest = append(rest, comparison{op, p.binary(0)})
	}
}

var precedence = [][]string{{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}

func (p *parser) binary(level int) expr {
	if level == len(precedence) {
		return p.unary(true)
	}
	x := p.binary(level + 1)
	for p.peek().kind == operatorToken && slices.Contains(precedence[level], p.peek().text) {
		op := p.next().text
		x = &binary{op, x, p.binary(level + 1)}
	}
	return x
}

func (p *parser) unary(filters bool) expr {
	var x expr
	if p.isOp("-") || p.isOp("+") {
		p.enter()
		op := p.next().text
		x = &unary{op, p.unary(false)}
		p.leave()
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if filters {
		x = p.filtersAndTests(x)
	}
	return x
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case nameToken:
		switch t.text {
		case "true", "True":
			return &constant{true}
		case "false", "False":
			return &constant{false}
		case "none", "None":
			return &constant{nil}
		}
		p.noteName(t.text)
		return &name{t.text}
	case stringToken:
		parts := []string{t.text}
		for p.peek().kind == stringToken {
			parts = append(parts, p.next().text)
		}
		return &constant{strings.Join(parts, "")}
	case integerToken, floatToken:
		return &constant{t.num}
	case operatorToken:
		switch t.text {
		case "(":
			return p.parentheses()
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	fail(t.line, "unexpected %q", t.text)
	return nil
}

// noteName remembers which macros take any arguments: those that use them.
func (p *parser) noteName(n string) {
	if len(p.macros) == 0 {
		return
	}
	m := p.macros[len(p.macros)-1]
	m.extra = m.extra || n == "varargs"
	m.extraKey = m.extraKey || n == "kwargs"
}

func (p *parser) parentheses() expr {
	p.enter()
	defer p.leave()
	if p.skipOp(")") {
		return &listOf{nil, true}
	}
	x := p.tuple(nil, true, false)
	p.expectOp(")")
	return x
}

func (p *parser) list() expr {
	l := &listOf{}
	for !p.skipOp("]") {
		if len(l.items) > 0 {
			p.expectOp(",")
			if p.skipOp("]") {
				break
			}
		}
		l.items = append(l.items, p.expression())
	}
	return l
}

func (p *parser) dict() expr {
	d := &dictOf{}
	for !p.skipOp("}") {
		if len(d.keys) > 0 {
			p.expectOp(",")
			if p.skipOp("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.expectOp(":")
		d.values = append(d.values, p.expression())
	}
	return d
}

func (p *parser) postfix(x expr) expr {
	for {
		switch {
		case p.skipOp("."):
			t := p.next()
			switch t.kind {
			case nameToken:
				x = &attribute{x, t.text}
			case integerToken:
				x = &item{x, &constant{t.num}}
			default:
				fail(t.line, "expected a name or a number after the dot")
			}
		case p.skipOp("["):
			x = &item{x, p.subscript()}
		case p.isOp("("):
			x = &call{x, p.arguments()}
		default:
			return x
		}
	}
}

func (p *parser) subscript() expr {
	var parts []expr
	for !p.skipOp("]") {
		if len(parts) > 0 {
			p.expectOp(",")
		}
		parts = append(parts, p.slice())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	for _, part := range parts {
		if _, ok := part.(*slicing); ok {
			fail(p.peek().line, "a slice cannot stand beside other subscripts")
		}
	}
	return &listOf{parts, true}
}

func (p *parser) slice() expr {
	s := &slicing{}
	if !p.isOp(":") {
		x := p.expression()
		if !p.isOp(":") {
			return x
		}
		s.from = x
	}
	p.next()
	if !p.isOp(":") && !p.isOp("]") && !p.isOp(",") {
		s.to = p.expression()
	}
	if p.skipOp(":") && !p.isOp("]") && !p.isOp(",") {
		s.step = p.expression()
	}
	return s
}

func (p *parser) arguments() arguments {
	var a arguments
	p.expectOp("(")
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			p.expectOp(",")
			if p.skipOp(")") {
				break
			}
		}
		switch {
		case p.skipOp("*"):
			a.star = p.expression()
		case p.skipOp("**"):
			a.dict = p.expression()
		case p.peek().kind == nameToken && p.tokens[p.pos+1].kind == operatorToken && p.tokens[p.pos+1].text == "=":
			n := p.next().text
			p.next()
			a.kwargs = append(a.kwargs, keyword{n, p.expression()})
		default:
			if a.star != nil || a.dict != nil || len(a.kwargs) > 0 {
				fail(p.peek().line, "a positional argument follows a named one")
			}
			a.args = append(a.args, p.expression())
		}
	}
	return a
}

func (p *parser) filtersAndTests(x expr) expr {
	for {
		switch {
		case p.isOp("|"):
			x = p.filters(x, false)
		case p.skipName("is"):
			x = p.test(x)
		case p.isOp("("):
			x = &call{x, p.arguments()}
		default:
			return x
		}
	}
}

// filters reads | name | name(...). Begun says that the first bar is not written, as in {% filter upper %}.
func (p *parser) filters(x expr, begun bool) expr {
	for begun || p.skipOp("|") {
		begun = false
		f := &filter{x: x, name: p.expectName()}
		if p.isOp("(") {
			f.arguments = p.arguments()
		}
		x = f
	}
	return x
}

func (p *parser) test(x expr) expr {
	negated := p.skipName("not")
	t := &test{x: x, name: p.expectName()}
	k := p.peek()
	switch {
	case p.isOp("("):
		t.arguments = p.arguments()
	case k.kind == nameToken && !p.isName("else", "or", "and"), k.kind == stringToken, k.kind == integerToken, k.kind == floatToken, p.isOp("["), p.isOp("{"):
		if p.isName("is") {
			fail(k.line, "tests cannot be chained with is")
		}
		t.args = []expr{p.postfix(p.primary())}
	}
	if negated {
		return &not{t}
	}
	return t
}
