package llmtest

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"signalbox/backend/llm"
)

// Canned is what the fake answers when the prompt asks for nothing else.
const Canned = "This is a canned answer from the fake engine. No model ran."

// script is what a prompt tells the fake to do.
type script struct {
	text        string
	slow        time.Duration // pause before each token
	prefill     time.Duration // pause before the first
	die         string        // where: "start", "prefill" or "decode"
	dieAfter    int
	fail        bool
	failAfter   int // -1: not
	hang        bool
	hangAfter   int // -1: not
	garbage     bool
	floodMB     int
	panics      bool
	endless     bool
	exactTokens int // 0: as many as text has
	said        bool
	calls       []llm.ToolCall // instead of text
}

var command = regexp.MustCompile(`\[\[([a-z-]+)(?: (\d+))?\]\]`)

// parse reads the commands in a user's message:
//
//	[[die]]           the process crashes as soon as it has the request
//	[[die-prefill]]   ... while it reads the prompt
//	[[die-after N]]   ... after N tokens
//	[[die-prepare]]   ... in Prepare
//	[[error]]         a runtime error instead of the first token
//	[[error-after N]] ... after N tokens
//	[[hang]]          a native call that does not come back, before the first token; no cancel ends it
//	[[hang-after N]]  ... after N tokens
//	[[slow MS]]       so many milliseconds for each token
//	[[prefill MS]]    so many for the prompt; the call cannot be interrupted
//	[[garbage]]       noise in the frame stream
//	[[flood MB]]      so many megabytes of text on stdout and stderr while it answers
//	[[panic]]         a panic in the middle of the answer
//	[[tokens N]]      an answer of N tokens
//	[[endless]]       an answer that does not end by itself
//	[[tool NAME {..}]] a call, in the notation of the model's family (told by GenerateRequest.Markers), if the request has tools;
//	                  once: when its result has come, the next of these is called, or the answer is text.
//	                  [[tool A {..} B {..}]] makes two calls at once
//	[[say TEXT]]      TEXT, up to the last ]] of the message, cut into small pieces
func parse(talk talk) script {
	s := script{text: Canned, failAfter: -1, hangAfter: -1}
	message, steps := takeCalls(talk.message)
	if talk.offered {
		s.calls = talk.next(steps)
	}
	if _, said, ok := strings.Cut(message, "[[say "); ok {
		if end := strings.LastIndex(said, "]]"); end >= 0 {
			s.text, s.said = said[:end], true
			message = strings.Replace(message, said[:end], "", 1) // what it says is no command
		}
	}
	for _, m := range command.FindAllStringSubmatch(message, -1) {
		n, _ := strconv.Atoi(m[2])
		s.apply(m[1], n)
	}
	return s
}

// takeCalls takes the [[tool]] commands out of message: each is one step of a loop.
func takeCalls(message string) (rest string, steps [][]llm.ToolCall) {
	const open = "[[tool "
	for from := 0; ; {
		at := strings.Index(message[from:], open)
		if at < 0 {
			return message, steps
		}
		at += from
		calls, after, ok := readCalls(message[at+len(open):])
		if !ok {
			from = at + len(open)
			continue
		}
		steps = append(steps, calls)
		message, from = message[:at]+after, at
	}
}

// readCalls reads NAME {..} NAME {..} ]].
func readCalls(text string) (calls []llm.ToolCall, after string, ok bool) {
	for {
		text = strings.TrimLeft(text, " \n")
		if after, ok = strings.CutPrefix(text, "]]"); ok {
			return calls, after, len(calls) > 0
		}
		name, rest, found := strings.Cut(text, " ")
		if !found || name == "" {
			return nil, "", false
		}
		d := json.NewDecoder(strings.NewReader(rest))
		var arguments json.RawMessage
		if err := d.Decode(&arguments); err != nil || arguments[0] != '{' {
			return nil, "", false
		}
		calls = append(calls, llm.ToolCall{Name: name, Arguments: arguments})
		text = rest[d.InputOffset():]
	}
}

func (s *script) apply(name string, n int) {
	switch name {
	case "die":
		s.die = "start"
	case "die-prefill":
		s.die = "prefill"
	case "die-after":
		s.die, s.dieAfter = "decode", n
	case "error":
		s.fail = true
	case "error-after":
		s.failAfter = n
	case "hang":
		s.hang = true
	case "hang-after":
		s.hangAfter = n
	case "slow":
		s.slow = time.Duration(n) * time.Millisecond
	case "prefill":
		s.prefill = time.Duration(n) * time.Millisecond
	case "garbage":
		s.garbage = true
	case "flood":
		s.floodMB = n
	case "panic":
		s.panics = true
	case "tokens":
		s.exactTokens = n
	case "endless":
		s.endless = true
	}
}

// answer gives the i-th piece of the answer, and whether there is one.
func (s *script) answer() func(i int) (string, bool) {
	said := pieces(s.text)
	return func(i int) (string, bool) {
		switch {
		case s.endless, s.exactTokens > 0 && i < s.exactTokens:
			if len(said) == 0 {
				return ".", true
			}
			if i > 0 && i%len(said) == 0 {
				return " " + strings.TrimLeft(said[0], " "), true
			}
			return said[i%len(said)], true
		case s.exactTokens > 0:
			return "", false
		case i < len(said):
			return said[i], true
		}
		return "", false
	}
}
