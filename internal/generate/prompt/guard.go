package prompt

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A document that says <|im_end|> must not end the turn it stands in. So before rendering each special-token literal in
// a message or a tool becomes one private-use character, which no template touches; afterwards the text is cut there and
// the literal put back as a segment of its own, for the tokenizer to spell out.
//
// Private-use characters that somebody wrote go with an escape before them, so that no mark can be forged.
const firstMark = 0xF0000 // plane 15; up to the end of plane 16 all is private use

// literals finds special-token literals in text, longest first.
type literals struct {
	list  []string
	first [256]bool // bytes a literal may begin with
}

func newLiterals(list []string) *literals {
	l := &literals{}
	for _, s := range slices.Compact(slices.Sorted(slices.Values(list))) {
		if s != "" {
			l.list = append(l.list, s)
			l.first[s[0]] = true
		}
	}
	slices.SortStableFunc(l.list, func(a, b string) int { return len(b) - len(a) })
	return l
}

// at returns the index of the literal that s begins with, -1 for none.
func (l *literals) at(s string) int {
	if !l.first[s[0]] {
		return -1
	}
	return slices.IndexFunc(l.list, func(literal string) bool { return strings.HasPrefix(s, literal) })
}

// escape stands before a character that was there already: the mark after the last literal's.
func (l *literals) escape() rune { return firstMark + rune(len(l.list)) }

// mark replaces each literal in s by its mark.
func (l *literals) mark(s string) string {
	var out strings.Builder
	from := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r >= firstMark && r <= l.escape() {
			out.WriteString(s[from:i])
			out.WriteRune(l.escape())
			out.WriteRune(r)
			i += size
			from = i
			continue
		}
		if n := l.at(s[i:]); n >= 0 {
			out.WriteString(s[from:i])
			out.WriteRune(firstMark + rune(n))
			i += len(l.list[n])
			from = i
			continue
		}
		i += size
	}
	if from == 0 {
		return s
	}
	out.WriteString(s[from:])
	return out.String()
}

// split cuts rendered text at the marks.
func (l *literals) split(s string) []Segment {
	var segments []Segment
	var text strings.Builder
	literal := false
	add := func(piece string, kind bool) {
		if piece == "" {
			return
		}
		if kind != literal && text.Len() > 0 {
			segments = append(segments, Segment{text.String(), literal})
			text.Reset()
		}
		literal = kind
		text.WriteString(piece)
	}
	from, escaped := 0, false
	for i, r := range s {
		n := int(r - firstMark)
		switch {
		case escaped || n < 0 || n > len(l.list):
			escaped = false
		case n == len(l.list):
			add(s[from:i], false)
			from, escaped = i+utf8.RuneLen(r), true
		default:
			add(s[from:i], false)
			add(l.list[n], true)
			from = i + utf8.RuneLen(r)
		}
	}
	add(s[from:], false)
	if text.Len() > 0 {
		segments = append(segments, Segment{text.String(), literal})
	}
	return segments
}
