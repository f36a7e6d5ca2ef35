// Package toolcall reads what language models write around their answers: thoughts, and calls of tools. Each family of
// models has its own way, which its chat template shows:
//
//	style := toolcall.Detect(model.Template)
//	parser := style.Parser(toolcall.Options{Tools: tools, Prompt: endOfThePrompt})
//	for piece := range answer {
//		for _, delta := range parser.Push(piece) { ... }
//	}
//	rest := parser.Finish()
//
// A parser gives the same whether it is fed byte by byte or all at once. None of a family's markers reaches Text. What
// looks like a call and is none comes out as text. A call that breaks off after its arguments have begun to flow keeps what
// has come, which is no JSON then: nothing can be taken back, and nobody should run half a call. A tool that the request does not
// have is called all the same, since the client can tell the model so; only a bare object must name one to be taken for a call.
//
// It also does the other direction: conversations with calls in the form that a template expects (Style.Conversation), our own
// instructions for models that know no tools, and the grammar that holds a model to a call (Style.Constraint).
package toolcall

import (
	"regexp"
	"slices"
	"strings"

	"signalbox/backend/llm"
)

// Style is how one model writes thoughts and calls. The zero value knows no thoughts, and calls in the generic form.
type Style struct {
	family  *family
	thought thought
	facts   facts
}

// facts are what a template shows beside its markers.
type facts struct {
	native     bool // it renders tools
	history    bool // and the calls of earlier turns
	single     bool // one call per turn only
	shortIDs   bool // ids of nine letters and digits
	noSystem   bool // refuses system messages
	inSystem   bool // tools are a member of the system message
	switchable bool // thinking can be switched
	effort     bool // has levels of thinking
}

// thought is how thoughts are marked.
type thought struct {
	open, close string
	skip        string // after open: not part of the thought
	end         string // what ends a thought that takes too long
	native      bool   // the model thinks, rather than that its thoughts are taken out of old turns
}

var thoughts = []thought{
	{open: "<think>", close: "</think>", end: "\n</think>\n\n"},
	{open: "[THINK]", close: "[/THINK]", end: "[/THINK]"},
	{open: "<|channel>", close: "<channel|>", skip: "thought", end: "\n<channel|>"},
}

// family is one way to write calls.
type family struct {
	name  string
	found func(template string) bool
	// markers are the special tokens that must be seen as text. The first parts of calls begin with one of opens.
	markers []string
	opens   map[string]func(*Parser)
	stops   []string // text that ends an answer
	bare    bool     // a JSON object at the beginning of an answer may be a call
	write   func(calls []call) string
}

// call is a call that is complete.
type call struct {
	name      string
	arguments string // a JSON object
}

var (
	toolsVariable  = regexp.MustCompile(`\btools\b`)
	thinkingSwitch = regexp.MustCompile(`\benable_thinking\b|(?:if|not|and|or|is) thinking\b|\bthinking is\b`)
)

// Detect finds a model's style from its chat template.
func Detect(template string) Style {
	s := Style{family: generic}
	s.facts = facts{
		single:     strings.Contains(template, "only supports single tool-calls"),
		shortIDs:   strings.Contains(template, "with length 9"),
		noSystem:   strings.Contains(template, "System role not supported"),
		history:    strings.Contains(template, "tool_calls"),
		inSystem:   strings.Contains(template, "message['tools']"),
		switchable: thinkingSwitch.MatchString(template),
		effort:     strings.Contains(template, "reasoning_effort"),
	}
	if toolsVariable.MatchString(template) {
		for _, f := range families {
			if f.found(template) {
				s.family, s.facts.native = f, true
				break
			}
		}
	}
	if s.family == harmony {
		s.thought = thought{open: "<|channel|>analysis<|message|>", close: "<|end|>", end: "<|end|><|start|>assistant<|channel|>final<|message|>", native: true}
		s.facts.single = true
		return s
	}
	for _, t := range thoughts {
		if strings.Contains(template, t.open) || strings.Contains(template, t.close) {
			s.thought = t
			s.thought.native = strings.Contains(template, t.open)
			break
		}
	}
	return s
}

// Family is the name of the way calls are written, for logs.
func (s Style) Family() string { return s.of().name }

// Format says for people how the model calls tools: by its family's way, or by ours.
func (s Style) Format() string {
	if s.facts.native {
		return s.of().name + " format of its own"
	}
	return "generic format held by a grammar"
}

func (s Style) of() *family {
	if s.family == nil {
		return generic
	}
	return s.family
}

// Native tells whether the template renders tools. Otherwise Conversation describes them.
func (s Style) Native() bool { return s.facts.native }

// Thinks tells whether the model thinks before it answers.
func (s Style) Thinks() bool { return s.thought.native }

// Thoughtful tells whether answers may hold thoughts: of some models the template shows only how to take them out of old turns.
func (s Style) Thoughtful() bool { return s.thought.open != "" }

// Switchable tells whether the template can switch thinking off or on.
func (s Style) Switchable() bool { return s.thought.native && s.facts.switchable }

// HasEffort tells whether the template takes a level of thinking.
func (s Style) HasEffort() bool { return s.facts.effort }

// Limit is what holds a model to so many tokens of thinking, after a prompt that ends with tail. It is nil for models that do
// not think.
func (s Style) Limit(most int, tail string) *llm.Thought {
	t := s.thought
	if !t.native {
		return nil
	}
	return &llm.Thought{Open: t.open, Close: t.close, End: t.end, Opened: s.opened(tail), Most: most}
}

// Capabilities are Ollama's words for what a model can do beside completion: always "tools", since one whose template does not
// know them is told in words and held to the generic form (clients hide tools where the word is missing), and "thinking".
func (s Style) Capabilities() []string {
	list := []string{"tools"}
	if s.thought.native {
		list = append(list, "thinking")
	}
	return list
}

// Markers are the special tokens that must come through as text for a Parser with these options.
func (s Style) Markers(tools bool) []string {
	var list []string
	if s.thought.open != "" && s.family != harmony {
		list = append(list, s.thought.open, s.thought.close)
	}
	if tools || s.family == harmony {
		list = append(list, s.of().markers...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Stops are texts that end an answer with these options, because what follows is not the model's to write.
func (s Style) Stops(tools bool) []string {
	if !tools {
		return nil
	}
	return s.of().stops
}
