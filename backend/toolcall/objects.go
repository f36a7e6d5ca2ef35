package toolcall

import "encoding/json"

// objects reads calls written as JSON: {"name": "f", "arguments": {...}}, one or several, or an array of them. Models also write
// "parameters", put the pair into "function", write the arguments as a string, or forget brackets at the end: all that is taken.
type objects struct {
	p      *Parser
	bare   bool     // without a marker: only a tool of the request, with arguments, is a call
	closes []string // what ends the part
	array  bool

	call    *object
	scratch []byte
}

// beginObjects makes o the state of p.
func beginObjects(p *Parser, o *objects) {
	o.p = p
	p.state = o.start
}

func openObjects(closes ...string) func(*Parser) {
	return func(p *Parser) { beginObjects(p, &objects{closes: closes}) }
}

// start is before the first object.
func (o *objects) start() bool {
	p := o.p
	switch {
	case !p.skipSpace():
		return o.waiting()
	case p.held[0] == '[' && !o.array && !o.bare:
		p.consume(1)
		o.array = true
	case p.held[0] == '{':
		o.call = &object{p: p, bare: o.bare}
		p.state = o.inside
	default:
		p.spill()
	}
	return true
}

// waiting is where more text would be needed.
func (o *objects) waiting() bool {
	if o.p.ended {
		o.p.spill()
		return o.p.held != ""
	}
	return false
}

// inside feeds the object.
func (o *objects) inside() bool {
	p := o.p
	for len(p.held) > 0 {
		o.scratch = o.scratch[:0]
		n, st := 0, more
		for n < len(p.held) && st == more {
			before := p.open
			o.scratch, st = o.call.push(o.scratch, p.held[n])
			if st != broken {
				n++
			}
			if before != p.open {
				break
			}
		}
		// What is read before the call begins is kept, the byte that begins it is not needed any more.
		p.consume(n)
		if p.open {
			p.argue(string(o.scratch))
		}
		switch st {
		case complete:
			p.state = o.after
			o.call.finish(true)
			if p.Full() {
				p.leave()
			}
			return true
		case broken:
			return o.fail()
		}
	}
	if p.ended {
		return o.fail()
	}
	return false
}

// fail is an object that cannot go on: it counts where all that is missing are brackets behind the arguments.
func (o *objects) fail() bool {
	p := o.p
	cutOff := p.ended && p.held == "" && !o.call.argued && o.call.text == nil
	if !o.call.begun && (cutOff || !o.call.sufficient()) {
		p.spill()
		return true
	}
	o.call.finish(o.call.argued || !o.call.begun)
	p.state = o.after
	if p.Full() {
		p.leave()
	}
	return true
}

// after is behind an object.
func (o *objects) after() bool {
	p := o.p
	if !p.skipSpace() {
		if p.ended {
			p.leave()
			return false
		}
		return false
	}
	for _, end := range o.closes {
		ok, sure := p.accept(end)
		if ok {
			p.leave()
			return true
		}
		if !sure {
			return false
		}
	}
	switch b := p.held[0]; {
	case b == '{':
		o.call = &object{p: p, bare: o.bare}
		p.state = o.inside
	case b == ',' || b == ';' || b == '}':
		p.consume(1) // a bracket too many is common
	case b == ']' && o.array:
		p.consume(1)
		o.array = false
	default:
		p.leave()
	}
	return true
}

// object reads one call.
type object struct {
	p    *Parser
	bare bool

	nest  int // open objects: 2 within "function"
	mode  int
	key   []byte
	value *scanner
	into  int

	name      []byte // as JSON
	arguments []byte // what came before the name
	text      []byte // arguments that are a JSON string
	streaming bool   // the arguments are an object that has begun
	argued    bool   // and ended
	begun     bool
}

const (
	wantOpen = iota
	wantKey
	inKey
	wantColon
	wantValue
	inValue
	afterValue
)

const (
	intoNothing = iota
	intoName
	intoArguments
	intoText
)

// push goes on with b and appends to dst what belongs to the arguments of a call that has begun.
func (o *object) push(dst []byte, b byte) ([]byte, status) {
	switch o.mode {
	case inKey:
		return o.inKey(dst, b)
	case inValue:
		return o.inValue(dst, b)
	}
	if isSpace(b) {
		return dst, more
	}
	switch o.mode {
	case wantOpen:
		o.nest++
		o.mode = wantKey
		return dst, more
	case wantKey:
		if b == '"' {
			o.key, o.mode = o.key[:0], inKey
			return dst, more
		}
		return o.afterValue(dst, b)
	case wantColon:
		if b != ':' {
			return dst, broken
		}
		o.mode = wantValue
		return dst, more
	case wantValue:
		return o.begin(dst, b)
	}
	return o.afterValue(dst, b)
}

