package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox/backend/llm"
)

// maxRepeats bounds how many letters and classes the patterns of a schema come to when their repetitions are written out:
// the library's time grows with the square, 4 s for 2,000.
const maxRepeats = 1000

// maxWork bounds the work of a schema's patterns together. ([a-z]{0,10}){0,10} comes to a hundred classes and takes the library 3 s,
// since what was read may stand in many places of it.
const maxWork = 1500

// work is how many places of an expression a text may stand in, summed over all places where it may have begun a few letters before:
// the library looks up the whole vocabulary from each. It stops counting above maxWork.
func work(expression string) int {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0 // then the library refuses it, too
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0
	}
	const far, most = 8, 16
	var letters []rune
	for _, inst := range prog.Inst {
		if len(inst.Rune) > 0 && len(letters) < most && !slices.Contains(letters, inst.Rune[0]) {
			letters = append(letters, inst.Rune[0])
		}
	}
	total := 0
	for pc := range prog.Inst {
		if !reads(prog, pc) {
			continue
		}
		places, widest := []int{pc}, 1
		for range far {
			var best []int
			for _, letter := range letters {
				if next := step(prog, places, letter); len(next) > len(best) {
					best = next
				}
			}
			places, widest = best, max(widest, len(best))
			if total+widest > maxWork {
				return total + widest
			}
		}
		if total += widest; prog.Inst[pc].MatchRune(' ') && prog.Inst[pc].MatchRune('x') {
			total += 2 * widest // nearly every token of the vocabulary may come
		}
	}
	return total
}

func reads(prog *syntax.Prog, pc int) bool {
	switch prog.Inst[pc].Op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}

// step are the places where a text may stand after one more letter.
func step(prog *syntax.Prog, places []int, letter rune) (next []int) {
	seen := make([]bool, len(prog.Inst))
	var follow func(pc int)
	follow = func(pc int) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		switch inst := prog.Inst[pc]; {
		case reads(prog, pc):
			next = append(next, pc)
		case inst.Op == syntax.InstAlt, inst.Op == syntax.InstAltMatch:
			follow(int(inst.Out))
			follow(int(inst.Arg))
		case inst.Op != syntax.InstMatch && inst.Op != syntax.InstFail:
			follow(int(inst.Out))
		}
	}
	for _, pc := range places {
		if prog.Inst[pc].MatchRune(letter) {
			follow(int(prog.Inst[pc].Out))
		}
	}
	return next
}

// expression writes a pattern for the library. There a pattern is all of a string's JSON text, not a part of its value, so:
// what is not anchored is extended, and letters that JSON escapes (quote, backslash, control characters) are left out.
func (w *writer) expression(pattern, at string) (string, error) {
	tree, err := parsePattern(pattern, at)
	if err != nil {
		return "", err
	}
	if size(tree) > maxRepeats {
		return "", cannot("pattern", at, fmt.Sprintf("it comes to more than %d letters when its repetitions are written out", maxRepeats))
	}
	p := &printer{letter: letter, escaped: escaped, ranges: plain}
	if err := p.whole(tree); err != nil {
		return "", cannot("pattern", at, err.Error())
	}
	whole := "^" + p.String() + "$"
	if !slices.Contains(w.patterns, whole) { // the library does the same work once
		w.patterns = append(w.patterns, whole)
		w.repeats += work(whole)
	}
	if w.repeats > maxWork {
		return "", cannot("pattern", at, "together the patterns are too much work: use fewer, or repetitions with smaller limits, above all one within another")
	}
	return whole, nil
}

// Regex writes a regular expression that a whole answer must match, in the form that the grammar library enforces.
func Regex(expression string) (string, error) {
	tree, err := syntax.Parse(goPattern(expression), syntax.Perl)
	if err != nil {
		return "", llm.Errorf(llm.CodeInvalid, "the regular expression cannot be used: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if size(tree) > maxRepeats {
		return "", llm.Errorf(llm.CodeInvalid, "the regular expression comes to more than %d letters when its repetitions are written out", maxRepeats)
	}
	p := &printer{letter: `[^\n]`, escaped: func(rune) bool { return false }, ranges: valid}
	if err := p.anchored(tree); err != nil {
		return "", llm.Errorf(llm.CodeInvalid, "the regular expression cannot be used: %w", err)
	}
	if work(p.String()) > maxWork {
		return "", llm.Errorf(llm.CodeInvalid, "the regular expression is too much work: use repetitions with smaller limits, above all one within another")
	}
	return p.String(), nil
}

var unicodeEscape = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)

