package router

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox/backend/llm"
)

// evaluation is what the rules see: the facts, and what was worked out from them so far.
type evaluation struct {
	*Facts
	pin   pin
	order []*DeviceFacts // every device, in order of preference
	ideal *DeviceFacts   // what would be taken if every device were well and idle; nil: none
	able  []*DeviceFacts // devices that no rule has turned down in the last pass, in order of preference

	whole      bool // the answer must fit as long as it is asked for; not where no device that can take the request has room for it
	lastResort bool // no other device is usable: quarantine and wrong answers keep nobody away
}

// turnedDown is a device with the rule that turned it down and its clause.
type turnedDown struct {
	device  llm.Device
	rule    string
	clause  string
	missing bool // the machine has no device of the class
}

// Decide applies the rules. The error is an *llm.Error that says what stands in the way: CodeContextLength where the prompt
// is too long for every device, CodeUnsupported where no device can run the model, CodeInvalid for a device name that
// does not exist or that this machine has no device of, CodeEngine where the devices that were left have failed this request,
// else CodeUnavailable.
// With an error the Decision still has Rule, Rejected and PromptTokens.
func Decide(facts Facts) (Decision, error) {
	facts.Policy = facts.Policy.withDefaults()
	d := Decision{Rule: RulePinned, PromptTokens: facts.Request.PromptTokens}
	p, err := parsePin(facts.Request.Pinned)
	if err != nil {
		return d, err
	}
	e := &evaluation{Facts: &facts, pin: p, order: facts.inOrder()}
	e.whole = facts.Request.MaxTokens > 0
	e.wish()
	if able, _ := e.pass(); able == nil && e.whole { // a pin, or no other device: it is cut
		e.whole = false
		e.wish()
	}
	usable, _ := e.pass(RulePinned, RuleFault, RuleNeverFallBack)
	e.lastResort = usable == nil
	routed, _ := e.pass(RuleFault, RuleNeverFallBack, RuleBusy, RuleSideRequest)
	taken, down := e.pass()
	down = e.withMissing(down)
	if taken == nil {
		d.Rejected = rejections(down)
		d.Rule, err = e.refuse(down)
		return d, err
	}
	d.Device, d.Routed = taken.Device, routed.Device
	d.PromptLimit, d.Assumed = e.promptLimit(taken), taken.Assumed
	if window := e.window(taken); window > 0 {
		d.AnswerLimit = max(1, window-facts.Request.PromptTokens)
	}
	switch {
	case taken == routed:
	case routed.Excluded != "":
		d.Fallback = llm.FallbackDevice
	default:
		d.Fallback = llm.FallbackBusy
	}
	d.WarmUp = e.warmUp(taken)
	e.explain(&d, taken, routed, down)
	d.Rejected = rejections(append(down, e.passedOver(taken, routed)...))
	return d, nil
}

// wish works out ideal.
func (e *evaluation) wish() {
	e.ideal, _ = e.pass(RuleQuarantined, RuleFault, RuleAbsent, RuleWrongAnswers, RuleMemory, RuleNeverFallBack, RuleAlreadyLoaded, RuleBusy, RuleSideRequest)
}

// warmUp is the device that the model belongs on, where it is not loaded there but on a device that is wanted less. Without
// it one long prompt, which only the CPU could take, would keep every short one after it off the NPU until the model is
// unloaded. The request itself is not made to wait for the load: an NPU compiles for a minute.
func (e *evaluation) warmUp(taken *DeviceFacts) *llm.Device {
	if !taken.Loaded || e.pin.set() || e.lastResort {
		return nil
	}
	wanted, _ := e.pass(RuleAlreadyLoaded, RuleBusy, RuleSideRequest)
	e.pass() // able is this pass's again
	if wanted == nil || wanted == taken || wanted.Loaded || e.Policy.rank(wanted.Class) >= e.Policy.rank(taken.Class) {
		return nil
	}
	return &wanted.Device
}

// inOrder sorts the devices by preference. Mock devices come in the order of their numbers.
func (f *Facts) inOrder() []*DeviceFacts {
	order := make([]*DeviceFacts, len(f.Devices))
	for i := range f.Devices {
		order[i] = &f.Devices[i]
	}
	slices.SortStableFunc(order, func(a, b *DeviceFacts) int {
		return cmp.Or(cmp.Compare(f.Policy.rank(a.Class), f.Policy.rank(b.Class)), cmp.Compare(a.Index, b.Index))
	})
	return order
}

