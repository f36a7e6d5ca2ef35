// Package llm holds the words that all parts of Signalbox share: a request for text, the pieces of its answer, the device
// that gives it, the record of what happened, and the errors callers branch on. It imports nothing of ours.
//
// The central type is Runner: what one engine process can do. The real engine (internal/generate), the fake one
// (backend/llm/llmtest) and the pipe to a child process (internal/pipe) all are Runners, so each can stand for another.
package llm

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Runner does the work of one device. Its methods may be called from several goroutines at once; a call ends early with
// ctx's error when ctx is done, at the next boundary between two inferences. Errors are *Error wherever a caller can
// do something about them.
type Runner interface {
	// Devices lists what the runtime sees, CPU first. It needs no model.
	Devices(ctx context.Context) ([]Device, error)
	// Load makes a model ready on this runner's device. Loading a loaded model returns at once.
	// progress may be nil; it is called on the caller's goroutine.
	Load(ctx context.Context, req LoadRequest, progress func(Phase)) (Loaded, error)
	// Unload frees a model, its tokenizer and its prefix slots. Unloading what is not loaded is no error.
	Unload(ctx context.Context, model string) error
	// Prepare renders the chat template and tokenizes, with a tokenizer alone: the model itself need not be loaded.
	Prepare(ctx context.Context, req PrepareRequest) (Prompt, error)
	// Generate answers a prepared prompt with a loaded model. It calls emit on the caller's goroutine, once per piece,
	// and returns when the last one has been emitted. When emit fails it stops and returns emit's error.
	// The Stats are true also when err is not nil: what was really done until then.
	Generate(ctx context.Context, req GenerateRequest, emit func(Delta) error) (Stats, error)
	// Embed turns each input into one vector, in order, with a loaded embedding model.
	Embed(ctx context.Context, req EmbedRequest) (Embedded, error)
	// Close frees everything. It may be called twice.
	Close() error
}

// ModelRef names a model and where its files are: all that an engine process needs to find it.
type ModelRef struct {
	Name   string `json:"name"`   // canonical, such as "smollm2:135m"; the key of everything loaded
	Dir    string `json:"dir"`    // folder with openvino_model.xml, openvino_tokenizer.xml, config.json, ...
	Digest string `json:"digest"` // "sha256:..." of the model's files: part of cache keys
}

// Message is one turn of a conversation.
type Message struct {
	Role       string     `json:"role"` // system, user, assistant or tool
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
}

// ToolCall is a call that the model asked for.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a JSON object, keys in the order they were written
}

// Request is one request for text in the product's own terms, whatever dialect it came in.
type Request struct {
	Model        string          // as the caller wrote it
	Messages     []Message       // a conversation; empty for a plain prompt
	Prompt       string          // a plain prompt: one user turn, or with Raw the text as it is
	System       string          // system text beside a plain prompt
	Raw          bool            // Prompt goes to the tokenizer without a template; special tokens in it count
	Suffix       string          // text after the gap: Prompt is what stands before it (fill in the middle)
	Template     string          // in place of the model's own chat template; empty: the model's
	Context      []int32         // tokens that stand before the prompt (generate's deprecated context)
	EchoContext  bool            // Stats.Context is wanted
	Tools        json.RawMessage // JSON array of OpenAI-style tools, keys in the caller's order; nil for none
	ToolChoice   ToolChoice
	Think        *Think      // nil: as the model does by itself
	Constraint   *Constraint // what the answer must look like; nil: free
	Sampling     Sampling
	Sent         []string `json:"-"` // names of the fields that came with the sampling ones: a variant's defaults give way to them
	Stop         []string
	MaxTokens    int            // at most this many tokens; 0: until the model or the context ends
	LimitName    string         `json:",omitempty"` // the caller's name of MaxTokens, where its dialect has several; empty: the dialect's usual one
	ContextLimit int            // the caller's num_ctx: prompt and answer share it; 0: none
	Logprobs     bool           // report each token's log probability
	TopLogprobs  int            // and that many alternatives
	KeepAlive    *time.Duration // how long the model stays loaded afterwards; negative: for ever; nil: the setting
	Device       string         // pinned device, "npu", "gpu:1", ...; empty: the router chooses
	Owner        string         // who asks: prefix slots are never shared between owners
	Ignored      []string       // request fields that are not honoured, by the caller's names
	Clamped      []string       // request fields that were cut to a limit
}

