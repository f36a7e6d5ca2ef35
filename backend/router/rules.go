package router

import (
	"cmp"
	"fmt"
	"strings"

	"signalbox/backend/llm"
)

// Rule names. They are stable: clients see them in X-NPU-Proxy-Route-Reason.
const (
	RulePinned        = "pinned"
	RuleQuarantined   = "quarantined"
	RuleFault         = "device_fault"
	RuleAbsent        = "absent"
	RuleCannotRun     = "cannot_run"
	RulePromptLimit   = "prompt_limit"
	RuleWrongAnswers  = "wrong_answers"
	RuleMemory        = "memory"
	RuleNeverFallBack = "never_fall_back"
	RuleAlreadyLoaded = "already_loaded"
	RuleBusy          = "busy"
	RuleSideRequest   = "side_request"
	RuleBattery       = "battery"
	RulePreference    = "preference"
	RuleGoesOn        = "goes_on"
)

// rule is one row of the table. It either turns devices down, each by itself, or narrows down those that are left; goes_on does
// neither, it has the others applied once more.
type rule struct {
	name string
	says string                // the rule in one sentence, for people
	set  func(p Policy) string // what the settings say about it, a clause; nil: nothing to set

	// turnDown says why the device cannot take the request, as a clause; "" when it can.
	turnDown func(e *evaluation, d *DeviceFacts) string
	// narrow keeps the devices that the rule wants, at least one. It gets them in order of preference.
	narrow func(e *evaluation, left []*DeviceFacts) []*DeviceFacts
}

// rules is the table, in order. Each has its own fact in DeviceFacts, Request or Policy.
var rules = []rule{
	{name: RulePinned, says: "A request that names a device gets that device or an error.", turnDown: notPinned},
	{name: RuleQuarantined, says: "A model that made a device fail three times within an hour is kept off it.", turnDown: quarantined},
	{name: RuleFault, says: "A device that has failed a request is not tried again for it.", turnDown: failed},
	{name: RuleAbsent, says: "A device that is not there, or that cannot be used, is left out.", turnDown: absent},
	{name: RuleCannotRun, says: "A device that cannot run the model's format is left out.", turnDown: cannotRun},
	{name: RulePromptLimit, says: "A prompt goes only where it fits whole, and the answer that is asked for goes where it fits too, if anywhere.", turnDown: tooLong, set: limits},
	{name: RuleWrongAnswers, says: "A device that gave wrong answers to known questions with this model is left out.", turnDown: wrong},
	{name: RuleMemory, says: "A model is not loaded where the free memory is too small for it.", turnDown: tooLarge},
	{name: RuleNeverFallBack, says: "With “never fall back to the CPU” the CPU does not stand in for another device.", turnDown: standIn, set: fallingBack},
	{name: RuleAlreadyLoaded, says: "A device that has the model loaded comes before one that would have to load it.", narrow: loaded},
	{name: RuleBusy, says: "A busy device is waited for, unless another would answer sooner.", narrow: sooner},
	{name: RuleSideRequest, says: "A short request without tools goes around a device that is at work on a long one.", narrow: beside, set: sides},
	{name: RuleBattery, says: "On battery the NPU is preferred.", narrow: saving, set: onBattery},
	{name: RulePreference, says: "The first device in the order of preference is taken.", narrow: first, set: inOrder},
	{name: RuleGoesOn, says: "An answer that fills its device before its end goes on where a prompt of that length would go, unless the request names a device."},
}

// Rule is one row of the table, for people.
type Rule struct {
	Name string `json:"name"`
	Says string `json:"says"`
	Set  string `json:"set,omitempty"` // what the policy makes of it: "prompts up to 256 tokens, answers up to 64"; empty: nothing to set
}

// Rules lists the table in the order in which its rows apply.
func Rules(p Policy) (list []Rule) {
	p = p.withDefaults()
	for _, r := range rules {
		row := Rule{Name: r.name, Says: r.says}
		if r.set != nil {
			row.Set = r.set(p)
		}
		list = append(list, row)
	}
	return list
}

func limits(p Policy) string {
	return fmt.Sprintf("NPU: %s tokens, of the answer at least %s; elsewhere the model's own limit", thousands(p.NPUPromptLimit), thousands(p.NPUReserve))
}

func fallingBack(p Policy) string { return onOff(p.NeverFallBack) }

func sides(p Policy) string {
	if p.SidePrompt <= 0 {
		return "off"
	}
	return fmt.Sprintf("prompts up to %s tokens, answers up to %s; a long one has %s or more",
		thousands(p.SidePrompt), thousands(p.SideAnswer), thousands(longFactor*p.SidePrompt))
}

func onBattery(p Policy) string { return onOff(p.BatteryNPU) }

func inOrder(p Policy) string { return strings.Join(p.Preference, ", ") }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func notPinned(e *evaluation, d *DeviceFacts) string {
	if e.pin.matches(d.Device) {
		return ""
	}
	return e.asksFor()
}

