package openai

import (
	"encoding/json"
	"fmt"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

// Response makes the answer to one request of /v1/responses: the events of a stream, or the one object. It follows the
// answer, so there is one for each request.
type Response struct {
	ID       string // "resp_..."
	Created  int64
	Model    string
	Echo     Echo
	Logprobs bool

	parts    wire.Parts
	sequence int
}

// responseObject is a response as OpenAI's libraries read it: they miss fields that are not there.
type responseObject struct {
	ID                 string         `json:"id"`
	Object             string         `json:"object"`
	CreatedAt          int64          `json:"created_at"`
	Status             string         `json:"status"`
	Background         bool           `json:"background"`
	Error              *responseError `json:"error"`
	IncompleteDetails  *incomplete    `json:"incomplete_details"`
	Model              string         `json:"model"`
	Output             []any          `json:"output"`
	PreviousResponseID *string        `json:"previous_response_id"`
	Store              bool           `json:"store"`
	Truncation         string         `json:"truncation"`
	Echo
	Usage  *responseUsage `json:"usage"`
	Record *llm.Record    `json:"llmeu,omitempty"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	InputTokens   int           `json:"input_tokens"`
	InputDetails  promptDetails `json:"input_tokens_details"`
	OutputTokens  int           `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

type outputText struct {
	Type        string    `json:"type"`
	Text        string    `json:"text"`
	Annotations []any     `json:"annotations"`
	Logprobs    []logprob `json:"logprobs"`
}

type outputMessage struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Status  string       `json:"status"`
	Role    string       `json:"role"`
	Content []outputText `json:"content"`
}

type summaryText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type outputReasoning struct {
	ID      string        `json:"id"`
	Type    string        `json:"type"`
	Status  string        `json:"status"`
	Summary []summaryText `json:"summary"`
}

type outputCall struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

const (
	inProgress = "in_progress"
	completed  = "completed"
	cutShort   = "incomplete"
)

// event is one event of a stream, numbered. Fields that its type has not stay out.
type event struct {
	Type         string    `json:"type"`
	Sequence     int       `json:"sequence_number"`
	Response     any       `json:"response,omitempty"`
	OutputIndex  *int      `json:"output_index,omitempty"`
	ItemID       string    `json:"item_id,omitempty"`
	ContentIndex *int      `json:"content_index,omitempty"`
	SummaryIndex *int      `json:"summary_index,omitempty"`
	Item         any       `json:"item,omitempty"`
	Part         any       `json:"part,omitempty"`
	Delta        *string   `json:"delta,omitempty"`
	Text         *string   `json:"text,omitempty"`
	Name         string    `json:"name,omitempty"`
	Arguments    *string   `json:"arguments,omitempty"`
	Logprobs     []logprob `json:"logprobs,omitzero"` // a list, also an empty one, where text is
}

func (r *Response) send(e event) []byte {
	e.Sequence = r.sequence
	r.sequence++
	return wire.Event(e.Type, marshal(e))
}

// Begin is the first events of a stream.
func (r *Response) Begin() []byte {
	return append(r.send(event{Type: "response.created", Response: r.object(inProgress)}), r.Wait()...)
}

// Wait is an event that says that the answer is still to come. Codex counts comments not as life.
func (r *Response) Wait() []byte {
	return r.send(event{Type: "response.in_progress", Response: r.object(inProgress)})
}

// Piece is the events of one delta.
func (r *Response) Piece(d llm.Delta) []byte {
	var out []byte
	probs := r.probs(d.Logprobs)
	for _, step := range r.parts.Add(d) {
		out = append(out, r.step(step, probs)...)
	}
	return out
}

var zero = new(int)

func (r *Response) step(step wire.Step, probs []logprob) []byte {
	part := r.parts.List[step.Index]
	e := event{OutputIndex: &step.Index, ItemID: itemID(r.ID, part.Kind, step.Index)}
	switch part.Kind {
	case wire.Thinking:
		return r.thinking(step, part, e)
	case wire.Call:
		return r.call(step, part, e)
	}
	return r.text(step, part, e, probs)
}

// item is an event of a whole item, which names it inside.
func (r *Response) item(kind string, step wire.Step, item any) []byte {
	return r.send(event{Type: "response.output_item." + kind, OutputIndex: &step.Index, Item: item})
}

func (r *Response) text(step wire.Step, part wire.Part, e event, probs []logprob) []byte {
	e.ContentIndex = zero
	content := outputText{"output_text", "", []any{}, []logprob{}}
	var out []byte
	switch step.What {
	case wire.Open:
		out = r.item("added", step, outputMessage{e.ItemID, "message", inProgress, "assistant", []outputText{}})
		e.Type, e.Part = "response.content_part.added", content
		return append(out, r.send(e)...)
	case wire.More:
		e.Type, e.Delta, e.Logprobs = "response.output_text.delta", &step.Piece, probs
		return r.send(e)
	}
	content.Text = part.Text()
	done := e
	done.Type, done.Text, done.Logprobs = "response.output_text.done", &content.Text, []logprob{}
	out = r.send(done)
	e.Type, e.Part = "response.content_part.done", content
	out = append(out, r.send(e)...)
	return append(out, r.item("done", step, itemOf(r.ID, part, step.Index, completed, nil))...)
}

func (r *Response) thinking(step wire.Step, part wire.Part, e event) []byte {
	e.SummaryIndex = zero
	var out []byte
	switch step.What {
	case wire.Open:
		out = r.item("added", step, outputReasoning{e.ItemID, "reasoning", inProgress, []summaryText{}})
		e.Type, e.Part = "response.reasoning_summary_part.added", summaryText{"summary_text", ""}
		return append(out, r.send(e)...)
	case wire.More:
		e.Type, e.Delta = "response.reasoning_summary_text.delta", &step.Piece
		return r.send(e)
	}
	text := part.Text()
	done := e
	done.Type, done.Text = "response.reasoning_summary_text.done", &text
	out = r.send(done)
	e.Type, e.Part = "response.reasoning_summary_part.done", summaryText{"summary_text", text}
	out = append(out, r.send(e)...)
	return append(out, r.item("done", step, itemOf(r.ID, part, step.Index, completed, nil))...)
}

func (r *Response) call(step wire.Step, part wire.Part, e event) []byte {
	switch step.What {
	case wire.Open:
		return r.item("added", step, outputCall{e.ItemID, "function_call", inProgress, part.ID, part.Name, ""})
	case wire.More:
		e.Type, e.Delta = "response.function_call_arguments.delta", &step.Piece
		return r.send(e)
	}
	arguments := orEmpty(part.Text())
	e.Type, e.Name, e.Arguments = "response.function_call_arguments.done", part.Name, &arguments
	return append(r.send(e), r.item("done", step, itemOf(r.ID, part, step.Index, completed, nil))...)
}

func itemID(response, kind string, index int) string {
	prefix := map[string]string{wire.Text: "msg", wire.Thinking: "rs", wire.Call: "fc"}[kind]
	return fmt.Sprintf("%s_%s_%d", prefix, response[len("resp_"):], index)
}

// itemOf is a part as an item of the output.
func itemOf(response string, part wire.Part, index int, status string, probs []logprob) any {
	id := itemID(response, part.Kind, index)
	switch part.Kind {
	case wire.Thinking:
		return outputReasoning{id, "reasoning", status, []summaryText{{"summary_text", part.Text()}}}
	case wire.Call:
		return outputCall{id, "function_call", status, part.ID, part.Name, orEmpty(part.Text())}
	}
	if probs == nil {
		probs = []logprob{}
	}
	return outputMessage{id, "message", status, "assistant", []outputText{{"output_text", part.Text(), []any{}, probs}}}
}

// Done is the last events of a stream that went well. An answer cut short ends with response.incomplete.
func (r *Response) Done(rec llm.Record, stats llm.Stats) []byte {
	var out []byte
	if len(r.parts.List) == 0 { // an empty answer is a message without text: clients look for one
		out = r.openEmpty()
	}
	for _, step := range r.parts.End() {
		out = append(out, r.step(step, nil)...)
	}
	object := r.finished(&r.parts, rec, stats)
	return append(out, r.send(event{Type: "response." + object.Status, Response: object})...)
}

func (r *Response) openEmpty() []byte {
	r.parts.List = append(r.parts.List, wire.Part{Kind: wire.Text})
	var out []byte
	for _, what := range []string{wire.Open, wire.Close} {
		out = append(out, r.step(wire.Step{What: what}, nil)...)
	}
	return out
}

// Failed is the last event of a stream that did not go well.
func (r *Response) Failed(err *llm.Error) []byte {
	object := r.object("failed")
	object.Output = outputOf(r.ID, &r.parts, cutShort, nil)
	object.Error = &responseError{responseCode(err.Code), err.Error()}
	return r.send(event{Type: "response.failed", Response: object})
}

// responseCode is what clients branch on: Codex knows context_length_exceeded.
func responseCode(code llm.Code) string {
	switch code {
	case llm.CodeContextLength:
		return string(code)
	case llm.CodeInvalid, llm.CodeUnsupported:
		return "invalid_prompt"
	case llm.CodeOverloaded, llm.CodeStopped, llm.CodeUnavailable:
		return "server_is_overloaded"
	}
	return "server_error"
}

// Whole is the one object of an answer that is not streamed.
func (r *Response) Whole(answer *wire.Parts, rec llm.Record, stats llm.Stats) []byte {
	if len(answer.List) == 0 {
		answer.List = append(answer.List, wire.Part{Kind: wire.Text})
	}
	return marshal(r.finished(answer, rec, stats))
}

func (r *Response) finished(answer *wire.Parts, rec llm.Record, stats llm.Stats) responseObject {
	object := r.object(completed)
	if stats.Finish == llm.FinishLength {
		object.Status, object.IncompleteDetails = cutShort, &incomplete{"max_output_tokens"}
	}
	object.Output = outputOf(r.ID, answer, completed, r.probs(answer.Logprobs))
	if n := len(object.Output); n > 0 && object.Status == cutShort {
		object.Output[n-1] = itemOf(r.ID, answer.List[n-1], n-1, cutShort, r.probs(answer.Logprobs))
	}
	u := responseUsage{
		InputTokens: stats.PromptTokens, InputDetails: promptDetails{stats.CachedTokens},
		OutputTokens: stats.CompletionTokens, TotalTokens: stats.PromptTokens + stats.CompletionTokens,
	}
	object.Usage, object.Record = &u, &rec
	return object
}

func outputOf(response string, answer *wire.Parts, status string, probs []logprob) []any {
	list := []any{}
	for i, part := range answer.List {
		list = append(list, itemOf(response, part, i, status, probs))
		if part.Kind == wire.Text {
			probs = nil // they stand with the first text
		}
	}
	return list
}

func (r *Response) object(status string) responseObject {
	object := responseObject{
		ID: r.ID, Object: "response", CreatedAt: r.Created, Status: status, Model: r.Model, Output: []any{}, Truncation: "disabled", Echo: r.Echo,
	}
	or := func(raw *json.RawMessage, fallback string) {
		if *raw == nil {
			*raw = json.RawMessage(fallback)
		}
	}
	or(&object.Metadata, "{}")
	or(&object.Reasoning, `{"effort":null,"summary":null}`)
	or(&object.Text, `{"format":{"type":"text"}}`)
	or(&object.ToolChoice, `"auto"`)
	or(&object.Tools, "[]")
	return object
}

func (r *Response) probs(list []llm.TokenLogprob) []logprob {
	if !r.Logprobs || len(list) == 0 {
		return []logprob{}
	}
	return convert(list)
}