// ToolChoice says whether the model may or must call tools. The zero value leaves it to the model.
type ToolChoice struct {
	Mode     string // "", "auto", "none", "required" or "named"
	Name     string // with "named"
	Parallel *bool  // false: at most one call; nil: the model's way
	Strict   bool   // arguments must match the tools' schemas
}

// Think says whether and how long a thinking model thinks before it answers.
type Think struct {
	Enabled bool
	Effort  string // "low", "medium", "high", "max"; empty: the model's own
	Budget  int    // at most this many tokens of thinking; 0: no limit
}

// Sampling says how the next token is chosen. The zero value is not useful: begin with DefaultSampling.
type Sampling struct {
	Temperature      float64         `json:"temperature"` // 0: greedy
	TopK             int             `json:"top_k"`       // 0: off
	TopP             float64         `json:"top_p"`       // 1: off
	MinP             float64         `json:"min_p"`       // 0: off
	TypicalP         float64         `json:"typical_p"`   // 1: off
	RepeatPenalty    float64         `json:"repeat_penalty"`
	RepeatLastN      int             `json:"repeat_last_n"` // how far penalties look back; 0: off, -1: the whole context
	PresencePenalty  float64         `json:"presence_penalty"`
	FrequencyPenalty float64         `json:"frequency_penalty"`
	Seed             *int64          `json:"seed,omitempty"` // nil: another answer each time
	LogitBias        map[int]float64 `json:"logit_bias,omitempty"`
}

// DefaultSampling returns Ollama's defaults (api/types.go, DefaultOptions).
func DefaultSampling() Sampling {
	return Sampling{Temperature: 0.8, TopK: 40, TopP: 0.9, TypicalP: 1, RepeatPenalty: 1, RepeatLastN: 64}
}

// PrepareRequest asks for the tokens of a conversation or a prompt.
type PrepareRequest struct {
	Model    ModelRef        `json:"model"`
	Messages []Message       `json:"messages,omitempty"` // rendered through the chat template; nil: Prompt is used
	Tools    json.RawMessage `json:"tools,omitempty"`
	Prompt   string          `json:"prompt,omitempty"`   // raw text: no template, special tokens in it count
	Suffix   string          `json:"suffix,omitempty"`   // with Prompt: rendered as the model's fill-in-the-middle form
	Template string          `json:"template,omitempty"` // in place of the model's own
	Thinking *bool           `json:"thinking,omitempty"` // for the template; nil: its own way
	Effort   string          `json:"effort,omitempty"`   // for the template's reasoning_effort
	Context  []int32         `json:"context,omitempty"`  // tokens before the prompt
	Limit    int             `json:"limit,omitempty"`    // most tokens any device takes; refuses from bytes alone; 0: none
}

// Prompt is what a request comes to.
type Prompt struct {
	Tokens []int32 `json:"tokens"` // exact: what Generate is given
	Tail   string  `json:"tail"`   // how its text ends, up to some 100 bytes: shows whether a thought is open
}

// LoadRequest asks for a model on this runner's device.
type LoadRequest struct {
	Model       ModelRef `json:"model"`
	Embedding   bool     `json:"embedding,omitempty"`    // an embedding model: Embed, not Generate
	PromptLimit int      `json:"prompt_limit,omitempty"` // NPU: the static prompt length to compile for
	Reserve     int      `json:"reserve,omitempty"`      // NPU: tokens kept for the answer
}

// Phase is one step of a load, for people who wait.
type Phase struct {
	Name string `json:"name"` // "reading", "compiling for NPU", "warming up"
}

// Compiles tells the phase in which nothing that was kept of the model is used.
func (p Phase) Compiles() bool { return strings.HasPrefix(p.Name, "compiling ") }

// Loaded describes a model that is ready.
type Loaded struct {
	Bytes        int64         `json:"bytes"`         // memory taken on the device right after the load, as measured
	ContextLimit int           `json:"context_limit"` // most tokens of prompt and answer together
	PromptLimit  int           `json:"prompt_limit"`  // most tokens of the prompt
	LoadTime     time.Duration `json:"load_time"`     // 0 when it was loaded already
	Cached       bool          `json:"cached"`        // a compile cache was used
}