// goPattern writes the escapes of ECMA's expressions as Go does.
func goPattern(text string) string { return unicodeEscape.ReplaceAllString(text, `\x{$1}`) }

// parsePattern reads an expression of ECMA's kind as far as Go's parser knows it; what that refuses (look-ahead, back
// references), the library does not enforce either.
func parsePattern(pattern, at string) (*syntax.Regexp, error) {
	tree, err := syntax.Parse(goPattern(pattern), syntax.Perl)
	if err != nil {
		return nil, cannot("pattern", at, "regular expression "+strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return tree, nil
}

// size is the number of letters and classes when repetitions are written out.
func size(re *syntax.Regexp) int {
	n := len(re.Rune)
	if re.Op == syntax.OpCharClass {
		n = 1
	}
	for _, sub := range re.Sub {
		n += size(sub)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*max(re.Min, re.Max, 1), 1<<20)
	}
	return max(n, 1)
}

// lengths are the fewest and the most letters of a string that matches pattern; longest is -1 when there is no most.
func lengths(pattern, at string) (shortest, longest int, err error) {
	tree, err := parsePattern(pattern, at)
	if err != nil {
		return 0, 0, err
	}
	shortest, longest = extent(tree)
	if begin, end := anchors(tree); !begin || !end {
		longest = -1
	}
	return shortest, longest, nil
}

func extent(re *syntax.Regexp) (shortest, longest int) {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune), len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, 1
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			s, l := extent(sub)
			shortest, longest = shortest+s, add(longest, l)
		}
		return shortest, longest
	case syntax.OpAlternate:
		shortest, longest = extent(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			s, l := extent(sub)
			shortest = min(shortest, s)
			if longest >= 0 && (l < 0 || l > longest) {
				longest = l
			}
		}
		return shortest, longest
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		least, most := repetition(re)
		s, l := extent(re.Sub[0])
		if l < 0 || most < 0 {
			return s * least, -1
		}
		return s * least, l * most
	}
	return 0, 0
}

func add(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// repetition is how often the part of a repetition comes; most is -1 for any number.
func repetition(re *syntax.Regexp) (least, most int) {
	switch re.Op {
	case syntax.OpStar:
		return 0, -1
	case syntax.OpPlus:
		return 1, -1
	case syntax.OpQuest:
		return 0, 1
	}
	return re.Min, re.Max
}

// anchors tells whether every match begins at the beginning, and ends at the end.
func anchors(re *syntax.Regexp) (begin, end bool) {
	switch re.Op {
	case syntax.OpBeginText:
		return true, false
	case syntax.OpEndText:
		return false, true
	case syntax.OpCapture:
		return anchors(re.Sub[0])
	case syntax.OpConcat:
		begin, _ = anchors(re.Sub[0])
		_, end = anchors(re.Sub[len(re.Sub)-1])
		return begin, end
	case syntax.OpAlternate:
		begin, end = true, true
		for _, sub := range re.Sub {
			b, e := anchors(sub)
			begin, end = begin && b, end && e
		}
		return begin, end
	}
	return false, false
}

// printer writes an expression.
type printer struct {
	strings.Builder
	letter  string                    // any letter
	escaped func(rune) bool           // tells whether a letter cannot be written
	ranges  func(a, b rune) [][2]rune // cuts a range into those of letters that can
}

// anchored writes re, which matches all of a text. Anchors at its ends say nothing then.
func (p *printer) anchored(re *syntax.Regexp) error {
	switch re.Op {
	case syntax.OpCapture:
		return p.anchored(re.Sub[0])
	case syntax.OpAlternate:
		return p.list(re.Sub, p.anchored)
	case syntax.OpConcat:
		for i, sub := range re.Sub {
			if i == 0 && sub.Op == syntax.OpBeginText || i == len(re.Sub)-1 && sub.Op == syntax.OpEndText {
				continue
			}
			if err := p.print(sub); err != nil {
				return err
			}
		}
		return nil
	case syntax.OpBeginText, syntax.OpEndText:
		return nil
	}
	return p.print(re)
}

// letter is any letter that JSON does not escape.
const letter = `[^"\\\x00-\x1f]`

// whole writes re so that it matches all of a text when re matches a part of it.
func (p *printer) whole(re *syntax.Regexp) error {
	switch re.Op {
	case syntax.OpCapture:
		return p.whole(re.Sub[0])
	case syntax.OpAlternate:
		return p.list(re.Sub, p.whole)
	}
	subs := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		subs = re.Sub
	}
	begin, end := anchors(re)
	if !begin {
		p.WriteString(p.letter + "*")
	}
	for i, sub := range subs {
		if i == 0 && sub.Op == syntax.OpBeginText || i == len(subs)-1 && sub.Op == syntax.OpEndText {
			continue
		}
		if err := p.print(sub); err != nil {
			return err
		}
	}
	if !end {
		p.WriteString(p.letter + "*")
	}
	return nil
}

