package toolcall

import "strings"

// An answer in gpt-oss's format is a row of messages: a header, <|message|>, a body, and an end. The header names a channel, and
// in calls a recipient. The first header goes on from the prompt, which ends with "<|start|>assistant":
//
//	<|channel|>analysis<|message|>THOUGHT<|end|><|start|>assistant<|channel|>final<|message|>TEXT
//	<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>
//
// <|call|> and <|return|> end the answer and are not seen.

var harmonyEnds = []string{"<|end|>", "<|call|>", "<|return|>", "<|start|>"}

// harmonyStart tells a header from an answer without any: an engine or a model may leave the markers out.
func harmonyStart(p *Parser) bool {
	for _, word := range []string{"<|channel|>", "<|start|>", " to=", "<|constrain|>", "<|message|>"} {
		if strings.HasPrefix(p.held, word) {
			p.state = func() bool { return harmonyHeader(p) }
			return true
		}
		if strings.HasPrefix(word, p.held) && !p.ended {
			return false
		}
	}
	p.state = func() bool { return harmonyText(p) }
	return true
}

// harmonyHeader reads up to the body.
func harmonyHeader(p *Parser) bool {
	const message = "<|message|>"
	before, mark, ok := p.until(append(harmonyEnds[:3:3], message)...)
	if !ok {
		if p.ended {
			p.held = "" // the answer was cut within a header: there is no text yet
		}
		return false
	}
	p.consume(len(mark))
	p.raw.Reset()
	if mark != message {
		return true // an empty message
	}
	_, channel, _ := strings.Cut(before, "<|channel|>")
	channel, _, _ = strings.Cut(strings.TrimSpace(channel), " ")
	channel, _, _ = strings.Cut(channel, "<|")
	_, recipient, addressed := strings.Cut(before, "to=")
	if end := strings.IndexAny(recipient, " <\n"); end >= 0 {
		recipient = recipient[:end]
	}
	name, function := strings.CutPrefix(recipient, "functions.")
	switch {
	case addressed && p.tools != nil && (function || p.tools[name].types != nil) && name != "":
		p.state = func() bool { return harmonyCall(p, name) }
	default:
		p.thinking = channel == "analysis"
		p.fresh, p.space = p.begun, ""
		p.state = func() bool { return harmonyText(p) }
	}
	return true
}

// harmonyText gives a body of thoughts or text.
func harmonyText(p *Parser) bool {
	at, mark, sure := p.find(harmonyEnds)
	if at < 0 {
		p.show(p.held)
		p.held = ""
		return false
	}
	p.show(p.held[:at])
	p.held = p.held[at:]
	if !sure {
		return false
	}
	harmonyEnd(p, mark)
	return true
}

func harmonyEnd(p *Parser, mark string) {
	p.held = p.held[len(mark):]
	p.space, p.thinking = "", false
	p.raw.Reset()
	p.state = func() bool { return harmonyHeader(p) }
	if p.Full() {
		p.state = p.discard
	}
}

// harmonyCall reads a call's arguments.
func harmonyCall(p *Parser, name string) bool {
	if !p.skipSpace() && !p.ended {
		return false
	}
	if p.held == "" || p.held[0] != '{' {
		p.held, p.begun = p.raw.String()+p.held, true
		p.raw.Reset()
		p.state = func() bool { return harmonyText(p) }
		return true
	}
	s := &scanner{}
	p.begin(name)
	p.state = func() bool { return harmonyArguments(p, s) }
	return true
}

func harmonyArguments(p *Parser, s *scanner) bool {
	var out []byte
	for i := range len(p.held) {
		var st status
		if out, st = s.push(out, p.held[i]); st == more {
			continue
		}
		if st == complete {
			i++
		}
		p.held = p.held[i:]
		p.argue(string(out))
		p.end(st == complete)
		p.fresh = true
		p.state = func() bool { return harmonyText(p) }
		return true
	}
	p.held = ""
	p.argue(string(out))
	if p.ended {
		p.end(false)
		p.state = p.discard
	}
	return false
}
