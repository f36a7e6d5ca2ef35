package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"time"

	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/wire"
)

const fingerprint = "fp_signalbox"

type chunk struct {
	ID                string      `json:"id"`
	Object            string      `json:"object"`
	Created           int64       `json:"created"`
	Model             string      `json:"model"`
	SystemFingerprint string      `json:"system_fingerprint"`
	Choices           []any       `json:"choices"`
	Usage             *usage      `json:"usage,omitempty"`
	Record            *llm.Record `json:"llmeu,omitempty"`
}

type streamChoice struct {
	Index        int       `json:"index"`
	Delta        delta     `json:"delta"`
	Logprobs     *logprobs `json:"logprobs,omitempty"`
	FinishReason *string   `json:"finish_reason"`
}

// delta has the thinking under both names that clients read.
type delta struct {
	Role             string     `json:"role,omitempty"`
	Content          *string    `json:"content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
}

// toolCall is a call, or a piece of one: the first piece has id, type and name, the others arguments alone.
type toolCall struct {
	Index    *int     `json:"index,omitempty"` // in streams
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type choice struct {
	Index        int       `json:"index"`
	Message      message   `json:"message"`
	Logprobs     *logprobs `json:"logprobs"`
	FinishReason string    `json:"finish_reason"`
}

type message struct {
	Role             string     `json:"role"`
	Content          *string    `json:"content"` // null beside calls that came without text
	Refusal          *string    `json:"refusal"`
	Reasoning        string     `json:"reasoning,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
}