// GenerateRequest asks a loaded model to go on from Tokens.
type GenerateRequest struct {
	Model       ModelRef    `json:"model"`
	Tokens      []int32     `json:"tokens"`
	Sampling    Sampling    `json:"sampling"`
	Stop        []string    `json:"stop,omitempty"`
	Held        string      `json:"held,omitempty"`       // Stats.Held of the answer that Tokens end with: a stop string may begin in it
	MaxTokens   int         `json:"max_tokens,omitempty"` // 0: until the model or the context ends
	IgnoreEOS   bool        `json:"ignore_eos,omitempty"` // go on after an end token: for measuring
	Logprobs    bool        `json:"logprobs,omitempty"`
	TopLogprobs int         `json:"top_logprobs,omitempty"`
	Owner       string      `json:"owner,omitempty"`
	Markers     []string    `json:"markers,omitempty"` // special tokens that are text here: a parser waits for them
	Constraint  *Constraint `json:"constraint,omitempty"`
	Thought     *Thought    `json:"thought,omitempty"` // nil: the model thinks as long as it likes
}

// Thought limits how long a model thinks. When the limit is reached End is put into the answer, as if the model had written it.
type Thought struct {
	Open   string `json:"open"`   // the text that begins a thought
	Close  string `json:"close"`  // and ends it
	End    string `json:"end"`    // holds Close
	Opened bool   `json:"opened"` // the prompt ends within a thought
	Most   int    `json:"most"`   // tokens; 0: none at all
}

// Delta is one piece of an answer. Text is valid UTF-8 and never part of a stop string. An engine gives Text alone; Thinking
// and ToolCalls are what a model's parser finds in it.
type Delta struct {
	Text      string          `json:"text,omitempty"`
	Thinking  string          `json:"thinking,omitempty"`
	ToolCalls []ToolCallDelta `json:"tool_calls,omitempty"`
	Tokens    int             `json:"tokens"` // tokens generated so far, this piece included
	Logprobs  []TokenLogprob  `json:"logprobs,omitempty"`
}

// ToolCallDelta is a piece of a call. The first piece of an index has ID and Name, whole; Arguments are fragments of one
// JSON object, to be joined; Done marks the last piece. Broken, with Done, says that the answer broke off or went astray
// within the arguments: what was joined is no JSON.
type ToolCallDelta struct {
	Index     int    `json:"index"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	Done      bool   `json:"done,omitempty"`
}

// TokenLogprob is one chosen token with its log probability and the best alternatives.
type TokenLogprob struct {
	Token   string         `json:"token"`
	Bytes   []int          `json:"bytes"` // the token's bytes, as OpenAI sends them
	Logprob float64        `json:"logprob"`
	Top     []TokenLogprob `json:"top,omitempty"`
}

// Finish says why an answer ended.
type Finish string

const (
	FinishStop   Finish = "stop"       // an end token or a stop string
	FinishLength Finish = "length"     // MaxTokens or the context limit
	FinishTools  Finish = "tool_calls" // it called tools; set by dispatch, never by an engine
)

// Stats is what a Generate really did.
type Stats struct {
	PromptTokens     int           `json:"prompt_tokens"`
	CachedTokens     int           `json:"cached_tokens"` // of the prompt, taken from a prefix slot
	CompletionTokens int           `json:"completion_tokens"`
	Finish           Finish        `json:"finish"`
	StopString       string        `json:"stop_string,omitempty"` // the stop string that ended it
	Held             string        `json:"held,omitempty"`        // with FinishLength: the end of the text that was not emitted, for a stop string may begin with it; U+FFFD at its end is the beginning of a character
	Prefill          time.Duration `json:"prefill"`               // from its first turn until the first token was known
	Decode           time.Duration `json:"decode"`                // from the first token until the last
	Cancel           time.Duration `json:"cancel,omitempty"`      // from the wish to stop until the device was free
	Memory           int64         `json:"memory,omitempty"`      // bytes that the model takes on the device now, kept conversations included; 0: not known
	Context          []int32       `json:"-"`                     // tokens of prompt and answer, where they are wanted; set by dispatch, never by an engine
}

// EmbedRequest asks for vectors.
type EmbedRequest struct {
	Model      ModelRef `json:"model"`
	Inputs     []string `json:"inputs"`
	Truncate   bool     `json:"truncate"`             // cut what is too long; false: ErrContextLength
	Dimensions int      `json:"dimensions,omitempty"` // keep the first n and normalise again; 0: all
	Raw        bool     `json:"raw,omitempty"`        // do not normalise (/api/embeddings)
}

// Embedded is the answer to an EmbedRequest.
type Embedded struct {
	Vectors   [][]float32   `json:"vectors"`             // one per input, in order
	Tokens    int           `json:"tokens"`              // of all inputs, after cutting
	Truncated []int         `json:"truncated,omitempty"` // which inputs were cut
	Duration  time.Duration `json:"duration"`
	Memory    int64         `json:"memory,omitempty"` // bytes that the model takes on the device now; 0: not known
}
