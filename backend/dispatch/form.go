package dispatch

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/schema"
	"signalbox/backend/toolcall"
)

// form is how a request is put to its model, and how the answer is read: by the style that the chat template shows.
type form struct {
	request  llm.Request
	style    toolcall.Style
	field    string          // the caller's name for the form of the answer
	plain    bool            // no template and so no parser: raw prompts, and gaps to be filled
	tools    json.RawMessage // that may be called
	limit    int             // tokens of thinking; -1: none
	prepared llm.PrepareRequest

	ignored, clamped []string
}

// newForm works out the form. Route tells by which names the caller knows its fields.
func newForm(model models.Model, req llm.Request, route string) *form {
	f := &form{
		request: req, limit: -1, field: fieldsOf(route).format,
		style: toolcall.Detect(cmp.Or(req.Template, model.Template)),
		plain: req.Raw || req.Suffix != "",
		prepared: llm.PrepareRequest{
			Model: model.Ref(), Template: req.Template, Context: req.Context, Limit: req.ContextLimit,
		},
	}
	if window := fieldsOf(route).window; model.ContextLength > 0 && req.ContextLimit > model.ContextLength && !slices.Contains(req.Clamped, window) {
		f.clamped = append(f.clamped, window)
	}
	if f.plain {
		f.prepared.Prompt, f.prepared.Suffix = req.Prompt, req.Suffix
		return f
	}
	if req.ToolChoice.Mode != "none" {
		f.tools = req.Tools
	}
	f.prepared.Messages, f.prepared.Tools = f.style.Conversation(conversation(req), f.tools)
	f.think(fieldsOf(route).think)
	return f
}

// think puts the wish to think, or not to, into what the model understands. A template that has no switch still has an end
// for its thoughts: that is put into the answer where none are wanted.
func (f *form) think(field string) {
	want := f.request.Think
	switch {
	case want == nil:
		return
	case !f.style.Thinks():
		if want.Enabled {
			f.ignored = append(f.ignored, field)
		}
		return
	case f.style.Family() == "harmony" && !want.Enabled: // it cannot do without: as little as it can
		f.prepared.Effort = "low"
		f.ignored = append(f.ignored, field)
		return
	case f.style.Switchable():
		f.prepared.Thinking = &want.Enabled
	case !want.Enabled:
		f.limit = 0
	}
	if !want.Enabled {
		return
	}
	if want.Budget > 0 {
		f.limit = want.Budget
	}
	switch {
	case want.Effort == "":
	case !f.style.HasEffort():
		f.ignored = append(f.ignored, field)
	case f.style.Family() == "harmony" && want.Effort == "max": // the highest that it knows
		f.prepared.Effort = "high"
		f.clamped = append(f.clamped, field)
	default:
		f.prepared.Effort = want.Effort
	}
}

// generate is what the engine is asked for. What no grammar can hold is refused here: before the request waits for a device, and
// before a model is loaded for it.
func (f *form) generate(model models.Model, prompt llm.Prompt) (llm.GenerateRequest, error) {
	req := f.request
	out := llm.GenerateRequest{
		Model: model.Ref(), Tokens: prompt.Tokens, Sampling: req.Sampling, Stop: req.Stop, MaxTokens: answerLimit(req, len(prompt.Tokens)),
		Logprobs: req.Logprobs, TopLogprobs: req.TopLogprobs, Owner: req.Owner, Constraint: req.Constraint,
	}
	if err := schema.Check(req.Constraint); err != nil {
		return out, at(f.field, err)
	}
	if f.plain {
		return out, nil
	}
	if f.limit >= 0 {
		out.Thought = f.style.Limit(f.limit, prompt.Tail)
	}
	stops := f.style.Stops(f.tools != nil)
	out.Stop = slices.Concat(req.Stop, stops)
	out.Markers = slices.Concat(f.style.Markers(f.tools != nil), stops)
	var err error
	out.Constraint, err = f.style.Constraint(toolcall.Demand{
		Tools: f.tools, Choice: req.ToolChoice, Format: req.Constraint, Prompt: prompt.Tail, Thinking: f.prepared.Thinking,
	})
	if err != nil {
		return out, err
	}
	return out, at("tools", schema.Check(out.Constraint))
}

// at names the field that an error is about.
func at(field string, err error) error {
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Param == "" {
		e.Param = field
	}
	return err
}