func (o *object) inKey(dst []byte, b byte) ([]byte, status) {
	switch {
	case b == '"':
		o.mode = wantColon
		if o.bare && !knownKey(string(o.key)) {
			return dst, broken
		}
	case b == '\\' || b < ' ' || len(o.key) > 64:
		return dst, broken // no key of ours
	default:
		o.key = append(o.key, b)
	}
	return dst, more
}

func knownKey(key string) bool {
	switch key {
	case "name", "arguments", "parameters", "args", "function", "type", "id":
		return true
	}
	return false
}

func (o *object) afterValue(dst []byte, b byte) ([]byte, status) {
	switch {
	case b == ',' && o.mode == afterValue:
		o.mode = wantKey
	case b == '}':
		o.mode = afterValue
		if o.nest--; o.nest == 0 {
			if o.sufficient() || o.begun {
				return dst, complete
			}
			return dst, broken
		}
	default:
		return dst, broken
	}
	return dst, more
}

// begin is the first byte of a value.
func (o *object) begin(dst []byte, b byte) ([]byte, status) {
	o.into = intoNothing
	switch key := string(o.key); {
	case key == "function" && b == '{' && o.nest == 1:
		o.nest++
		o.mode = wantKey
		return dst, more
	case (key == "name" || key == "function") && b == '"' && o.name == nil:
		o.into = intoName
	case (key == "arguments" || key == "parameters" || key == "args") && !o.streaming && o.text == nil:
		switch b {
		case '{':
			o.into, o.streaming = intoArguments, true
		case '"':
			o.into = intoText
		case 'n', 'N': // null
		default:
			return dst, broken
		}
	}
	o.value, o.mode = &scanner{}, inValue
	if o.into == intoArguments && o.name != nil && !o.start() {
		return dst, broken
	}
	return o.inValue(dst, b)
}

// start gives the call's first piece, when its name will do.
func (o *object) start() bool {
	name := o.called()
	if name == "" {
		return false
	}
	o.begun = true
	o.p.begin(name)
	return true
}

// called is the call's name; empty when it is none.
func (o *object) called() string {
	var name string
	if json.Unmarshal(o.name, &name) != nil {
		return ""
	}
	if _, known := o.p.tools[name]; o.bare && !known {
		return ""
	}
	return name
}

func (o *object) inValue(dst []byte, b byte) ([]byte, status) {
	var st status
	switch {
	case o.into == intoName:
		o.name, st = o.value.push(o.name, b)
	case o.into == intoText:
		o.text, st = o.value.push(o.text, b)
	case o.into == intoArguments && o.begun:
		dst, st = o.value.push(dst, b)
	case o.into == intoArguments:
		o.arguments, st = o.value.push(o.arguments, b)
	default:
		var nothing [16]byte
		_, st = o.value.push(nothing[:0], b)
	}
	switch st {
	case complete, past:
		o.mode = afterValue
		o.argued = o.argued || o.into == intoArguments
		if o.bare && o.into == intoName && o.called() == "" {
			return dst, broken
		}
		if st == past {
			return o.push(dst, b)
		}
		return dst, more
	}
	return dst, st
}

// sufficient tells whether an object that has not begun is a call nevertheless: it has a name, and arguments that came before it or
// in a string, or that it does without.
func (o *object) sufficient() bool {
	if o.called() == "" || o.mode != afterValue || o.streaming && !o.argued {
		return false
	}
	if o.text != nil {
		return o.unquoted() != ""
	}
	return o.argued || !o.bare
}

// unquoted is the object in the string of arguments, written again; empty without one.
func (o *object) unquoted() string {
	var text string
	if json.Unmarshal(o.text, &text) != nil {
		return ""
	}
	return rewrite(text)
}

// rewrite is text, a JSON object, without white space; empty when it is none.
func rewrite(text string) string {
	var s scanner
	var out []byte
	for i := range len(text) {
		var st status
		out, st = s.push(out, text[i])
		switch {
		case len(out) > 0 && out[0] != '{', st == broken, st == past:
			return ""
		case st == complete:
			return string(out)
		}
	}
	return ""
}

// finish gives the rest of the call.
func (o *object) finish(whole bool) {
	if !o.begun {
		o.start()
		switch {
		case o.argued:
			o.p.argue(string(o.arguments))
		case o.text != nil:
			o.p.argue(o.unquoted())
		default:
			o.p.argue("{}")
		}
	}
	o.p.end(whole)
}
