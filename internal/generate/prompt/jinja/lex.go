package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind int

const (
	endOfSource tokenKind = iota
	dataToken             // text between tags
	outputBegin           // {{
	outputEnd
	blockBegin // {%
	blockEnd
	nameToken
	stringToken
	integerToken
	floatToken
	operatorToken
)

type token struct {
	kind tokenKind
	text string // name, operator, text, or a string's value
	num  any    // int64 or float64
	line int
}

// lexer follows Jinja2's rules for whitespace with trim_blocks and lstrip_blocks on, and keep_trailing_newline off.
type lexer struct {
	src       string
	pos       int
	line      int
	lineStart bool // the last thing read ended with a newline
	tokens    []token
}

func lex(source string) []token {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.pos < len(l.src) {
		l.root()
	}
	l.emit(token{kind: endOfSource})
	return l.tokens
}

func (l *lexer) emit(t token) {
	t.line = l.line
	l.tokens = append(l.tokens, t)
}

// advance moves on by n bytes and counts lines.
func (l *lexer) advance(n int) {
	passed := l.src[l.pos : l.pos+n]
	l.line += strings.Count(passed, "\n")
	l.lineStart = strings.HasSuffix(passed, "\n")
	l.pos += n
}

// root reads text up to the next tag, and that tag.
func (l *lexer) root() {
	rest := l.src[l.pos:]
	at, kind := nextTag(rest)
	if at < 0 {
		l.emit(token{kind: dataToken, text: rest})
		l.advance(len(rest))
		return
	}
	sign := byte(0)
	if at+2 < len(rest) && (rest[at+2] == '-' || rest[at+2] == '+') {
		sign = rest[at+2]
	}
	if text := l.strip(rest[:at], sign, kind == '{'); text != "" {
		l.emit(token{kind: dataToken, text: text})
	}
	l.advance(at + 2)
	if sign != 0 {
		l.advance(1)
	}
	switch kind {
	case '#':
		l.comment()
	case '{':
		l.emit(token{kind: outputBegin})
		l.tag("}}", outputEnd)
	default:
		if n := rawBegin(l.src[l.pos:]); n > 0 {
			l.advance(n)
			l.raw()
			return
		}
		l.emit(token{kind: blockBegin})
		l.tag("%}", blockEnd)
	}
}

// nextTag finds the first {{, {% or {# and returns its second character.
func nextTag(s string) (at int, kind byte) {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1, 0
		}
		if c := s[from+i+1]; c == '{' || c == '%' || c == '#' {
			return from + i, c
		}
		from += i + 1
	}
}

// strip removes the whitespace that a tag takes from the text before it.
func (l *lexer) strip(text string, sign byte, output bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || output {
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if (line > 0 || l.lineStart) && strings.TrimFunc(text[line:], isSpace) == "" {
		return text[:line]
	}
	return text
}

func (l *lexer) comment() {
	n := strings.Index(l.src[l.pos:], "#}")
	if n < 0 {
		fail(l.line, "missing end of comment")
	}
	sign := byte(0)
	if n > 0 {
		sign = l.src[l.pos+n-1]
	}
	l.advance(n + 2)
	l.afterBlock(sign)
}

// afterBlock takes the whitespace that belongs to the end of a block or a comment.
func (l *lexer) afterBlock(sign byte) {
	rest := l.src[l.pos:]
	switch {
	case sign == '-':
		l.advance(spaces(rest))
	case sign != '+' && strings.HasPrefix(rest, "\n"):
		l.advance(1)
	}
}

func spaces(s string) int { return len(s) - len(strings.TrimLeftFunc(s, isSpace)) }

// rawBegin returns the length of "raw %}" at the beginning of s, 0 when it is something else.
func rawBegin(s string) int {
	n := spaces(s)
	if !strings.HasPrefix(s[n:], "raw") {
		return 0
	}
	n += len("raw")
	n += spaces(s[n:])
	switch {
	case strings.HasPrefix(s[n:], "%}"):
		return n + 2
	case strings.HasPrefix(s[n:], "-%}"):
		return n + 3 + spaces(s[n+3:])
	}
	return 0
}

// raw reads up to {% endraw %}.
func (l *lexer) raw() {
	rest := l.src[l.pos:]
	for from := 0; ; {
		i := strings.Index(rest[from:], "{%")
		if i < 0 {
			fail(l.line, "missing end of raw block")
		}
		at := from + i
		n, sign, end := rawEnd(rest[at+2:])
		if n == 0 {
			from = at + 2
			continue
		}
		if text := l.strip(rest[:at], sign, false); text != "" {
			l.emit(token{kind: dataToken, text: text})
		}
		l.advance(at + 2 + n)
		l.afterBlock(end)
		return
	}
}

func rawEnd(s string) (n int, begin, end byte) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		begin, n = s[0], 1
	}
	n += spaces(s[n:])
	if !strings.HasPrefix(s[n:], "endraw") {
		return 0, 0, 0
	}
	n += len("endraw")
	n += spaces(s[n:])
	if n < len(s) && (s[n] == '-' || s[n] == '+') {
		end = s[n]
		n++
	}
	if !strings.HasPrefix(s[n:], "%}") {
		return 0, 0, 0
	}
	return n + 2, begin, end
}

