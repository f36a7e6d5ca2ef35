// Package journal keeps what happened to each request, live and afterwards, and the window's chats. Open it, Begin an entry
// for each request, Update it while the request goes on, End it. Nothing here fails or blocks a request: what SQLite cannot
// take stays in memory and is tried again, and Problem says so. Prompts and answers of requests are stored only after
// SetBodies has asked for it, apart from the entries and for a time of their own.
package journal

import (
	"encoding/json"
	"time"

	"signalbox/backend/llm"
)

// States of an entry.
const (
	StateQueued   = "queued"
	StateLoading  = "loading"
	StatePrefill  = "prefill"
	StateDecoding = "decoding"
	StateDone     = "done"
)

// Entry is one request: its routing record and what else the window shows of it.
type Entry struct {
	llm.Record
	State       string    `json:"state"`
	Position    int       `json:"position,omitempty"` // in the queue, from 1
	Phase       string    `json:"phase,omitempty"`    // of a load: "compiling for NPU"
	Client      string    `json:"client"`             // who asked, such as "Zed" or "curl"
	UserAgent   string    `json:"user_agent"`
	Route       string    `json:"route"`       // "/api/chat"
	ModelAsked  string    `json:"model_asked"` // as the caller wrote it
	StartedAt   time.Time `json:"started_at"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	Error       string    `json:"error,omitempty"`
	TokensSoFar int       `json:"tokens_so_far"`
	Interrupted bool      `json:"interrupted,omitempty"` // Signalbox ended, or was ended, while it ran

	body *Body // waits for the writer with the entry; nil: not kept
}

// Body is what a request asked and what it was answered.
type Body struct {
	Request llm.Request `json:"request"`
	Answer  string      `json:"answer"` // its text, without thinking and tool calls
}

// Query narrows List down. Zero fields do not.
type Query struct {
	Before  time.Time   // entries that started before it
	Limit   int         // 0: 50; at most 1,000
	Client  string      // exactly
	Model   string      // the model used, or as asked
	Device  string      // execution device: its label, "NPU", or its id, "npu:0"
	Outcome llm.Outcome // exactly
	Reason  string      // the rule that decided, or the reason of a fallback
	Since   time.Time   // entries that started at or after it
	Text    string      // in client, model, route, device, the decision's sentence, the error or the id; case does not matter
}

// Totals is what was used since a moment.
type Totals struct {
	Requests         int     `json:"requests"`  // all that have ended, cancelled and failed ones too
	Completed        int     `json:"completed"` // answered to the end, or to the length asked for
	Cancelled        int     `json:"cancelled"`
	Failed           int     `json:"failed"` // timeout, error or rejected
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"` // those of cancelled and failed requests too
	DeviceSeconds    float64 `json:"device_seconds"`
}

// Chat is one of the window's conversations.
type Chat struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at"`
	Messages  []Message `json:"messages,omitempty"`
}

// Message is one turn of a Chat.
type Message struct {
	Role      string      `json:"role"`
	Content   string      `json:"content"`
	Thinking  string      `json:"thinking,omitempty"`
	ToolCalls []ToolCall  `json:"tool_calls,omitempty"`
	Record    *llm.Record `json:"record,omitempty"`
	Stopped   bool        `json:"stopped,omitempty"`
	Error     string      `json:"error,omitempty"`
}

// ToolCall is a call that a model wrote, as the window keeps it. Nothing here runs it.
type ToolCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // a JSON object
}
