// Package stop turns the bytes of generated tokens into text that may be shown: always whole characters, never a stop
// string nor the beginning of one.
//
//	m := stop.NewMatcher([]string{"</s>", "\nUser:"})
//	for token := range tokens {
//		text, stopped := m.Push(token)
//		show(text)
//		if stopped {
//			return m.Which()
//		}
//	}
//	show(m.Flush())
//
// What is shown does not depend on how the bytes were cut into tokens, only when it is shown does.
package stop

import (
	"strings"
	"unicode/utf8"
)

// Matcher holds back what cannot be shown yet. It belongs to one answer and one goroutine.
type Matcher struct {
	nodes   []node // an Aho-Corasick automaton over the stop strings; nodes[0] is its root
	stops   []string
	state   int32  // the longest suffix of the text so far that begins a stop string
	partial []byte // an incomplete character
	held    []byte // whole characters not shown yet: as long as state is deep
	which   string
	stopped bool
}

// NewMatcher returns a matcher for these stop strings; empty ones are left out. With none it only keeps characters whole.
func NewMatcher(stops []string) *Matcher {
	m := &Matcher{nodes: []node{{stop: -1}}}
	for _, s := range stops {
		if s = strings.ToValidUTF8(s, "\uFFFD"); s != "" {
			m.add(s)
		}
	}
	m.link()
	return m
}

// Resume makes text, which another Matcher of the same strings held back at its end, held back here.
func (m *Matcher) Resume(text string) {
	for _, char := range text {
		m.feed(utf8.AppendRune(nil, char))
	}
}

// Push takes the bytes of the next token and returns the text that has become certain, which may be empty. Stopped says
// that a stop string has come: the text ends before it and the answer is over; later calls return nothing.
//
// The stop string that is complete first counts; of several that are complete at the same character, the longest.
func (m *Matcher) Push(token []byte) (text string, stopped bool) {
	if m.stopped {
		return "", true
	}
	m.partial = append(m.partial, token...)
	used := 0
	for used < len(m.partial) && !m.stopped {
		size, kind := next(m.partial[used:])
		if kind == incomplete {
			break
		}
		if kind == invalid {
			m.feed(replacement)
		} else {
			m.feed(m.partial[used : used+size])
		}
		used += size
	}
	m.partial = m.partial[:copy(m.partial, m.partial[used:])]
	return m.release(int(m.nodes[m.state].depth)), m.stopped
}

// Flush ends the answer and returns what was still held back; an incomplete character becomes U+FFFD. After a stop string it returns nothing.
func (m *Matcher) Flush() string {
	if m.stopped {
		return ""
	}
	if len(m.partial) > 0 {
		m.partial = m.partial[:0]
		m.feed(replacement)
	}
	return m.release(0)
}

// Which is the stop string that ended the answer, or "" while there is none.
func (m *Matcher) Which() string { return m.which }

// release returns the held text except its last keep bytes. They begin a stop string, so they begin with a whole character.
func (m *Matcher) release(keep int) string {
	if m.stopped {
		keep = 0 // feed has cut the stop string off
	}
	n := len(m.held) - keep
	text := string(m.held[:n])
	m.held = m.held[:copy(m.held, m.held[n:])]
	return text
}

// feed takes one whole character.
func (m *Matcher) feed(char []byte) {
	m.held = append(m.held, char...)
	for _, b := range char {
		m.state = m.step(m.state, b)
	}
	if i := m.nodes[m.state].stop; i >= 0 {
		m.which, m.stopped = m.stops[i], true
		m.held = m.held[:len(m.held)-len(m.which)]
	}
}
