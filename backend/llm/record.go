package llm

// Record is the routing record: what was decided about a request, why, and what really happened. It is written once and
// shown everywhere: on the wire under the key "llmeu", in headers, in the journal and in the window. It exists as soon as
// the decision is made and is complete when the request ends, however it ends. What is not known is null, never 0.
// (Field names: seeds/llm-eu-streaming.txt, and our own.)
type Record struct {
	TraceID          string `json:"trace_id"` // X-Request-ID of the response
	ModelUsed        string `json:"model_used"`
	ModelVersion     string `json:"model_version"`     // digest of the model's files
	Provider         string `json:"provider"`          // "openvino/2026.4.1"
	EndpointID       string `json:"endpoint_id"`       // Device.ID of the device that ran
	InferenceRegion  string `json:"inference_region"`  // always "local"
	SovereigntyClass string `json:"sovereignty_class"` // always "on-device"
	PolicyID         string `json:"policy_id"`         // the rule that decided, with its parameter: "npu-prompt-limit/1024"
	Retention        string `json:"retention"`         // "metadata/30d"
	CostEstimate     Cost   `json:"cost_estimate"`

	RoutedDevice    string      `json:"routed_device"`    // what the rules choose when nothing is busy
	ExecutionDevice string      `json:"execution_device"` // what really ran
	RouteRule       string      `json:"route_rule"`
	RouteReason     string      `json:"route_reason"` // one sentence for people
	FallbackReason  string      `json:"fallback_reason,omitempty"`
	Rejected        []Rejection `json:"rejected,omitempty"`

	Continued *Continuation `json:"continued,omitempty"` // nil: the whole answer is the execution device's

	PromptTokens     *int     `json:"prompt_tokens"`
	CompletionTokens *int     `json:"completion_tokens"`
	CachedTokens     *int     `json:"cached_tokens"`
	Ignored          []string `json:"ignored,omitempty"`
	Clamped          []string `json:"clamped,omitempty"`

	PrepareMS       *float64 `json:"prepare_ms"` // the prompt rendered and counted, with the wait for the process that does it
	QueueMS         *float64 `json:"queue_ms"`
	LoadMS          *float64 `json:"load_ms"`
	TTFTMS          *float64 `json:"ttft_ms"` // from the request's arrival to its first token
	PrefillMS       *float64 `json:"prefill_ms"`
	DecodeMS        *float64 `json:"decode_ms"`
	CancelMS        *float64 `json:"cancel_ms"` // from the wish to stop until the device was free
	TokensPerSecond *float64 `json:"tokens_per_second"`

	PowerSource string `json:"power_source,omitempty"` // "mains" or "battery", when it was decided; empty: not known

	Outcome Outcome `json:"outcome,omitempty"` // empty while it runs
}

// Cost is what a request used. Nothing is paid for here: the amount is always 0.
type Cost struct {
	Amount        float64  `json:"amount"`
	Currency      string   `json:"currency"`
	DeviceSeconds *float64 `json:"device_seconds"`
	EnergyJoules  *float64 `json:"energy_joules"`
	Basis         string   `json:"basis"` // "measured" or "estimated"
}

// Continuation is where an answer went on that its device had no more room for.
type Continuation struct {
	Device     string `json:"device"`      // Label
	EndpointID string `json:"endpoint_id"` // Device.ID
	After      int    `json:"after"`       // tokens of the answer from the device before
}

// Rejection is a device that was not taken.
type Rejection struct {
	Device string `json:"device"` // Label
	Rule   string `json:"rule"`
	Reason string `json:"reason"` // one sentence
}

// Outcome says how a request ended.
type Outcome string

const (
	OutcomeCompleted Outcome = "completed"
	OutcomeLength    Outcome = "length"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeTimeout   Outcome = "timeout"
	OutcomeError     Outcome = "error"
	OutcomeRejected  Outcome = "rejected" // refused before it ran
)

// Fallback reasons: present only when the device that ran is not the one the rules chose.
const (
	FallbackBusy   = "busy"            // it would have waited longer
	FallbackDevice = "device_fallback" // load or fault
)