func (e *evaluation) asksFor() string { return e.pinnedBy() + " " + e.pin.label() }

func (e *evaluation) pinnedBy() string {
	if e.Request.PinnedBy != "" {
		return e.Request.PinnedBy
	}
	return "the request asks for"
}

func quarantined(e *evaluation, d *DeviceFacts) string {
	if d.Quarantined == "" || e.lastResort {
		return ""
	}
	return fmt.Sprintf("%s is closed to %s for now: %s", The(d.Device), e.Model.Name, d.Quarantined)
}

func failed(_ *evaluation, d *DeviceFacts) string {
	if d.Excluded == "" {
		return ""
	}
	return fmt.Sprintf("%s failed: %s", The(d.Device), d.Excluded)
}

func absent(_ *evaluation, d *DeviceFacts) string {
	if d.Absent == "" {
		return ""
	}
	return fmt.Sprintf("%s cannot be used: %s", The(d.Device), d.Absent)
}

func cannotRun(e *evaluation, d *DeviceFacts) string {
	switch {
	case d.Class != llm.NPU:
		return ""
	case e.Request.Embedding:
		return fmt.Sprintf("embedding models run on the CPU or the GPU, not yet on %s", The(d.Device))
	case e.Model.NPUUnfit != "":
		return fmt.Sprintf("%s cannot run %s: %s", The(d.Device), e.Model.Name, e.Model.NPUUnfit)
	}
	return ""
}

// longAnswer is the answer that room is made for when more is asked: agents send 4,096 or 32,000 with each request, as a cap and not as a
// wish, and an NPU would never be used; few answers are longer than this.
const longAnswer = 1024

func tooLong(e *evaluation, d *DeviceFacts) string {
	assumed := ""
	if d.Assumed {
		assumed = " (assumed)"
	}
	limit := e.promptLimit(d)
	if limit == 0 || e.Request.PromptTokens <= limit {
		window := e.window(d)
		wanted := min(e.Request.MaxTokens, longAnswer)
		if !e.whole || window == 0 || e.Request.PromptTokens+wanted <= window {
			return ""
		}
		return fmt.Sprintf("a prompt of %s and an answer of up to %s do not fit %s %s%s", thousands(e.Request.PromptTokens),
			thousands(wanted), thes(d.Device), thousands(window), assumed)
	}
	return fmt.Sprintf("%s are more than %s %s%s", promptTokens(e.Request.PromptTokens), thes(d.Device), thousands(limit), assumed)
}

// promptLimit is the most prompt tokens that d takes for this request; 0 when nothing is known about it. An NPU keeps room
// for an answer because its cache cannot grow; elsewhere one token of answer is enough.
func (e *evaluation) promptLimit(d *DeviceFacts) int {
	if e.Request.Embedding {
		return 0
	}
	limit, room, answer := d.PromptLimit, e.room(d), 1
	if d.Class == llm.NPU {
		if limit == 0 {
			limit = e.Policy.NPUPromptLimit
		}
		answer = e.Policy.NPUReserve
		if e.Request.MaxTokens > 0 {
			answer = min(answer, e.Request.MaxTokens)
		}
	}
	switch {
	case room <= 1:
		return limit
	case limit == 0:
		return max(1, room-answer)
	}
	return max(1, min(limit, room-answer))
}

// room is the most tokens of prompt and answer together that d's context limit has places for; 1 or 0 when it is not known.
func (e *evaluation) room(d *DeviceFacts) int {
	room := d.ContextLimit
	if room == 0 || e.Model.ContextLength > 0 && e.Model.ContextLength < room {
		room = e.Model.ContextLength
	}
	if d.Class == llm.NPU {
		room++ // an NPU's context limit counts its cache's places, and the last token of an answer takes none
	}
	return room
}

// window is the most tokens of prompt and answer together on d; 0 when that is not known. What an NPU has not compiled yet will
// have room for its prompt limit and the reserve, however long the model's own context is.
func (e *evaluation) window(d *DeviceFacts) int {
	if e.Request.Embedding {
		return 0
	}
	room := e.room(d)
	if d.Class == llm.NPU && (d.Assumed || d.ContextLimit == 0) {
		compiled := cmp.Or(d.PromptLimit, e.Policy.NPUPromptLimit) + e.Policy.NPUReserve
		if room <= 1 || compiled < room {
			room = compiled
		}
	}
	if room <= 1 {
		return 0
	}
	return room
}

func wrong(e *evaluation, d *DeviceFacts) string {
	if d.Wrong == "" || e.lastResort {
		return ""
	}
	return fmt.Sprintf("%s answers wrongly with %s: %s", The(d.Device), e.Model.Name, d.Wrong)
}

func tooLarge(e *evaluation, d *DeviceFacts) string {
	if d.Loaded || d.Needs == 0 || d.Free == 0 || d.Needs <= d.Free {
		return ""
	}
	return fmt.Sprintf("%s has %s of memory free, and %s needs about %s", The(d.Device), gigabytes(d.Free), e.Model.Name, gigabytes(d.Needs))
}

