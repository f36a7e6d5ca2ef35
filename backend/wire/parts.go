package wire

import (
	"bytes"
	"encoding/json"
	"strings"

	"signalbox/backend/llm"
)

// Kinds of parts.
const (
	Text     = "text"
	Thinking = "thinking"
	Call     = "call"
)

// Part is one stretch of an answer: text, thinking, or one tool call.
type Part struct {
	Kind string
	ID   string // of a call
	Name string // of a call
	Nth  int    // of a call: how many came before it
	call int    // the engine's index of a call
	text []byte
}

// Text is the part's text so far; of a call, its arguments as far as they are known.
func (p Part) Text() string { return string(p.text) }

// Arguments are a call's arguments when they are a whole JSON object: an answer cut short may leave half of one.
func (p Part) Arguments() (json.RawMessage, bool) {
	text := bytes.TrimSpace(p.text)
	if len(text) == 0 {
		return json.RawMessage("{}"), true
	}
	return text, text[0] == '{' && json.Valid(text)
}

// Steps of a part's life.
const (
	Open  = "open"
	More  = "more"
	Close = "close"
)

// Step is what one delta does to one part. Piece is what More adds.
type Step struct {
	What  string
	Index int // of the part
	Piece string
}

// Parts follows an answer. Parts come one after the other: a new one closes the one before.
type Parts struct {
	List     []Part
	Logprobs []llm.TokenLogprob
	open     bool // the last one is
	calls    int
}

// Add takes a delta and tells what it does.
func (p *Parts) Add(d llm.Delta) []Step {
	p.Logprobs = append(p.Logprobs, d.Logprobs...)
	var steps []Step
	if d.Thinking != "" {
		steps = p.more(steps, Part{Kind: Thinking}, d.Thinking)
	}
	if d.Text != "" {
		steps = p.more(steps, Part{Kind: Text}, d.Text)
	}
	for _, c := range d.ToolCalls {
		steps = p.more(steps, Part{Kind: Call, call: c.Index, ID: c.ID, Name: c.Name}, c.Arguments)
		if c.Done {
			steps = p.close(steps)
		}
	}
	return steps
}

func (p *Parts) more(steps []Step, part Part, piece string) []Step {
	if !p.isOpen(part) {
		if part.Kind == Call && part.Name == "" {
			return steps // a late piece of a call that is closed
		}
		steps = p.close(steps)
		if part.Kind == Call {
			part.Nth = p.calls
			p.calls++
		}
		p.List, p.open = append(p.List, part), true
		steps = append(steps, Step{Open, len(p.List) - 1, ""})
	}
	if piece == "" {
		return steps
	}
	last := len(p.List) - 1
	p.List[last].text = append(p.List[last].text, piece...)
	return append(steps, Step{More, last, piece})
}

func (p *Parts) isOpen(part Part) bool {
	if !p.open {
		return false
	}
	last := p.List[len(p.List)-1]
	return last.Kind == part.Kind && (part.Kind != Call || last.call == part.call)
}

func (p *Parts) close(steps []Step) []Step {
	if !p.open {
		return steps
	}
	p.open = false
	return append(steps, Step{Close, len(p.List) - 1, ""})
}

// End closes what is open.
func (p *Parts) End() []Step { return p.close(nil) }

// Join is all text of a kind.
func (p *Parts) Join(kind string) string {
	var b strings.Builder
	for _, part := range p.List {
		if part.Kind == kind {
			b.Write(part.text)
		}
	}
	return b.String()
}

// Calls are the tool calls.
func (p *Parts) Calls() []Part {
	var calls []Part
	for _, part := range p.List {
		if part.Kind == Call {
			calls = append(calls, part)
		}
	}
	return calls
}
