package constrain

import (
	"bytes"
	"fmt"
	"slices"

	"signalbox/backend/llm"
	"signalbox/internal/xgrammar"
)

// Matcher follows one answer. It belongs to one goroutine.
type Matcher struct {
	grammar    *xgrammar.Matcher
	vocabulary *Vocabulary
	mask       []int32
	stops      []int32 // tokens that end the answer
	ends       []int32 // their mask
	done       bool

	// Of the free part and what stands between it and the constrained one.
	state state
	after []byte
	seen  []byte // the end of what came, as long as after may begin in it
	open  []int32
}

// state is where an answer with a free part is.
type state int

const (
	held   state = iota // in the constrained part
	free                // before its beginning
	blank               // behind after: a token of blanks may come
	blanks              // it came
)

func newMatcher(g *xgrammar.Matcher, v *Vocabulary, stops []int32, words int, after string) *Matcher {
	m := &Matcher{grammar: g, vocabulary: v, stops: stops, mask: make([]int32, words), ends: make([]int32, words)}
	for _, id := range stops {
		m.ends[id/32] |= 1 << (id % 32)
	}
	if after != "" {
		m.state, m.after = free, []byte(after)
		m.open = make([]int32, words)
		for i := range m.open {
			m.open[i] = ^m.ends[i] // an answer without its constrained part is none
		}
	}
	return m
}

// Mask tells which tokens may come next: token i if bit i%32 of word i/32 is set; nil for all. It is valid until the next call.
// When only the end may come, Done is true afterwards.
func (m *Matcher) Mask() ([]int32, error) {
	if m.done {
		return m.ends, nil
	}
	if m.state == free {
		return m.open, nil
	}
	constrains, err := m.grammar.FillMask(m.mask)
	if err != nil {
		return nil, llm.Errorf(llm.CodeEngine, "hold the answer to its form: %w", err)
	}
	if !constrains {
		return nil, nil
	}
	if m.state == blank {
		m.allowBlanks()
		return m.mask, nil
	}
	more, end := m.allowed()
	switch {
	case !more && !end:
		return nil, llm.Errorf(llm.CodeInvalid, "no token of this model can go on: it cannot write what is asked for")
	case !more:
		m.done = true
	}
	return m.mask, nil
}

// allowed tells whether the mask allows text, and whether it allows the end.
func (m *Matcher) allowed() (more, end bool) {
	for i, word := range m.mask {
		more = more || word&^m.ends[i] != 0
		end = end || word&m.ends[i] != 0
	}
	return more, end
}

func (m *Matcher) allowBlanks() {
	for id, text := range m.vocabulary.Text {
		if isBlank(text) {
			m.mask[id/32] |= 1 << (id % 32)
		}
	}
}

func isBlank(text []byte) bool { return len(text) > 0 && len(bytes.Trim(text, " \n")) == 0 }

// Accept goes on with token id: one that the last Mask allowed, or in the free part and right behind it any that was forced.
func (m *Matcher) Accept(id int32) error {
	if m.state == free {
		return m.listen(id)
	}
	if m.state != held && int(id) < len(m.vocabulary.Text) && isBlank(m.vocabulary.Text[id]) {
		m.state = blanks
		return nil
	}
	m.state = held
	ok, err := m.grammar.Accept(id)
	if err != nil {
		return llm.Errorf(llm.CodeEngine, "hold the answer to its form: %w", err)
	}
	if !ok {
		return llm.Errorf(llm.CodeInternal, "token %d is not allowed here", id)
	}
	m.done = slices.Contains(m.stops, id)
	return nil
}

// listen waits for the end of the free part.
func (m *Matcher) listen(id int32) error {
	m.seen = append(m.seen, m.name(id)...)
	_, rest, found := bytes.Cut(m.seen, m.after)
	if !found {
		if surplus := len(m.seen) - len(m.after) + 1; surplus > 0 {
			m.seen = append(m.seen[:0], m.seen[surplus:]...)
		}
		return nil
	}
	m.state, m.seen = blank, nil
	rest = bytes.TrimLeft(rest, " \n")
	if len(rest) == 0 {
		return nil
	}
	m.state = held
	ok, err := m.grammar.AcceptBytes(rest)
	if err == nil && !ok {
		err = fmt.Errorf("%q does not begin it", rest)
	}
	if err != nil {
		return llm.Errorf(llm.CodeEngine, "begin the constrained part behind %q: %w", m.after, err)
	}
	return nil
}

// name is what token id is called, special ones too.
func (m *Matcher) name(id int32) []byte {
	for _, list := range [][][]byte{m.vocabulary.Text, m.vocabulary.Names} {
		if int(id) < len(list) && len(list[id]) > 0 {
			return list[id]
		}
	}
	return nil
}

// Done tells whether the answer is complete: it was ended, or nothing but its end may come.
func (m *Matcher) Done() bool { return m.done }

// Close releases the matcher. It may be called twice.
func (m *Matcher) Close() { m.grammar.Close() }
