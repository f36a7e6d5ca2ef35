package toolcall

import (
	"encoding/json"
	"strings"
)

// maxDepth bounds nesting: what is deeper comes from a model that went astray, and would cost stack in every client.
const maxDepth = 200

// status says what a machine made of a byte.
type status int

const (
	more     status = iota // taken; it goes on
	complete               // taken; that was the last one
	past                   // not taken: what came before was complete
	broken                 // not taken: it cannot be
)

// scanner follows one JSON value byte by byte and writes it again without white space, as far as it is certain: numbers,
// words and commas wait until it is clear that they stand. It forgives what models often get wrong: line ends within
// strings, needless backslashes, a comma before a closing bracket, Python's True, False and None.
type scanner struct {
	stack []byte // '{' and '[' that are open
	state scanState
	word  []byte // a number, a name, or an escape, so far
	comma bool   // one waits
}

type scanState int

const (
	scanValue  scanState = iota // before a value
	scanFirst                   // after '[': a value or ']'
	scanString                  // in a string
	scanKey                     // in a key
	scanEscape                  // after a backslash, within a string or key
	scanWord                    // in a number, or true, false, null
	scanMember                  // after '{' or its comma: a key or '}'
	scanColon
	scanAfter // after a value within a container
)

// push goes on with b and appends to dst what has become certain.
func (s *scanner) push(dst []byte, b byte) ([]byte, status) {
	switch s.state {
	case scanString, scanKey:
		return s.inString(dst, b)
	case scanEscape:
		return s.inEscape(dst, b)
	case scanWord:
		return s.inWord(dst, b)
	}
	if isSpace(b) {
		return dst, more
	}
	switch s.state {
	case scanColon:
		if b != ':' {
			return dst, broken
		}
		s.state = scanValue
		return append(dst, ':'), more
	case scanMember:
		switch b {
		case '"':
			s.state = scanKey
			return append(s.takeComma(dst), '"'), more
		case '}':
			return s.close(dst, b)
		}
		return dst, broken
	case scanAfter:
		return s.afterValue(dst, b)
	case scanFirst:
		if b == ']' {
			return s.close(dst, b)
		}
	}
	return s.begin(dst, b)
}

// begin is the first byte of a value.
func (s *scanner) begin(dst []byte, b byte) ([]byte, status) {
	switch {
	case b == '{' || b == '[':
		if len(s.stack) == maxDepth {
			return dst, broken
		}
		dst = append(s.takeComma(dst), b)
		s.stack = append(s.stack, b)
		s.state = scanMember
		if b == '[' {
			s.state = scanFirst
		}
	case b == '"':
		dst = append(s.takeComma(dst), b)
		s.state = scanString
	case b == '-' || b >= '0' && b <= '9' || isLetter(b):
		s.word, s.state = append(s.word[:0], b), scanWord
	default:
		return dst, broken
	}
	return dst, more
}

func (s *scanner) takeComma(dst []byte) []byte {
	if s.comma {
		dst = append(dst, ',')
		s.comma = false
	}
	return dst
}

func (s *scanner) afterValue(dst []byte, b byte) ([]byte, status) {
	open := s.stack[len(s.stack)-1]
	switch {
	case b == ',' && open == '{':
		s.comma, s.state = true, scanMember
		return dst, more
	case b == ',':
		s.comma, s.state = true, scanFirst
		return dst, more
	case b == '}' && open == '{', b == ']' && open == '[':
		return s.close(dst, b)
	}
	return dst, broken
}

func (s *scanner) close(dst []byte, b byte) ([]byte, status) {
	s.comma = false
	s.stack = s.stack[:len(s.stack)-1]
	return s.ended(append(dst, b), complete)
}

// ended is the end of a value, which is the end of all where nothing is open.
func (s *scanner) ended(dst []byte, st status) ([]byte, status) {
	if len(s.stack) == 0 {
		return dst, st
	}
	s.state = scanAfter
	return dst, more
}

func (s *scanner) inString(dst []byte, b byte) ([]byte, status) {
	switch {
	case b == '\\':
		s.word = append(s.word[:0], byte(s.state))
		s.state = scanEscape
		return dst, more
	case b == '"' && s.state == scanKey:
		s.state = scanColon
		return append(dst, b), more
	case b == '"':
		return s.ended(append(dst, b), complete)
	case b < ' ':
		return appendEscaped(dst, string(b)), more
	}
	return append(dst, b), more
}

// inEscape is the part after a backslash. The first byte of word is the state to go back to.
func (s *scanner) inEscape(dst []byte, b byte) ([]byte, status) {
	back := scanState(s.word[0])
	if len(s.word) == 1 {
		switch {
		case b == 'u':
			s.word = append(s.word, b)
			return dst, more
		case strings.IndexByte(`"\/bfnrt`, b) >= 0:
			s.state = back
			return append(dst, '\\', b), more
		case b == '\'':
			s.state = back
			return append(dst, b), more
		}
		s.state = back
		return s.inString(append(dst, `\\`...), b) // a backslash that was meant as one, as in \d
	}
	if !isHex(b) {
		s.state = back
		return s.inString(append(append(dst, `\\`...), s.word[1:]...), b)
	}
	if s.word = append(s.word, b); len(s.word) == 6 {
		s.state = back
		return append(append(dst, '\\'), s.word[1:]...), more
	}
	return dst, more
}

func (s *scanner) inWord(dst []byte, b byte) ([]byte, status) {
	if isLetter(b) || b >= '0' && b <= '9' || b == '.' || b == '-' || b == '+' {
		s.word = append(s.word, b)
		return dst, more
	}
	word := literal(string(s.word))
	if word == "" {
		return dst, broken
	}
	dst = append(s.takeComma(dst), word...)
	if len(s.stack) == 0 {
		return dst, past
	}
	s.state = scanAfter
	return s.push(dst, b)
}

// literal is a number or word as JSON writes it; empty for anything else.
func literal(word string) string {
	switch word {
	case "True":
		return "true"
	case "False":
		return "false"
	case "None":
		return "null"
	}
	if json.Valid([]byte(word)) {
		return word
	}
	return ""
}

// appendEscaped appends text as the inside of a JSON string.
func appendEscaped(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	for i := range len(text) {
		switch b := text[i]; {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, `\n`...)
		case b == '\r':
			dst = append(dst, `\r`...)
		case b == '\t':
			dst = append(dst, `\t`...)
		case b < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[b>>4], hex[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return dst
}

// quote is text as a JSON string.
func quote(text string) string { return `"` + string(appendEscaped(nil, text)) + `"` }

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }

func isHex(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
}
