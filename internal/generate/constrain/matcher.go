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
	ends       []int32 // mask of the end tokens
	done       bool

	// Of the free part, while free is true.
	free   bool
	after  []byte
	seen   []byte // the end of what came, as long as after may begin in it
	open   []int32
	blanks bool // a token of blanks may come before the constrained part
}

func newMatcher(g *xgrammar.Matcher, v *Vocabulary, words int, after string) *Matcher {
	m := &Matcher{grammar: g, vocabulary: v, mask: make([]int32, words), ends: make([]int32, words)}
	for _, id := range v.Ends {
		m.ends[id/32] |= 1 << (id % 32)
	}
	if after != "" {
		m.free, m.after = true, []byte(after)
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
	if m.free {
		return m.open, nil
	}
	constrains, err := m.grammar.FillMask(m.mask)
	if err != nil {
		return nil, llm.Errorf(llm.CodeEngine, "hold the answer to its form: %w", err)
	}
	if !constrains {
		return nil, nil
	}
	if m.blanks {
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
		if blank(text) {
			m.mask[id/32] |= 1 << (id % 32)
		}
	}
}

func blank(text []byte) bool { return len(text) > 0 && len(bytes.Trim(text, " \n")) == 0 }

// Accept goes on with token id, which the last Mask must have allowed.
func (m *Matcher) Accept(id int32) error {
	if m.free {
		return m.listen(id)
	}
	if m.blanks {
		m.blanks = false
		if int(id) < len(m.vocabulary.Text) && blank(m.vocabulary.Text[id]) {
			return nil
		}
	}
	ok, err := m.grammar.Accept(id)
	if err != nil {
		return llm.Errorf(llm.CodeEngine, "hold the answer to its form: %w", err)
	}
	if !ok {
		return llm.Errorf(llm.CodeInternal, "token %d is not allowed here", id)
	}
	m.done = slices.Contains(m.vocabulary.Ends, id)
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
	m.free, m.blanks, m.seen = false, true, nil
	rest = bytes.TrimLeft(rest, " \n")
	if len(rest) == 0 {
		return nil
	}
	m.blanks = false
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
