package prompt

import (
	"slices"
	"strings"

	"signalbox/backend/llm"
)

// A document that says <|im_end|> must not end the turn it stands in. So before rendering each special-token literal in
// a message or a tool becomes one private-use character, which no template touches; afterwards the text is cut there and
// the literal put back as a segment of its own, for the tokenizer to spell out.
const (
	firstMark = 0xF0000 // plane 15, 16: private use
	lastMark  = 0x10FFFD
)

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
	return slices.IndexFunc(l.list, func(literal string) bool { return strings.HasPrefix(s, literal) })
}

// guard marks the literals of one render.
type guard struct {
	*literals
	base rune // the mark of list[0]
}

// newGuard chooses marks that occur nowhere in texts, so that nobody can forge one.
func newGuard(l *literals, texts []string) (guard, error) {
	used := map[rune]bool{}
	for _, text := range texts {
		for _, r := range text {
			if r >= firstMark {
				used[r] = true
			}
		}
	}
	free := 0
	for r := rune(firstMark); r <= lastMark; r++ {
		free++
		if used[r] {
			free = 0
		}
		if free > len(l.list) {
			return guard{l, r - rune(free) + 1}, nil
		}
	}
	return guard{}, llm.Errorf(llm.CodeInvalid, "the messages use too many private-use characters (U+F0000 and above)")
}

// mark replaces each literal in s by its mark.
func (g guard) mark(s string) string {
	var out strings.Builder
	from := 0
	for i := 0; i < len(s); {
		n := -1
		if g.first[s[i]] {
			n = g.at(s[i:])
		}
		if n < 0 {
			i++
			continue
		}
		out.WriteString(s[from:i])
		out.WriteRune(g.base + rune(n))
		i += len(g.list[n])
		from = i
	}
	if from == 0 {
		return s
	}
	out.WriteString(s[from:])
	return out.String()
}

// split cuts rendered text at the marks.
func (g guard) split(s string) []Segment {
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
	from := 0
	for i, r := range s {
		if n := int(r - g.base); n >= 0 && n < len(g.list) {
			add(s[from:i], false)
			add(g.list[n], true)
			from = i + len(string(r))
		}
	}
	add(s[from:], false)
	if text.Len() > 0 {
		segments = append(segments, Segment{text.String(), literal})
	}
	return segments
}
