package toolcall

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"signalbox/backend/llm"
)

// Options are what a Parser must know of the request.
type Options struct {
	Tools  json.RawMessage // as in llm.Request; nil: calls are not looked for, their markers pass as text
	Prompt string          // how the prompt ends: whether a thought is open there
	Most   int             // the most calls; 0: no limit
	ID     func() string   // makes ids; nil: random ones
}

// Parser reads one answer. What it gives is valid UTF-8, whatever the cuts.
type Parser struct {
	style Style
	most  int
	id    func() string
	tools map[string]tool // nil: none

	cut   string // the beginning of a character
	held  string // text that is not decided
	ended bool   // no more text comes
	state func() bool
	raw   strings.Builder // of the call that is read, until it has begun
	lead  lead            // what that call began with
	out   []llm.Delta

	thinking bool
	fresh    bool   // white space at the beginning is dropped: a marker was there
	begun    bool   // something was shown: a bare call may not follow
	space    string // at the end of what was shown; dropped before a marker
	marks    []string

	calls  int
	open   bool // a call has begun
	broken bool // one was
	args   []byte
}

// lead is what is needed when no call follows.
type lead struct {
	word  string // the beginning, where it is a word like others rather than a marker
	space string
	fresh bool
}

// Parser returns a parser for one answer.
func (s Style) Parser(o Options) *Parser {
	p := &Parser{style: s, most: o.Most, id: o.ID, tools: readTools(o.Tools)}
	if p.id == nil {
		p.id = NewID
	}
	if s.family == harmony {
		p.state = func() bool { return harmonyStart(p) }
		return p
	}
	p.marks = p.allMarks()
	p.state = p.plain
	p.thinking = s.opened(o.Prompt)
	p.fresh = p.thinking
	return p
}

// allMarks lists what the plain state looks for.
func (p *Parser) allMarks() []string {
	var list []string
	if t := p.style.thought; t.open != "" {
		list = append(list, t.open, t.close)
	}
	if p.tools != nil {
		f := p.style.of()
		list = append(list, f.markers...)
		for open := range f.opens {
			list = append(list, open)
		}
	}
	return list
}

// Push goes on with text and returns what is certain.
func (p *Parser) Push(text string) []llm.Delta {
	text = p.cut + text
	whole := wholeCharacters(text)
	p.cut = text[whole:]
	p.held += valid(text[:whole])
	for p.state() {
	}
	return p.take()
}

// Finish returns what was held back. Nothing may be pushed afterwards.
func (p *Parser) Finish() []llm.Delta {
	p.held += valid(p.cut)
	p.cut, p.ended = "", true
	for p.state() {
	}
	if !p.thinking && p.space != "" {
		p.emit(llm.Delta{Text: p.space})
	}
	return p.take()
}

// Calls is the number of calls that have begun.
func (p *Parser) Calls() int { return p.calls }

// Broken tells whether a call broke off.
func (p *Parser) Broken() bool { return p.broken }

// Full tells whether all the calls that Options.Most allows are complete: what follows is not looked at.
func (p *Parser) Full() bool { return p.most > 0 && p.calls >= p.most && !p.open }

// Thinking tells whether the answer is within a thought.
func (p *Parser) Thinking() bool { return p.thinking }

// NewID returns a fresh id for a call.
func NewID() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, 8)
	rand.Read(b)
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return "call_" + string(b)
}

// wholeCharacters is the length of text without the beginning of a character at its end.
func wholeCharacters(text string) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if b := text[len(text)-back]; utf8.RuneStart(b) {
			if !utf8.FullRuneInString(text[len(text)-back:]) {
				return len(text) - back
			}
			break
		}
	}
	return len(text)
}

// valid replaces each byte that is no part of a character.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

func (p *Parser) take() []llm.Delta {
	out := p.out
	p.out = nil
	return out
}

// emit adds d, to the last piece where both are of one kind.
func (p *Parser) emit(d llm.Delta) {
	if n := len(p.out); n > 0 {
		last := &p.out[n-1]
		switch {
		case d.Text != "" && last.Text != "":
			last.Text += d.Text
			return
		case d.Thinking != "" && last.Thinking != "":
			last.Thinking += d.Thinking
			return
		case len(d.ToolCalls) == 1 && len(last.ToolCalls) == 1 && d.ToolCalls[0].ID == "" && last.ToolCalls[0].Index == d.ToolCalls[0].Index:
			c := &last.ToolCalls[0]
			c.Arguments += d.ToolCalls[0].Arguments
			c.Done = d.ToolCalls[0].Done
			return
		}
	}
	p.out = append(p.out, d)
}

// show gives plain text. White space waits for what follows it.
func (p *Parser) show(text string) {
	if p.fresh {
		if text = strings.TrimLeft(text, " \t\r\n"); text == "" {
			return
		}
		p.fresh = false
	}
	text = p.space + text
	body := strings.TrimRight(text, " \t\r\n")
	p.space = text[len(body):]
	if body == "" {
		return
	}
	p.begun = p.begun || !p.thinking
	if p.thinking {
		p.emit(llm.Delta{Thinking: body})
	} else {
		p.emit(llm.Delta{Text: body})
	}
}