type usage struct {
	PromptTokens     int            `json:"prompt_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	TotalTokens      int            `json:"total_tokens"`
	PromptDetails    *promptDetails `json:"prompt_tokens_details,omitempty"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

type logprobs struct {
	Content []logprob `json:"content"`
}

type logprob struct {
	Token   string    `json:"token"`
	Logprob float64   `json:"logprob"`
	Bytes   []int     `json:"bytes"`
	Top     []logprob `json:"top_logprobs"`
}

// Completion makes the answer to one request of /v1/chat/completions. It follows the answer, so there is one for each request.
type Completion struct {
	ID           string // "chatcmpl-..."
	Created      int64  // Unix seconds, the same in all frames
	Model        string // repeated as it was asked
	IncludeUsage bool
	Logprobs     bool

	parts wire.Parts
}

// Begin is the first frame's object: the role and nothing else.
func (c *Completion) Begin() []byte {
	return c.frame(streamChoice{Delta: delta{Role: "assistant"}}, nil)
}

// Piece is the objects of one delta's frames.
func (c *Completion) Piece(d llm.Delta) [][]byte {
	var frames [][]byte
	probs := c.probs(d.Logprobs)
	add := func(piece delta) {
		frames = append(frames, c.frame(streamChoice{Delta: piece, Logprobs: probs}, nil))
		probs = nil // once
	}
	for _, step := range c.parts.Add(d) {
		part := c.parts.List[step.Index]
		switch {
		case part.Kind == wire.Call && step.What == wire.Close && part.Text() == "":
			add(delta{ToolCalls: []toolCall{{Index: &part.Nth, Function: function{Arguments: "{}"}}}}) // clients parse it
		case part.Kind == wire.Call && step.What == wire.Open:
			add(delta{ToolCalls: []toolCall{{&part.Nth, part.ID, "function", function{Name: part.Name}}}})
		case step.What != wire.More:
		case part.Kind == wire.Call:
			add(delta{ToolCalls: []toolCall{{Index: &part.Nth, Function: function{Arguments: step.Piece}}}})
		case part.Kind == wire.Thinking:
			add(delta{Reasoning: step.Piece, ReasoningContent: step.Piece})
		default:
			add(delta{Content: &step.Piece})
		}
	}
	c.parts.Logprobs = nil
	if len(d.Logprobs) > 0 && probs != nil {
		add(delta{})
	}
	return frames
}

// Done is the objects of the last frames before [DONE]: the reason with the record, then the usage if it was asked for.
func (c *Completion) Done(rec llm.Record, stats llm.Stats) [][]byte {
	reason := finishReason(stats.Finish)
	frames := [][]byte{c.frame(streamChoice{FinishReason: &reason}, &rec)}
	if c.IncludeUsage {
		u := usageOf(stats)
		end := c.chunk([]any{}, nil)
		end.Usage = &u
		frames = append(frames, marshal(end))
	}
	return frames
}

// Whole is the one object of an answer that is not streamed.
func (c *Completion) Whole(answer *wire.Parts, rec llm.Record, stats llm.Stats) []byte {
	text, thinking := answer.Join(wire.Text), answer.Join(wire.Thinking)
	m := message{Role: "assistant", Content: &text, Reasoning: thinking, ReasoningContent: thinking}
	for _, call := range answer.Calls() {
		m.ToolCalls = append(m.ToolCalls, toolCall{ID: call.ID, Type: "function", Function: function{call.Name, orEmpty(call.Text())}})
	}
	if text == "" && len(m.ToolCalls) > 0 {
		m.Content = nil
	}
	u := usageOf(stats)
	whole := c.chunk([]any{choice{Message: m, Logprobs: c.probs(answer.Logprobs), FinishReason: finishReason(stats.Finish)}}, &rec)
	whole.Object, whole.Usage = "chat.completion", &u
	return marshal(whole)
}

// orEmpty is a call's arguments, which every client parses as JSON.
func orEmpty(arguments string) string {
	if arguments == "" {
		return "{}"
	}
	return arguments
}

func (c *Completion) frame(choice streamChoice, rec *llm.Record) []byte {
	return marshal(c.chunk([]any{choice}, rec))
}

func (c *Completion) chunk(choices []any, rec *llm.Record) chunk {
	return chunk{
		ID: c.ID, Object: "chat.completion.chunk", Created: c.Created, Model: c.Model, SystemFingerprint: fingerprint,
		Choices: choices, Record: rec,
	}
}

func (c *Completion) probs(list []llm.TokenLogprob) *logprobs {
	if !c.Logprobs {
		return nil
	}
	return &logprobs{Content: convert(list)}
}

func convert(list []llm.TokenLogprob) []logprob {
	out := []logprob{}
	for _, l := range list {
		out = append(out, logprob{Token: l.Token, Logprob: l.Logprob, Bytes: l.Bytes, Top: convert(l.Top)})
	}
	return out
}

// finishReason is "stop", "length" or "tool_calls", whatever an engine may say (S30).
func finishReason(f llm.Finish) string {
	switch f {
	case llm.FinishLength, llm.FinishTools:
		return string(f)
	}
	return "stop"
}

func usageOf(s llm.Stats) usage {
	return usage{s.PromptTokens, s.CompletionTokens, s.PromptTokens + s.CompletionTokens, &promptDetails{s.CachedTokens}}
}

// EmbeddingsBody answers /v1/embeddings.
func EmbeddingsBody(req Embeddings, rec llm.Record, out llm.Embedded) []byte {
	type entry struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	data := []entry{}
	for i, vector := range out.Vectors {
		e := entry{Object: "embedding", Index: i, Embedding: vector}
		if req.Base64 {
			e.Embedding = base64.StdEncoding.EncodeToString(littleEndian(vector))
		}
		data = append(data, e)
	}
	return marshal(struct {
		Object string     `json:"object"`
		Data   []entry    `json:"data"`
		Model  string     `json:"model"`
		Usage  any        `json:"usage"`
		Record llm.Record `json:"llmeu"`
	}{"list", data, req.Model, struct {
		PromptTokens int `json:"prompt_tokens"`
		TotalTokens  int `json:"total_tokens"`
	}{out.Tokens, out.Tokens}, rec})
}

func littleEndian(vector []float32) []byte {
	b := make([]byte, 0, 4*len(vector))
	for _, v := range vector {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func modelOf(id string, modified time.Time) model {
	return model{id, "model", modified.Unix(), "library"}
}

// ModelsBody answers /v1/models. Without models data is an empty list: null breaks clients.
func ModelsBody(list []models.Model) []byte {
	data := []model{}
	for _, m := range list {
		data = append(data, modelOf(m.Name, m.ModifiedAt))
	}
	return marshal(struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", data})
}

// ModelBody answers /v1/models/{id}; the id is the one that was asked for.
func ModelBody(id string, m models.Model) []byte { return marshal(modelOf(id, m.ModifiedAt)) }