// rank is a class's place in the order of preference, from 0.
func (p Policy) rank(class string) int {
	if i := slices.Index(p.Preference, class); i >= 0 {
		return i
	}
	return len(p.Preference)
}

// pass goes through the table once, without the rules named. It returns the device that was left, nil for none, and those
// that were turned down.
func (e *evaluation) pass(without ...string) (*DeviceFacts, []turnedDown) {
	var down []turnedDown
	e.able = slices.Clone(e.order)
	for _, r := range rules {
		if r.turnDown == nil || slices.Contains(without, r.name) {
			continue
		}
		e.able = slices.DeleteFunc(e.able, func(d *DeviceFacts) bool {
			clause := r.turnDown(e, d)
			if clause != "" {
				down = append(down, turnedDown{device: d.Device, rule: r.name, clause: clause})
			}
			return clause != ""
		})
	}
	if len(e.able) == 0 {
		return nil, down
	}
	left := e.able
	for _, r := range rules {
		if r.narrow != nil && !slices.Contains(without, r.name) {
			left = r.narrow(e, left)
		}
	}
	return left[0], down
}

// withMissing adds the preferred classes of which the machine has no device, and sorts by preference.
func (e *evaluation) withMissing(down []turnedDown) []turnedDown {
	classes := map[string]bool{}
	for _, d := range e.Devices {
		classes[d.Class] = true
	}
	for _, class := range e.Policy.Preference {
		if !classes[class] && !classes[llm.Mock] && !e.pin.set() {
			clause := fmt.Sprintf("there is no %s here", class)
			down = append(down, turnedDown{device: llm.Device{Class: class}, rule: RuleAbsent, clause: clause, missing: true})
		}
	}
	slices.SortStableFunc(down, func(a, b turnedDown) int {
		return cmp.Compare(e.Policy.rank(a.device.Class), e.Policy.rank(b.device.Class))
	})
	return down
}

func rejections(down []turnedDown) []llm.Rejection {
	var list []llm.Rejection
	for _, t := range down {
		list = append(list, llm.Rejection{Device: t.device.Label(), Rule: t.rule, Reason: Sentence(t.clause)})
	}
	return list
}

// passedOver lists the devices that could have taken the request, each with the rule that chose another.
func (e *evaluation) passedOver(taken, routed *DeviceFacts) []turnedDown {
	var over []turnedDown
	for _, d := range e.able {
		t := turnedDown{device: d.Device, rule: RulePreference}
		switch {
		case d == taken:
			continue
		case d == routed && e.goesAround(taken, routed):
			t.rule, t.clause = RuleSideRequest, fmt.Sprintf("%s is at work on a prompt of %s tokens", The(d.Device), thousands(d.Longest))
		case d == routed:
			t.rule, t.clause = RuleBusy, fmt.Sprintf("%s is busy: %s", The(d.Device), d.load())
		case taken.Loaded && !d.Loaded:
			t.rule, t.clause = RuleAlreadyLoaded, fmt.Sprintf("the model is loaded on %s", The(taken.Device))
		case routed == taken:
			t.clause = fmt.Sprintf("%s comes first in the order of preference", The(taken.Device))
		default:
			t.rule, t.clause = RuleBusy, fmt.Sprintf("%s begins no later", The(taken.Device))
		}
		over = append(over, t)
	}
	return over
}

// goesAround tells whether the side request rule chose taken.
func (e *evaluation) goesAround(taken, routed *DeviceFacts) bool {
	return e.side() && e.long(routed) && taken.Loaded && taken.free()
}

// saves tells whether taken was chosen because it is an NPU and the machine runs on battery.
func (e *evaluation) saves(taken *DeviceFacts) bool {
	if !e.Policy.OnBattery || taken.Class != llm.NPU || taken.Emulated {
		return false
	}
	for _, d := range e.able {
		if d.Loaded == taken.Loaded && e.Policy.rank(d.Class) < e.Policy.rank(taken.Class) {
			return true
		}
	}
	return false
}

// load says how busy a device is: "1 running, 2 waiting".
func (d *DeviceFacts) load() string {
	return fmt.Sprintf("%d running, %d waiting", d.Running, d.Queued)
}

