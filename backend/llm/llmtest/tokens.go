package llmtest

import (
	"slices"
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
	tokens := slices.Clone(req.Context)
	if req.Messages == nil {
		return append(tokens, tokenize(req.Prompt+req.Suffix)...)
	}
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

// talk is what the fake reads in a prompt.
type talk struct {
	message string // the last that the user wrote, or all of the prompt when there are no turns
	results int    // of tools, since then
	offered bool   // tools are
}

// next are the calls to make now; nil when all have been made.
func (t talk) next(steps [][]llm.ToolCall) []llm.ToolCall {
	made := 0
	for _, step := range steps {
		if made >= t.results {
			return step
		}
		made += len(step)
	}
	return nil
}

// response begins the result of a tool, for models whose template knows none.
const response = "<tool_response>\n"

// read turns a prompt back into what was said.
func read(tokens []int32) talk {
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
		return talk{message: turn.String()}
	}
	var t talk
	for _, turn := range turns {
		role, content, _ := strings.Cut(turn, "\n")
		t.offered = t.offered || role == "tools" || strings.Contains(content, "<tools>\n")
		switch {
		case role == "tool":
			t.results++
		case role == "user" && strings.HasPrefix(content, response):
			t.results += strings.Count(content, response)
		case role == "user":
			t.message, t.results = content, 0
		}
	}
	return t
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