// list writes alternatives.
func (p *printer) list(subs []*syntax.Regexp, write func(*syntax.Regexp) error) error {
	p.WriteString("(?:")
	for i, sub := range subs {
		if i > 0 {
			p.WriteByte('|')
		}
		if err := write(sub); err != nil {
			return err
		}
	}
	p.WriteByte(')')
	return nil
}

func (p *printer) print(re *syntax.Regexp) error {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return nil
	case syntax.OpLiteral:
		return p.literal(re)
	case syntax.OpCharClass:
		return p.class(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		p.WriteString(p.letter)
		return nil
	case syntax.OpCapture:
		return p.list(re.Sub, p.print)
	case syntax.OpAlternate:
		return p.list(re.Sub, p.print)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if err := p.print(sub); err != nil {
				return err
			}
		}
		return nil
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		return p.repeat(re)
	case syntax.OpBeginText, syntax.OpEndText:
		return fmt.Errorf("^ and $ are supported only at the ends")
	case syntax.OpBeginLine, syntax.OpEndLine:
		return fmt.Errorf("lines are not supported")
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return fmt.Errorf("word boundaries are not supported")
	}
	return fmt.Errorf("it matches nothing")
}

func (p *printer) repeat(re *syntax.Regexp) error {
	if err := p.list(re.Sub, p.print); err != nil {
		return err
	}
	least, most := repetition(re)
	switch {
	case most < 0 && least == 0:
		p.WriteByte('*')
	case most < 0 && least == 1:
		p.WriteByte('+')
	case most < 0:
		fmt.Fprintf(p, "{%d,}", least)
	default:
		fmt.Fprintf(p, "{%d,%d}", least, most)
	}
	return nil
}

func (p *printer) literal(re *syntax.Regexp) error {
	for _, r := range re.Rune {
		if p.escaped(r) {
			return fmt.Errorf("it asks for %q, which is written differently in JSON", r)
		}
		if re.Flags&syntax.FoldCase != 0 {
			return fmt.Errorf("letters of either case are not supported")
		}
		p.rune(r)
	}
	return nil
}

// escaped tells whether r is not written as itself in a JSON string.
func escaped(r rune) bool { return r == '"' || r == '\\' || r < ' ' }

func (p *printer) rune(r rune) {
	if r < utf8.RuneSelf && !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
		fmt.Fprintf(p, `\x%02x`, r)
		return
	}
	p.WriteRune(r)
}

// class writes a class from the first and last letters of its ranges, without those that JSON escapes.
func (p *printer) class(ranges []rune) error {
	start := p.Len()
	p.WriteByte('[')
	for i := 0; i < len(ranges); i += 2 {
		for _, part := range p.ranges(ranges[i], ranges[i+1]) {
			p.rune(part[0])
			if part[0] != part[1] {
				p.WriteByte('-')
				p.rune(part[1])
			}
		}
	}
	if p.Len() == start+1 {
		return fmt.Errorf("it asks for letters that are written differently in JSON")
	}
	p.WriteByte(']')
	return nil
}

// plain cuts a range into those of letters that JSON writes as themselves.
func plain(from, to rune) [][2]rune {
	return cut(from, to, [2]rune{' ', '!'}, [2]rune{'#', '['}, [2]rune{']', 0xD7FF}, [2]rune{0xE000, utf8.MaxRune})
}

// valid leaves surrogates out of a range.
func valid(from, to rune) [][2]rune {
	return cut(from, to, [2]rune{1, 0xD7FF}, [2]rune{0xE000, utf8.MaxRune})
}

func cut(from, to rune, wholes ...[2]rune) [][2]rune {
	var parts [][2]rune
	for _, whole := range wholes {
		if a, b := max(from, whole[0]), min(to, whole[1]); a <= b {
			parts = append(parts, [2]rune{a, b})
		}
	}
	return parts
}
