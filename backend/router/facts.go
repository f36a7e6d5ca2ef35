// Package router decides which device a request goes to. Decide is a pure function of Facts: the same facts always give the
// same Decision, with a rule name for programs and a sentence for people. The rules are the table in rules.go, in order; one
// more rule is one more row there and one more fact here.
package router

import (
	"time"

	"signalbox/backend/llm"
)

// Facts is all that a decision depends on.
type Facts struct {
	Request Request
	Model   Model
	Devices []DeviceFacts
	Policy  Policy
}

// Request is what matters about the request.
type Request struct {
	Pinned       string // the device it asks for: "npu", "gpu:1", "GPU.1" or a label; empty: the rules choose
	PinnedBy     string // who says so where it is not the request, a clause: "the settings send Zed to"; empty: the request
	Tools        bool   // it offers tools: an agent's turn
	PromptTokens int    // exact, from the model's tokenizer
	MaxTokens    int    // most tokens of the answer; 0: not said
	Embedding    bool   // vectors are asked for: no answer follows, and the engine cuts or refuses long inputs itself
}

// Model is what matters about the model.
type Model struct {
	Name          string // canonical
	ContextLength int    // tokens it was trained for; 0: unknown
	NPUUnfit      string // why no NPU runs it, a clause such as "its weights are int4 asymmetric"; empty: NPUs run it
	Smaller       string // the largest model here that would fit the memory that is free; empty: none, or not known
}

// DeviceFacts is what is known about one device at this moment. A device that the machine has, or had, but that cannot be
// used belongs in the list with Absent set: only then can an answer say why, and NeverFallBack notice that it is missing.
type DeviceFacts struct {
	llm.Device
	Absent      string // why it cannot be used at all, a clause: "its driver is missing"; empty: it can
	Quarantined string // why this model is kept off it, a clause; empty: it is not
	Wrong       string // how known answers of this model came out wrong there, a clause; empty: they did not
	Excluded    string // what went wrong there with this very request, a clause; empty: not tried

	Needs int64 // bytes that loading this model takes there; 0: unknown
	Free  int64 // bytes that are free for it; 0: unknown

	Loaded       bool // this model is loaded there
	PromptLimit  int  // most prompt tokens for this model there; 0: unknown
	ContextLimit int  // most tokens of prompt and answer together; 0: unknown
	Assumed      bool // both limits come from configuration, nothing was measured yet

	Longest  int // prompt tokens of the longest request that is at work or waits there
	Running  int // requests that have their turn
	Queued   int // requests that wait for theirs
	Parallel int // turns at once; 0 counts as 1

	// Measured for this model there; nil or 0: unknown.
	Wait    *time.Duration // until a new request would get its turn, when all turns are taken
	Load    *time.Duration // to load the model
	Prefill float64        // prompt tokens a second
}

// free tells whether a request would get its turn at once.
func (d *DeviceFacts) free() bool { return d.ahead() == 0 }

// ahead is how many requests must end before a new one gets its turn.
func (d *DeviceFacts) ahead() int { return max(0, d.Running+d.Queued+1-max(1, d.Parallel)) }

// FirstToken is when the answer to a prompt would begin there; false where not all that it depends on was measured.
func (d DeviceFacts) FirstToken(promptTokens int) (time.Duration, bool) {
	return d.firstToken(promptTokens)
}

// PromptLimit is the most prompt tokens that a device takes for this request; 0: not known.
func (f Facts) PromptLimit(d DeviceFacts) int {
	f.Policy = f.Policy.withDefaults()
	return (&evaluation{Facts: &f}).promptLimit(&d)
}

// firstToken is when the answer would begin there, as far as everything it depends on was measured.
func (d *DeviceFacts) firstToken(promptTokens int) (time.Duration, bool) {
	var expected time.Duration
	if !d.free() {
		if d.Wait == nil {
			return 0, false
		}
		expected += *d.Wait
	}
	if !d.Loaded {
		if d.Load == nil {
			return 0, false
		}
		expected += *d.Load
	}
	if d.Prefill <= 0 {
		return 0, false
	}
	return expected + time.Duration(float64(promptTokens)/d.Prefill*float64(time.Second)), true
}

// Policy is what the user has set.
type Policy struct {
	Preference     []string // device classes, most wanted first; nil: NPU, GPU, CPU. Classes left out come last
	NeverFallBack  bool     // rather fail than let the CPU stand in for a device that is out of order, or busy
	NPUPromptLimit int      // prompt tokens that NPUs are compiled for; 0: 1024
	NPUReserve     int      // tokens kept for the answer there; 0: 128
	SidePrompt     int      // most prompt tokens of a side request, such as a title or a completion; 0: no such rule
	SideAnswer     int      // and most tokens of its answer
	BatteryNPU     bool     // NPUs are preferred on battery
	OnBattery      bool     // and the machine runs on its battery now
}

// longFactor is how many times longer than a side request's prompt another one must be to count as long.
const longFactor = 2

// DefaultPreference is the order of device classes where the user has set none.
var DefaultPreference = []string{llm.NPU, llm.GPU, llm.CPU}

func (p Policy) withDefaults() Policy {
	if len(p.Preference) == 0 {
		p.Preference = DefaultPreference
	}
	if p.NPUPromptLimit == 0 {
		p.NPUPromptLimit = 1024
	}
	if p.NPUReserve == 0 {
		p.NPUReserve = 128
	}
	return p
}

// Decision says where a request goes, and why.
type Decision struct {
	Device   llm.Device // where it goes
	Routed   llm.Device // where it would go if nothing were busy and nothing had failed meanwhile
	Rule     string     // the rule that decided, one of the Rule constants
	Reason   string     // one sentence for people
	PolicyID string     // the rule with its parameter: "npu-prompt-limit/1024"
	Fallback string     // an llm.Fallback constant where Device is not Routed, else empty
	Rejected []llm.Rejection

	// WarmUp is a device that is wanted more than the one where the model happens to be loaded, and that could take the
	// request. It should load the model meanwhile, so that the next request finds it there. nil: none.
	WarmUp *llm.Device

	PromptTokens int  // as asked
	PromptLimit  int  // most prompt tokens that Device takes; 0: unknown
	AnswerLimit  int  // most tokens of an answer that Device has room for behind this prompt; 0: unknown
	Assumed      bool // the limits were not measured
}

// Record writes the decision into the request's record.
func (d Decision) Record(r *llm.Record) {
	r.EndpointID = d.Device.ID()
	r.PolicyID = d.PolicyID
	r.RoutedDevice = d.Routed.Label()
	r.ExecutionDevice = d.Device.Label()
	r.RouteRule = d.Rule
	r.RouteReason = d.Reason
	r.FallbackReason = d.Fallback
	r.Rejected = d.Rejected
}
