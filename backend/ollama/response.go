package ollama

import (
	"time"

	"signalbox/backend/llm"
)

// message is a turn as answers write it. Clients fail without role or with a content of null.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
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
	tail
}

// tail is what lines of chat and generate share. Durations are nanoseconds; Ollama leaves out zeros.
type tail struct {
	Done               bool          `json:"done"`
	DoneReason         string        `json:"done_reason,omitempty"`
	Logprobs           []logprob     `json:"logprobs,omitempty"`
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

// Lines makes the answer to one request of chat or generate.
type Lines struct {
	Model    string           // repeated as it was asked
	Generate bool             // of /api/generate; otherwise of /api/chat
	Now      func() time.Time // nil: time.Now
}

// Piece is one line of a stream.
func (l Lines) Piece(d llm.Delta) []byte {
	return l.line(d.Text, tail{Logprobs: logprobs(d.Logprobs)})
}

// Wait is a line without text: it keeps clients that count only lines as life from hanging up.
func (l Lines) Wait() []byte { return l.line("", tail{}) }

// Done is the last line of a stream that went well.
func (l Lines) Done(took time.Duration, rec llm.Record, stats llm.Stats) []byte {
	return l.line("", doneTail(took, rec, stats))
}

// Whole is the one object of an answer that is not streamed.
func (l Lines) Whole(text string, probs []llm.TokenLogprob, took time.Duration, rec llm.Record, stats llm.Stats) []byte {
	t := doneTail(took, rec, stats)
	t.Logprobs = logprobs(probs)
	return l.line(text, t)
}

// Loaded answers a request that only loads the model.
func (l Lines) Loaded(took time.Duration, rec llm.Record) []byte {
	return l.line("", tail{Done: true, DoneReason: "load", TotalDuration: took, LoadDuration: loadTime(rec), Record: &rec})
}

// Unloaded answers a request that only frees the model.
func (l Lines) Unloaded() []byte { return l.line("", tail{Done: true, DoneReason: "unload"}) }

func (l Lines) line(text string, t tail) []byte {
	now := time.Now
	if l.Now != nil {
		now = l.Now
	}
	created := now().UTC()
	if l.Generate {
		return marshal(generateLine{Model: l.Model, CreatedAt: created, Response: text, tail: t})
	}
	return marshal(chatLine{Model: l.Model, CreatedAt: created, Message: message{Role: "assistant", Content: text}, tail: t})
}

func doneTail(took time.Duration, rec llm.Record, stats llm.Stats) tail {
	return tail{
		Done: true, DoneReason: doneReason(stats.Finish), TotalDuration: took, LoadDuration: loadTime(rec),
		PromptEvalCount: stats.PromptTokens, PromptEvalDuration: stats.Prefill,
		EvalCount: stats.CompletionTokens, EvalDuration: stats.Decode, Record: &rec,
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