// errEnough ends an engine's answer after all the calls that the caller allows.
var errEnough = errors.New("all the calls that were allowed have been made")

// reader reads an engine's answer, and gives the caller what is in it.
type reader struct {
	form    *form
	parser  *toolcall.Parser // nil: the answer is text
	deliver func(llm.Delta) error

	raw     strings.Builder    // all that the model wrote and the engine did not hold back
	waiting []llm.TokenLogprob // of text that is held back
	tokens  int
	text    *strings.Builder // the answer, where it must match a schema; nil: it need not
}

// read returns a reader for one try.
func (f *form) read(prompt llm.Prompt, deliver func(llm.Delta) error) *reader {
	r := &reader{form: f, deliver: deliver}
	if want := f.request.Constraint; want != nil && (want.JSON || want.Schema != nil) {
		r.text = &strings.Builder{}
		r.deliver = func(d llm.Delta) error {
			r.text.WriteString(d.Text)
			return deliver(d)
		}
	}
	if f.plain || len(f.tools) == 0 && !f.style.Thoughtful() {
		return r
	}
	o := toolcall.Options{Tools: f.tools, Prompt: prompt.Tail}
	choice := f.request.ToolChoice
	if choice.Mode == "named" || choice.Parallel != nil && !*choice.Parallel {
		o.Most = 1
	}
	r.parser = f.style.Parser(o)
	return r
}

// take reads a piece of the engine's.
func (r *reader) take(d llm.Delta) error {
	r.tokens = d.Tokens
	if d.Text == "" {
		r.waiting = append(r.waiting, d.Logprobs...)
		return nil
	}
	r.raw.WriteString(d.Text)
	return r.push(d)
}

// push hands on a piece of the engine's, or what the parser finds in it.
func (r *reader) push(d llm.Delta) error {
	r.waiting = append(r.waiting, d.Logprobs...)
	if r.parser == nil {
		return r.give([]llm.Delta{d})
	}
	if err := r.give(r.parser.Push(d.Text)); err != nil {
		return err
	}
	if r.parser.Full() {
		return errEnough
	}
	return nil
}

// give hands on what the parser found. Probabilities go with the first piece that comes after them.
func (r *reader) give(deltas []llm.Delta) error {
	for _, d := range deltas {
		d.Tokens, d.Logprobs, r.waiting = r.tokens, r.waiting, nil
		if err := r.deliver(d); err != nil {
			return err
		}
	}
	return nil
}

// end gives the rest, and completes what the engine says about the answer.
func (r *reader) end(stats llm.Stats, err error) (llm.Stats, error) {
	r.tokens = stats.CompletionTokens
	if err == nil && (stats.Held != "" || r.parser == nil && len(r.waiting) > 0) {
		err = r.push(llm.Delta{Text: stats.Held})
		stats.Held = ""
	}
	if !slices.Contains(r.form.request.Stop, stats.StopString) {
		stats.StopString = "" // one of ours
	}
	if r.parser == nil {
		return stats, cmp.Or(err, r.validate(stats))
	}
	if errors.Is(err, errEnough) {
		stats.Finish, stats.Cancel, err = llm.FinishStop, 0, nil
	}
	if err != nil {
		if llm.CodeOf(err) == llm.CodeEngine {
			_ = r.give(r.parser.Finish()) // what was held back is part of what the model did
		}
		return stats, err
	}
	err = r.give(r.parser.Finish())
	if stats.Finish == llm.FinishStop && r.parser.Calls() > 0 {
		stats.Finish = llm.FinishTools
	}
	return stats, cmp.Or(err, r.validate(stats))
}

// validate checks an answer that came to its end against the schema that was asked for. The grammar has held it to that, so this
// finds faults of ours; better an error than an answer that its caller takes for what it is not.
func (r *reader) validate(stats llm.Stats) error {
	if r.text == nil || stats.Finish != llm.FinishStop || stats.StopString != "" {
		return nil
	}
	want := r.form.request.Constraint.Schema
	if want == nil {
		want = json.RawMessage(`{"type":"object"}`)
	}
	if err := schema.Validate(want, r.text.String()); err != nil {
		return llm.Errorf(llm.CodeInternal, "hold the answer to its form: %w", err)
	}
	return nil
}
