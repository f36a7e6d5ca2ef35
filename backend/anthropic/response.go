package anthropic

import (
	"encoding/json"
	"slices"
	"time"

	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/wire"
)

// Message makes the answer to one request of /v1/messages: the events of a stream, or the one object. It follows the
// answer, so there is one for each request.
type Message struct {
	ID    string   // "msg_..."
	Model string   // repeated as it was asked
	Stops []string // the request's stop sequences: a model has others of its own

	parts wire.Parts
}

type message struct {
	ID           string      `json:"id"`
	Type         string      `json:"type"`
	Role         string      `json:"role"`
	Model        string      `json:"model"`
	Content      []any       `json:"content"`
	StopReason   *string     `json:"stop_reason"`
	StopSequence *string     `json:"stop_sequence"`
	Usage        usage       `json:"usage"`
	Record       *llm.Record `json:"llmeu,omitempty"`
}

// usage counts the whole prompt as input, so that it is what count_tokens says; how much of it was known already stands in the
// record.
type usage struct {
	InputTokens   int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	OutputTokens  int `json:"output_tokens"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type toolBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// event is one event of a stream. Fields that its type has not stay out.
type event struct {
	Type    string      `json:"type"`
	Message *message    `json:"message,omitempty"`
	Index   *int        `json:"index,omitempty"`
	Block   any         `json:"content_block,omitempty"`
	Delta   any         `json:"delta,omitempty"`
	Usage   *usage      `json:"usage,omitempty"`
	Record  *llm.Record `json:"llmeu,omitempty"`
}

func send(e event) []byte { return wire.Event(e.Type, marshal(e)) }

// Begin is the first event of a stream. The prompt's tokens are counted before the device is chosen, so rec has them.
func (m *Message) Begin(rec llm.Record) []byte {
	start := m.message()
	if rec.PromptTokens != nil {
		start.Usage.InputTokens = *rec.PromptTokens
	}
	return send(event{Type: "message_start", Message: &start})
}

// Wait is a sign of life.
func (m *Message) Wait() []byte { return send(event{Type: "ping"}) }

// Piece is the events of one delta.
func (m *Message) Piece(d llm.Delta) []byte { return m.steps(m.parts.Add(d)) }

func (m *Message) steps(steps []wire.Step) []byte {
	var out []byte
	for _, step := range steps {
		out = append(out, m.step(step)...)
	}
	return out
}

func (m *Message) step(step wire.Step) []byte {
	part := m.parts.List[step.Index]
	switch step.What {
	case wire.Open:
		return send(event{Type: "content_block_start", Index: &step.Index, Block: emptyBlock(part)})
	case wire.More:
		return send(event{Type: "content_block_delta", Index: &step.Index, Delta: deltaOf(part.Kind, step.Piece)})
	}
	return send(event{Type: "content_block_stop", Index: &step.Index})
}

func emptyBlock(part wire.Part) any {
	switch part.Kind {
	case wire.Thinking:
		return thinkingBlock{Type: "thinking"}
	case wire.Call:
		return toolBlock{"tool_use", part.ID, part.Name, json.RawMessage("{}")}
	}
	return textBlock{Type: "text"}
}

func deltaOf(kind, piece string) any {
	switch kind {
	case wire.Thinking:
		return map[string]string{"type": "thinking_delta", "thinking": piece}
	case wire.Call:
		return map[string]string{"type": "input_json_delta", "partial_json": piece}
	}
	return map[string]string{"type": "text_delta", "text": piece}
}

// Done is the last events of a stream that went well.
func (m *Message) Done(rec llm.Record, stats llm.Stats) []byte {
	var out []byte
	if len(m.parts.List) == 0 { // an empty answer is a block without text: clients look for one
		m.parts.List = append(m.parts.List, wire.Part{Kind: wire.Text})
		out = m.steps([]wire.Step{{What: wire.Open}, {What: wire.Close}})
	}
	out = append(out, m.steps(m.parts.End())...)
	reason, sequence := m.stopReason(rec, stats)
	u := usageOf(stats)
	out = append(out, send(event{Type: "message_delta", Delta: struct {
		StopReason   string  `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}{reason, sequence}, Usage: &u, Record: &rec})...)
	return append(out, send(event{Type: "message_stop"})...)
}

// Whole is the one object of an answer that is not streamed.
func (m *Message) Whole(answer *wire.Parts, rec llm.Record, stats llm.Stats) []byte {
	whole := m.message()
	for _, part := range answer.List {
		if block, ok := blockOf(part); ok {
			whole.Content = append(whole.Content, block)
		}
	}
	if len(whole.Content) == 0 {
		whole.Content = append(whole.Content, textBlock{Type: "text"})
	}
	reason, sequence := m.stopReason(rec, stats)
	whole.StopReason, whole.StopSequence, whole.Usage, whole.Record = &reason, sequence, usageOf(stats), &rec
	return marshal(whole)
}

// blockOf is a part as a block. A call cut short has no input that could be written.
func blockOf(part wire.Part) (any, bool) {
	switch part.Kind {
	case wire.Thinking:
		return thinkingBlock{Type: "thinking", Thinking: part.Text()}, true
	case wire.Call:
		input, whole := part.Arguments()
		return toolBlock{"tool_use", part.ID, part.Name, input}, whole
	}
	return textBlock{"text", part.Text()}, true
}

func (m *Message) message() message {
	return message{ID: m.ID, Type: "message", Role: "assistant", Model: m.Model, Content: []any{}}
}

// stopReason tells an answer that the model's context ended from one that the request's own limit did: the record names the limit
// where there was less room than it allows.
func (m *Message) stopReason(rec llm.Record, stats llm.Stats) (reason string, sequence *string) {
	switch {
	case stats.Finish == llm.FinishLength && slices.Contains(rec.Clamped, "max_tokens"):
		return "model_context_window_exceeded", nil
	case stats.Finish == llm.FinishLength:
		return "max_tokens", nil
	case stats.Finish == llm.FinishTools:
		return "tool_use", nil
	case slices.Contains(m.Stops, stats.StopString):
		return "stop_sequence", &stats.StopString
	}
	return "end_turn", nil
}

func usageOf(s llm.Stats) usage {
	return usage{InputTokens: s.PromptTokens, OutputTokens: s.CompletionTokens}
}

// CountBody answers /v1/messages/count_tokens.
func CountBody(tokens int) []byte {
	return marshal(struct {
		InputTokens int `json:"input_tokens"`
	}{tokens})
}

type model struct {
	Type        string    `json:"type"`
	ID          string    `json:"id"`
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
}

func modelOf(id string, m models.Model) model { return model{"model", id, m.Name, m.ModifiedAt.UTC()} }

// ModelsBody answers /v1/models for Anthropic's clients.
func ModelsBody(list []models.Model) []byte {
	data := []model{}
	for _, m := range list {
		data = append(data, modelOf(m.Name, m))
	}
	var first, last *string
	if len(data) > 0 {
		first, last = &data[0].ID, &data[len(data)-1].ID
	}
	return marshal(struct {
		Data    []model `json:"data"`
		HasMore bool    `json:"has_more"`
		FirstID *string `json:"first_id"`
		LastID  *string `json:"last_id"`
	}{data, false, first, last})
}

// ModelBody answers /v1/models/{id} for Anthropic's clients; the id is the one that was asked for.
func ModelBody(id string, m models.Model) []byte { return marshal(modelOf(id, m)) }