func standIn(e *evaluation, d *DeviceFacts) string {
	lastResort := d.Class == llm.CPU || d.Class == llm.Mock
	if !e.Policy.NeverFallBack || !lastResort || e.pin.set() || e.ideal == nil || e.ideal.ID() == d.ID() {
		return ""
	}
	return fmt.Sprintf("%s may not stand in for %s (“never fall back to the CPU” is on)", The(d.Device), The(e.ideal.Device))
}

func loaded(_ *evaluation, left []*DeviceFacts) []*DeviceFacts {
	var ready []*DeviceFacts
	for _, d := range left {
		if d.Loaded {
			ready = append(ready, d)
		}
	}
	if len(ready) == 0 {
		return left
	}
	return ready
}

func first(_ *evaluation, left []*DeviceFacts) []*DeviceFacts { return left[:1] }

// sooner keeps the wanted device unless it is busy and another one would begin the answer before it. Where not all that
// takes was measured, the shorter queue counts.
func sooner(e *evaluation, left []*DeviceFacts) []*DeviceFacts {
	wanted := left[0]
	if wanted.free() {
		return left
	}
	best := wanted
	for _, d := range e.able {
		if e.begins(d, best) {
			best = d
		}
	}
	if best == wanted {
		return left
	}
	return []*DeviceFacts{best}
}

// side tells whether this is a side request: a title, a commit message, a completion.
func (e *evaluation) side() bool {
	r := e.Request
	return e.Policy.SidePrompt > 0 && !r.Tools && !r.Embedding && r.PromptTokens <= e.Policy.SidePrompt &&
		r.MaxTokens > 0 && r.MaxTokens <= e.Policy.SideAnswer
}

// long tells whether a device is at work on a request that a side request should not slow down.
func (e *evaluation) long(d *DeviceFacts) bool {
	return d.Running > 0 && d.Longest >= longFactor*e.Policy.SidePrompt
}

// beside keeps the big device free for a long request: a side request goes to another one, if one is free and ready, which
// is to say that the model is loaded there. Loading it would take longer than the side request itself.
func beside(e *evaluation, left []*DeviceFacts) []*DeviceFacts {
	if !e.side() || !e.long(left[0]) {
		return left
	}
	for _, d := range e.able {
		if d.Loaded && d.free() && !e.long(d) {
			return []*DeviceFacts{d}
		}
	}
	return left
}

// saving keeps the NPUs on battery: they take a fraction of the power.
func saving(e *evaluation, left []*DeviceFacts) []*DeviceFacts {
	var npus []*DeviceFacts
	for _, d := range left {
		if d.Class == llm.NPU && !d.Emulated && e.Policy.OnBattery {
			npus = append(npus, d)
		}
	}
	if len(npus) == 0 {
		return left
	}
	return npus
}

// begins tells whether a would begin the answer before b.
func (e *evaluation) begins(a, b *DeviceFacts) bool {
	timeA, okA := a.firstToken(e.Request.PromptTokens)
	timeB, okB := b.firstToken(e.Request.PromptTokens)
	if okA && okB {
		return timeA < timeB
	}
	return a.ahead() < b.ahead()
}

// pin is the device a request names.
type pin struct {
	text  string // as written; empty: none
	class string
	index int // -1: any of the class
}

// parsePin understands "npu", "gpu:1", "GPU.1" and labels such as "NPU (emulated on CPU)".
func parsePin(text string) (pin, error) {
	name := strings.TrimSpace(text)
	if name == "" {
		return pin{}, nil
	}
	name, _, _ = strings.Cut(name, " (")
	class, index, numbered := strings.Cut(name, ":")
	if !numbered {
		class, index, numbered = strings.Cut(name, ".")
	}
	p := pin{text: text, index: -1}
	for _, known := range []string{llm.NPU, llm.GPU, llm.CPU, llm.Mock} {
		if asciiEqualFold(class, known) {
			p.class = known
		}
	}
	if numbered {
		p.index = parseIndex(index)
	}
	if p.class == "" || numbered && p.index < 0 {
		e := llm.Errorf(llm.CodeInvalid, "there is no device called %q", cut(text, 40)).WithHint("use npu, gpu, gpu:1 or cpu")
		e.Param = "device"
		return pin{}, e
	}
	return p, nil
}

// parseIndex reads one or two digits; -1 for anything else.
func parseIndex(s string) int {
	if len(s) == 0 || len(s) > 2 {
		return -1
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func (p pin) set() bool { return p.text != "" }

func (p pin) matches(d llm.Device) bool {
	return !p.set() || p.class == d.Class && (p.index < 0 || p.index == d.Index)
}

func (p pin) label() string {
	return The(llm.Device{Class: p.class, Index: max(0, p.index)})
}
