package ollama

import (
	"encoding/json"
	"time"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

// message is a turn as answers write it. Clients fail without role or with a content of null.
type message struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	Thinking  string     `json:"thinking,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type function struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object
}

// callsOf are those of the parts that are whole: the arguments here are an object, and half of one is none.
func callsOf(parts []wire.Part) []toolCall {
	var calls []toolCall
	for _, p := range parts {
		if arguments, whole := p.Arguments(); whole && p.Kind == wire.Call {
			calls = append(calls, toolCall{p.ID, function{p.Nth, p.Name, arguments}})
		}
	}
	return calls
}

type chatLine struct {
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at"`
	Message   message   `json:"message"`
	tail
}

type generateLine struct {
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at"`
	Response  string    `json:"response"`
	Thinking  string    `json:"thinking,omitempty"`
	tail
}

// tail is what lines of chat and generate share. Durations are nanoseconds; Ollama leaves out zeros.
type tail struct {
	Done               bool          `json:"done"`
	DoneReason         string        `json:"done_reason,omitempty"`
	Logprobs           []logprob     `json:"logprobs,omitempty"`
	Context            []int32       `json:"context,omitempty"` // of generate
	TotalDuration      time.Duration `json:"total_duration,omitempty"`
	LoadDuration       time.Duration `json:"load_duration,omitempty"`
	PromptEvalCount    int           `json:"prompt_eval_count,omitempty"`
	PromptEvalDuration time.Duration `json:"prompt_eval_duration,omitempty"`
	EvalCount          int           `json:"eval_count,omitempty"`
	EvalDuration       time.Duration `json:"eval_duration,omitempty"`
	Record             *llm.Record   `json:"llmeu,omitempty"`
}

type logprob struct {
	Token   string    `json:"token"`
	Logprob float64   `json:"logprob"`
	Bytes   []int     `json:"bytes,omitempty"`
	Top     []logprob `json:"top_logprobs,omitempty"`
}

func logprobs(list []llm.TokenLogprob) []logprob {
	var out []logprob
	for _, l := range list {
		out = append(out, logprob{Token: l.Token, Logprob: l.Logprob, Bytes: l.Bytes, Top: logprobs(l.Top)})
	}
	return out
}

// Lines makes the answer to one request of chat or generate. It follows the answer, so there is one for each request.
type Lines struct {
	Model    string           // repeated as it was asked
	Generate bool             // of /api/generate; otherwise of /api/chat
	Now      func() time.Time // nil: time.Now

	parts wire.Parts
}

// Piece is the lines of one delta: none when it has nothing to say yet, as tool calls go out whole.
func (l *Lines) Piece(d llm.Delta) [][]byte {
	closed := l.closed(l.parts.Add(d))
	l.parts.Logprobs = nil // each line has its own
	var lines [][]byte
	if d.Text != "" || d.Thinking != "" || len(d.Logprobs) > 0 {
		lines = append(lines, l.line(message{Content: d.Text, Thinking: d.Thinking}, tail{Logprobs: logprobs(d.Logprobs)}))
	}
	return append(lines, closed...)
}

// closed is the line with the tool calls that have become whole.
func (l *Lines) closed(steps []wire.Step) [][]byte {
	var parts []wire.Part
	for _, step := range steps {
		if step.What == wire.Close {
			parts = append(parts, l.parts.List[step.Index])
		}
	}
	if calls := callsOf(parts); len(calls) > 0 {
		return [][]byte{l.line(message{ToolCalls: calls}, tail{})}
	}
	return nil
}

// Wait is a line without text: it keeps clients that count only lines as life from hanging up.
func (l *Lines) Wait() []byte { return l.line(message{}, tail{}) }

// Done is the last lines of a stream that went well.
func (l *Lines) Done(took time.Duration, rec llm.Record, stats llm.Stats) [][]byte {
	return append(l.closed(l.parts.End()), l.line(message{}, doneTail(took, rec, stats)))
}

// Whole is the one object of an answer that is not streamed.
func (l *Lines) Whole(answer *wire.Parts, took time.Duration, rec llm.Record, stats llm.Stats) []byte {
	t := doneTail(took, rec, stats)
	t.Logprobs = logprobs(answer.Logprobs)
	return l.line(message{
		Content: answer.Join(wire.Text), Thinking: answer.Join(wire.Thinking), ToolCalls: callsOf(answer.List),
	}, t)
}

// Loaded answers a request that only loads the model.
func (l *Lines) Loaded(took time.Duration, rec llm.Record) []byte {
	return l.line(message{}, tail{Done: true, DoneReason: "load", TotalDuration: took, LoadDuration: loadTime(rec), Record: &rec})
}

// Unloaded answers a request that only frees the model.
func (l *Lines) Unloaded() []byte { return l.line(message{}, tail{Done: true, DoneReason: "unload"}) }

func (l *Lines) line(m message, t tail) []byte {
	now := time.Now
	if l.Now != nil {
		now = l.Now
	}
	created := now().UTC()
	if l.Generate {
		return marshal(generateLine{Model: l.Model, CreatedAt: created, Response: m.Content, Thinking: m.Thinking, tail: t})
	}
	m.Role = "assistant"
	return marshal(chatLine{Model: l.Model, CreatedAt: created, Message: m, tail: t})
}

func doneTail(took time.Duration, rec llm.Record, stats llm.Stats) tail {
	return tail{
		Done: true, DoneReason: doneReason(stats.Finish), TotalDuration: took, LoadDuration: loadTime(rec),
		PromptEvalCount: stats.PromptTokens, PromptEvalDuration: stats.Prefill,
		EvalCount: stats.CompletionTokens, EvalDuration: stats.Decode, Context: stats.Context, Record: &rec,
	}
}

// doneReason is "stop" or "length", whatever an engine may say (S30).
func doneReason(f llm.Finish) string {
	if f == llm.FinishLength {
		return "length"
	}
	return "stop"
}

func loadTime(rec llm.Record) time.Duration {
	if rec.LoadMS == nil {
		return 0
	}
	return time.Duration(*rec.LoadMS * float64(time.Millisecond))
}

// EmbedBody answers /api/embed.
func EmbedBody(model string, took time.Duration, rec llm.Record, out llm.Embedded) []byte {
	vectors := out.Vectors
	if vectors == nil {
		vectors = [][]float32{}
	}
	return marshal(struct {
		Model           string        `json:"model"`
		Embeddings      [][]float32   `json:"embeddings"`
		TotalDuration   time.Duration `json:"total_duration,omitempty"`
		LoadDuration    time.Duration `json:"load_duration,omitempty"`
		PromptEvalCount int           `json:"prompt_eval_count,omitempty"`
		Record          llm.Record    `json:"llmeu"`
	}{model, vectors, took, loadTime(rec), out.Tokens, rec})
}

// EmbeddingsBody answers the older /api/embeddings.
func EmbeddingsBody(rec llm.Record, out llm.Embedded) []byte {
	vector := []float32{}
	if len(out.Vectors) > 0 {
		vector = out.Vectors[0]
	}
	return marshal(struct {
		Embedding []float32  `json:"embedding"`
		Record    llm.Record `json:"llmeu"`
	}{vector, rec})
}

// StatusBody answers /api/status: there is no cloud here.
func StatusBody() []byte { return []byte(`{"cloud":{"disabled":true,"source":"config"}}`) }