// explain writes the rule that decided, its policy id and the sentence.
func (e *evaluation) explain(d *Decision, taken, routed *DeviceFacts, down []turnedDown) {
	higher := e.higher(taken, down)
	ready := The(taken.Device) + " takes it"
	if taken.Loaded {
		ready = "the model is loaded on " + The(taken.Device)
	}
	switch {
	case e.pin.set():
		d.Rule = RulePinned
		d.PolicyID = RulePinned + "/" + taken.ID()
		d.Reason = Sentence(e.asksFor())
	case d.Fallback == llm.FallbackBusy && e.goesAround(taken, routed):
		d.Rule = RuleSideRequest
		d.PolicyID = fmt.Sprintf("%s/%d", RuleSideRequest, e.Policy.SidePrompt)
		d.Reason = Sentence(fmt.Sprintf("a short request goes around %s, which is at work on a prompt of %s tokens; %s", The(routed.Device), thousands(routed.Longest), ready))
	case d.Fallback == llm.FallbackBusy:
		d.Rule = RuleBusy
		d.PolicyID = RuleBusy + "/" + routed.ID()
		d.Reason = Sentence(fmt.Sprintf("%s is busy (%s); %s", The(routed.Device), routed.load(), e.compared(taken, routed)))
	case higher != nil:
		d.Rule = higher.rule
		d.PolicyID = e.policyID(higher)
		d.Reason = Sentence(higher.clause + "; " + ready)
	case e.saves(taken):
		d.Rule, d.PolicyID = RuleBattery, RuleBattery+"/"+taken.ID()
		d.Reason = Sentence("this computer runs on its battery, where the NPU is preferred; " + ready)
	default:
		d.Rule, d.Reason = e.settled(taken)
		d.PolicyID = RulePreference + "/" + strings.Join(e.Policy.Preference, ",")
		if d.Rule == RuleAlreadyLoaded {
			d.PolicyID = RuleAlreadyLoaded + "/" + taken.ID()
		}
	}
	if keptOff := e.keptOff(taken); keptOff != "" {
		d.Reason = strings.TrimSuffix(d.Reason, ".") + "; " + keptOff + ", but no other device can take it."
	}
	if !taken.free() {
		waits := fmt.Sprintf("; it waits its turn there (%s)", taken.load())
		d.Reason = strings.TrimSuffix(d.Reason, ".") + waits + "."
	}
}

// keptOff is why a device that is taken as a last resort should not have been.
func (e *evaluation) keptOff(taken *DeviceFacts) string {
	if !e.lastResort {
		return ""
	}
	but := *e
	but.lastResort = false
	return cmp.Or(quarantined(&but, taken), wrong(&but, taken))
}

// settled explains the ordinary case: nothing stood in the way of the device that was taken.
func (e *evaluation) settled(taken *DeviceFacts) (rule, reason string) {
	rule, why := RulePreference, "it comes first in the order of preference"
	if taken.Loaded {
		rule, why = RuleAlreadyLoaded, "the model is loaded there"
	}
	limit := e.promptLimit(taken)
	if limit == 0 {
		return rule, Sentence(fmt.Sprintf("%s takes it: %s", The(taken.Device), why))
	}
	fit := "fit"
	if e.Request.PromptTokens == 1 {
		fit = "fits"
	}
	return rule, Sentence(fmt.Sprintf("%s %s %s %s; %s", promptTokens(e.Request.PromptTokens), fit, thes(taken.Device), thousands(limit), why))
}

// compared says why a busy device is not waited for.
func (e *evaluation) compared(taken, busy *DeviceFacts) string {
	soon, okSoon := taken.firstToken(e.Request.PromptTokens)
	late, okLate := busy.firstToken(e.Request.PromptTokens)
	if okSoon && okLate {
		return fmt.Sprintf("%s begins sooner, in about %s instead of %s", The(taken.Device), about(soon), about(late))
	}
	if taken.free() {
		return The(taken.Device) + " is free"
	}
	return The(taken.Device) + " has fewer waiting"
}

// higher is what turned down the most preferred of the devices before taken; nil when none was. Devices that the machine
// simply does not have count only if nothing else does, and together.
func (e *evaluation) higher(taken *DeviceFacts, down []turnedDown) *turnedDown {
	var missing []string
	for i, t := range down {
		if e.Policy.rank(t.device.Class) > e.Policy.rank(taken.Class) || t.device.Class == taken.Class && t.device.Index > taken.Index {
			continue
		}
		if !t.missing {
			return &down[i]
		}
		missing = append(missing, "no "+t.device.Class)
	}
	if len(missing) == 0 || e.stays(taken) {
		return nil
	}
	return &turnedDown{rule: RuleAbsent, missing: true, clause: "there is " + strings.Join(missing, " and ") + " here"}
}

