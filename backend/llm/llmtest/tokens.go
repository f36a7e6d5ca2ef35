package llmtest

import (
	"strings"
	"unicode/utf8"

	"signalbox/backend/llm"
)

// The fake's tokens are the text itself: up to three bytes of one word, with a space before it, in one number. So they can be
// turned back anywhere, and counts depend on nothing but the text.

const (
	tokenBytes  = 3
	controlBase = 0x70000000 // start and end of a turn; text cannot make them
	turnStart   = controlBase + 1
	turnEnd     = controlBase + 2
)

// tokenize cuts text into tokens.
func tokenize(text string) []int32 {
	var tokens []int32
	for len(text) > 0 {
		n := 1
		for n < tokenBytes && n < len(text) && !isSpace(text[n]) {
			n++
		}
		var token int32
		for i := range n {
			token |= int32(text[i]) << (8 * i)
		}
		tokens = append(tokens, token|int32(n)<<24)
		text = text[n:]
	}
	return tokens
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' }

// bytesOf is the text of one token; empty for a control token.
func bytesOf(token int32) []byte {
	n := int(token >> 24)
	if n < 1 || n > tokenBytes {
		return nil
	}
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(token >> (8 * i))
	}
	return text
}

// render is the fake's chat template: role and content of each turn between two control tokens, then the start of the answer.
func render(req llm.PrepareRequest) []int32 {
	if req.Messages == nil {
		return tokenize(req.Prompt)
	}
	var tokens []int32
	if len(req.Tools) > 0 {
		tokens = append(tokens, turnStart)
		tokens = append(tokens, tokenize("tools\n"+string(req.Tools))...)
		tokens = append(tokens, turnEnd)
	}
	for _, m := range req.Messages {
		content := m.Role + "\n" + m.Content
		for _, call := range m.ToolCalls {
			content += "\n" + call.Name + string(call.Arguments)
		}
		tokens = append(tokens, turnStart)
		tokens = append(tokens, tokenize(content)...)
		tokens = append(tokens, turnEnd)
	}
	tokens = append(tokens, turnStart)
	return append(tokens, tokenize("assistant\n")...)
}

// lastUser is the text of the last user turn, or all of it when there are no turns.
func lastUser(tokens []int32) string {
	var turns []string
	var turn strings.Builder
	for _, token := range tokens {
		if token == turnStart || token == turnEnd {
			turns = append(turns, turn.String())
			turn.Reset()
			continue
		}
		turn.Write(bytesOf(token))
	}
	if len(turns) == 0 {
		return turn.String()
	}
	for i := len(turns) - 1; i >= 0; i-- {
		if content, ok := strings.CutPrefix(turns[i], "user\n"); ok {
			return content
		}
	}
	return ""
}

// pieces cuts an answer into the token-sized pieces in which it is generated. Characters of several bytes are cut too, as real
// tokenizers do.
func pieces(text string) []string {
	var cut []string
	for _, token := range tokenize(text) {
		cut = append(cut, string(bytesOf(token)))
	}
	return cut
}

// whole returns the longest prefix of text that ends with a whole character, and what is left.
func whole(text string) (ready, rest string) {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if b := text[len(text)-back]; utf8.RuneStart(b) {
			if !utf8.FullRuneInString(text[len(text)-back:]) {
				return text[:len(text)-back], text[len(text)-back:]
			}
			break
		}
	}
	return text, ""
}