// plain is the state outside of calls.
func (p *Parser) plain() bool {
	if p.bareCall() {
		return true
	}
	at, mark, sure := p.find(p.marks)
	if at < 0 {
		p.show(p.held)
		p.held = ""
		return false
	}
	p.show(p.held[:at])
	p.held = p.held[at:]
	if !sure {
		return false
	}
	p.held = p.held[len(mark):]
	p.lead = lead{"", p.space, p.fresh}
	switch open := p.style.of().opens[mark]; {
	case mark == p.style.thought.open && mark != "":
		p.space, p.fresh = "", true
		p.thinking = true
		if p.style.thought.skip != "" {
			p.state = p.skipWord
		}
	case mark == p.style.thought.close && mark != "":
		p.space, p.fresh = "", true
		p.thinking = false
	case open != nil && p.tools != nil:
		p.space, p.fresh = "", true
		p.raw.Reset()
		open(p)
	}
	return true
}

// skipWord drops the word after a thought's marker.
func (p *Parser) skipWord() bool {
	word := p.style.thought.skip
	if len(p.held) < len(word) && strings.HasPrefix(word, p.held) && !p.ended {
		return false
	}
	p.held = strings.TrimPrefix(p.held, word)
	p.state = p.plain
	return true
}

// find returns where the first of marks is in held, and which; where only the beginning of one is, at the end, it is not sure. At is
// -1 without any.
func (p *Parser) find(marks []string) (at int, mark string, sure bool) {
	at = -1
	for _, m := range marks {
		if i := strings.Index(p.held, m); i >= 0 && (at < 0 || i < at || i == at && len(m) > len(mark)) {
			at, mark, sure = i, m, true
		}
	}
	if p.ended {
		return at, mark, sure
	}
	for _, m := range marks {
		if i := beginning(p.held, m); i >= 0 && (at < 0 || i < at) {
			at, mark, sure = i, m, false
		}
	}
	return at, mark, sure
}

// beginning is where a part of mark, but not all of it, ends text; -1 for nowhere.
func beginning(text, mark string) int {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return len(text) - n
		}
	}
	return -1
}

// bareCall begins a call that has no marker: an object at the beginning of an answer. It tells whether it did.
func (p *Parser) bareCall() bool {
	if p.tools == nil || !p.style.of().bare || p.begun || p.thinking {
		return false
	}
	rest := strings.TrimLeft(p.held, " \t\r\n")
	if rest == "" || rest[0] != '{' {
		return false
	}
	p.lead = lead{"", p.space, p.fresh}
	p.space = ""
	p.raw.Reset()
	beginObjects(p, &objects{bare: true})
	return true
}

// consume takes n bytes of held. They are kept until the call has begun, in case it is none.
func (p *Parser) consume(n int) {
	if !p.open {
		p.raw.WriteString(p.held[:n])
	}
	p.held = p.held[n:]
}

// spill gives up a call: what was read of it is text after all.
func (p *Parser) spill() {
	p.begun = true // it is not to be read as a bare call again
	p.space, p.fresh = p.lead.space, p.lead.fresh
	p.show(p.lead.word)
	p.lead = lead{}
	p.held = p.raw.String() + p.held
	p.raw.Reset()
	p.state = p.plain
}

// leave is the end of a call.
func (p *Parser) leave() {
	p.raw.Reset()
	p.space, p.fresh, p.begun = "", true, true
	p.state = p.plain
	if p.Full() {
		p.state = p.discard
	}
}

func (p *Parser) discard() bool {
	p.held = ""
	return false
}

// begin gives the first piece of a call.
func (p *Parser) begin(name string) {
	p.open, p.thinking = true, false
	p.emit(llm.Delta{ToolCalls: []llm.ToolCallDelta{{Index: p.calls, ID: p.id(), Name: name}}})
	p.calls++
}

// argue gives a fragment of the arguments.
func (p *Parser) argue(fragment string) {
	if fragment != "" {
		p.emit(llm.Delta{ToolCalls: []llm.ToolCallDelta{{Index: p.calls - 1, Arguments: fragment}}})
	}
}

// end gives the last piece of a call.
func (p *Parser) end(whole bool) {
	p.open, p.broken = false, p.broken || !whole
	p.lead = lead{fresh: true}
	p.emit(llm.Delta{ToolCalls: []llm.ToolCallDelta{{Index: p.calls - 1, Done: true}}})
	p.raw.Reset()
}

// whole gives calls that were read to their end.
func (p *Parser) whole(calls []call) {
	for _, c := range calls {
		if p.most > 0 && p.calls >= p.most {
			return
		}
		p.begin(c.name)
		p.argue(c.arguments)
		p.end(true)
	}
}

// skipSpace takes white space and tells whether something follows it.
func (p *Parser) skipSpace() bool {
	n := 0
	for n < len(p.held) && isSpace(p.held[n]) {
		n++
	}
	p.consume(n)
	return p.held != ""
}

// accept takes word where held begins with it. It is not sure while only the beginning of it is there.
func (p *Parser) accept(word string) (ok, sure bool) {
	if strings.HasPrefix(p.held, word) {
		p.consume(len(word))
		return true, true
	}
	return false, p.ended || !strings.HasPrefix(word, p.held)
}

// until takes all up to the first of marks, and which follows; not ok while there is none.
func (p *Parser) until(marks ...string) (before, mark string, ok bool) {
	at, mark, sure := p.find(marks)
	if at < 0 || !sure {
		return "", "", false
	}
	before = p.held[:at]
	p.consume(at)
	return before, mark, true
}