// stays tells whether a device that is wanted more would have taken the request, had the model not been loaded on taken.
func (e *evaluation) stays(taken *DeviceFacts) bool {
	for _, d := range e.able {
		if taken.Loaded && !d.Loaded && e.Policy.rank(d.Class) < e.Policy.rank(taken.Class) {
			return true
		}
	}
	return false
}

// policyID is the rule that turned down the wanted device, with its parameter.
func (e *evaluation) policyID(t *turnedDown) string {
	switch {
	case t.missing:
		return t.rule
	case t.rule != RulePromptLimit:
		return t.rule + "/" + t.device.ID()
	}
	i := slices.IndexFunc(e.order, func(d *DeviceFacts) bool { return d.ID() == t.device.ID() })
	limit := e.promptLimit(e.order[i])
	if t.device.Class == llm.NPU {
		return fmt.Sprintf("npu-prompt-limit/%d", limit)
	}
	return fmt.Sprintf("prompt-limit/%d", limit)
}

// refuse makes the error for a request that every device was turned down for, and names the rule behind it.
func (e *evaluation) refuse(down []turnedDown) (string, error) {
	if limit := e.largestLimit(); limit > 0 && e.Request.PromptTokens > limit {
		return RulePromptLimit, llm.PromptTooLong(e.Request.PromptTokens, limit)
	}
	down = slices.DeleteFunc(slices.Clone(down), func(t turnedDown) bool { return t.rule == RulePinned })
	if e.pin.set() && len(down) == 0 {
		err := llm.Errorf(llm.CodeUnavailable, "%s, but there is none here", e.asksFor())
		err.Param = "device"
		if others := e.labels(); others != "" { // the request must change: asking again would not help
			err.Code, err.Hint = llm.CodeInvalid, "use "+others
		}
		return RulePinned, err
	}
	clauses := make([]string, 0, len(down))
	has := map[string]bool{}
	for _, t := range down {
		has[t.rule] = true
		if !t.missing {
			clauses = append(clauses, t.clause)
		}
	}
	why := strings.Join(clauses, "; ")
	if len(e.Devices) == 0 {
		why = "there is none here"
	}
	switch {
	case has[RuleNeverFallBack]:
		return RuleNeverFallBack, llm.Errorf(llm.CodeUnavailable, "no device may take the request: %s", why)
	case has[RuleFault]:
		return RuleFault, llm.Errorf(llm.CodeEngine, "no device is left for the request: %s", why)
	case has[RuleMemory]:
		err := llm.Errorf(llm.CodeUnavailable, "no device can take the request: %s", why)
		if e.Model.Smaller != "" {
			return RuleMemory, err.WithHint("%s would fit; or close other programs, or unload other models", e.Model.Smaller)
		}
		return RuleMemory, err.WithHint("close other programs, or unload other models")
	case has[RuleWrongAnswers]:
		return RuleWrongAnswers, llm.Errorf(llm.CodeUnavailable, "no device may take the request: %s", why)
	case has[RuleQuarantined]:
		return RuleQuarantined, llm.Errorf(llm.CodeUnavailable, "no device may take the request: %s", why)
	case has[RuleCannotRun]:
		return RuleCannotRun, llm.Errorf(llm.CodeUnsupported, "no device can take the request: %s", why)
	}
	return RuleAbsent, llm.Errorf(llm.CodeUnavailable, "no device can take the request: %s", why)
}

// largestLimit is the most prompt tokens of all devices that are here and can run the model; 0 when one has no limit, or
// when there is no such device.
func (e *evaluation) largestLimit() int {
	largest := 0
	for _, d := range e.order {
		if !e.pin.matches(d.Device) || d.Absent != "" || cannotRun(e, d) != "" {
			continue
		}
		limit := e.promptLimit(d)
		if limit == 0 {
			return 0
		}
		largest = max(largest, limit)
	}
	return largest
}

// labels lists the devices that can be asked for.
func (e *evaluation) labels() string {
	var list []string
	for _, d := range e.order {
		if d.Absent == "" {
			list = append(list, d.Label())
		}
	}
	return strings.Join(list, " or ")
}