// tag reads the tokens of a tag and its end.
func (l *lexer) tag(closing string, end tokenKind) {
	var open []byte // brackets that wait for their partner: inside them }} closes two dictionaries
	for {
		l.advance(spaces(l.src[l.pos:]))
		rest := l.src[l.pos:]
		if rest == "" {
			fail(l.line, "unexpected end of template, expected %q", closing)
		}
		if len(open) == 0 && l.tagEnd(rest, closing, end) {
			return
		}
		c := rest[0]
		switch {
		case c >= '0' && c <= '9':
			l.number(rest)
		case c == '\'' || c == '"':
			l.str(rest)
		default:
			if n := nameLength(rest); n > 0 {
				l.emit(token{kind: nameToken, text: rest[:n]})
				l.advance(n)
				continue
			}
			open = l.operator(rest, open)
		}
	}
}

func (l *lexer) tagEnd(rest, closing string, end tokenKind) bool {
	sign := byte(0)
	if rest[0] == '-' || rest[0] == '+' && end == blockEnd {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, closing) {
		return false
	}
	l.emit(token{kind: end})
	if sign != 0 {
		l.advance(1)
	}
	l.advance(len(closing))
	if end == blockEnd || sign == '-' {
		l.afterBlock(sign)
	}
	return true
}

func nameLength(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return i
		}
	}
	return len(s)
}

var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

func (l *lexer) operator(rest string, open []byte) []byte {
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		l.emit(token{kind: operatorToken, text: op})
		switch op {
		case "(", "[", "{":
			open = append(open, map[string]byte{"(": ')', "[": ']', "{": '}'}[op])
		case ")", "]", "}":
			if len(open) == 0 || open[len(open)-1] != op[0] {
				fail(l.line, "unexpected %q", op)
			}
			open = open[:len(open)-1]
		}
		l.advance(len(op))
		return open
	}
	r, _ := utf8.DecodeRuneInString(rest)
	fail(l.line, "unexpected character %q", r)
	return nil
}

func (l *lexer) number(rest string) {
	n := numberLength(rest, l.pos > 0 && l.src[l.pos-1] == '.')
	text := strings.ReplaceAll(rest[:n], "_", "")
	if whole, err := strconv.ParseInt(text, 0, 64); err == nil {
		l.emit(token{kind: integerToken, num: whole, text: text})
	} else if f, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, ".eE") {
		l.emit(token{kind: floatToken, num: f, text: text})
	} else {
		fail(l.line, "number %s is out of range", text)
	}
	l.advance(n)
}

// numberLength is the length of the number s begins with. After a dot it is an index, as in a.0.1, and has no fraction.
func numberLength(s string, index bool) int {
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0 {
		n := 2
		for n < len(s) && (s[n] == '_' || strings.IndexByte("0123456789abcdefABCDEF", s[n]) >= 0) {
			n++
		}
		return n
	}
	n := digits(s)
	if index {
		return n
	}
	if n < len(s) && s[n] == '.' && digits(s[n+1:]) > 0 {
		n += 1 + digits(s[n+1:])
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		exp := n + 1
		if exp < len(s) && (s[exp] == '+' || s[exp] == '-') {
			exp++
		}
		if d := digits(s[exp:]); d > 0 {
			n = exp + d
		}
	}
	return n
}

func digits(s string) int {
	n := 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '_' && n > 0) {
		n++
	}
	return n
}

func (l *lexer) str(rest string) {
	n := 1
	for n < len(rest) && rest[n] != rest[0] {
		if rest[n] == '\\' {
			n++
		}
		n++
	}
	if n >= len(rest) {
		fail(l.line, "unclosed string")
	}
	l.emit(token{kind: stringToken, text: unescape(rest[1:n], l.line)})
	l.advance(n + 1)
}

// unescape reads a string literal as Python's unicode-escape codec does.
func unescape(s string, line int) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		if j := strings.IndexByte("abfnrtv", s[i]); j >= 0 {
			out.WriteByte("\a\b\f\n\r\t\v"[j])
			continue
		}
		switch c := s[i]; {
		case c == '\\' || c == '\'' || c == '"':
			out.WriteByte(c)
		case c == '\n': // a line that goes on
		case c == 'x' || c == 'u' || c == 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			code, err := strconv.ParseUint(s[i+1:min(i+1+n, len(s))], 16, 32)
			if err != nil || i+n >= len(s) {
				fail(line, "truncated \\%c escape in a string", c)
			}
			out.WriteRune(rune(code))
			i += n
		case c >= '0' && c <= '7':
			end := i + 1
			for end < len(s) && end < i+3 && s[end] >= '0' && s[end] <= '7' {
				end++
			}
			code, _ := strconv.ParseUint(s[i:end], 8, 32)
			out.WriteRune(rune(code))
			i = end - 1
		default:
			out.WriteByte('\\')
			out.WriteByte(c)
		}
	}
	return out.String()
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
