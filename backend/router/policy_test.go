package router_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/router"
)

func answersWrongly(d *router.DeviceFacts) {
	d.Wrong = "it said “cohclclcl” for the capital of France"
}

func needs(gb, free int64) func(*router.DeviceFacts) {
	return func(d *router.DeviceFacts) { d.Needs, d.Free = gb*1e9, free*1e9 }
}

func atWorkOn(tokens int) func(*router.DeviceFacts) {
	return func(d *router.DeviceFacts) { d.Running, d.Longest = 1, tokens }
}

// aside makes a request a title, a commit message or a completion.
func aside(f router.Facts) router.Facts {
	f.Request.MaxTokens = 32
	f.Policy.SidePrompt, f.Policy.SideAnswer = 256, 64
	return f
}

func onBattery(f router.Facts) router.Facts {
	f.Policy.OnBattery = true
	f.Policy.Preference = []string{llm.GPU, llm.NPU, llm.CPU}
	return f
}

func TestWhatWasMeasuredAndSetDecides(t *testing.T) {
	cpu, gpu, npu := llm.CPU, llm.GPU, llm.NPU
	for name, c := range map[string]struct {
		facts          router.Facts
		device, rule   string
		reason, policy string
		rejected       string
	}{
		"wrong answers on the npu": { // field report 3
			facts(40, dev(cpu, 0), dev(npu, 0, answersWrongly)), "CPU", "wrong_answers",
			"The NPU answers wrongly with smollm2:135m: it said “cohclclcl” for the capital of France; the CPU takes it.",
			"wrong_answers/npu:0", "NPU:wrong_answers GPU:absent"},
		"too little memory on the gpu": { // field report 13
			facts(40, dev(cpu, 0, isLoaded), dev(gpu, 0, needs(9, 6))), "CPU", "memory",
			"The GPU has 6.0 GB of memory free, and smollm2:135m needs about 9.0 GB; the model is loaded on the CPU.",
			"memory/gpu:0", "NPU:absent GPU:memory"},
		"a loaded model needs no more memory": {
			facts(40, dev(cpu, 0), dev(gpu, 0, isLoaded, needs(9, 6))), "GPU", "absent",
			"There is no NPU here; the model is loaded on the GPU.", "absent", "NPU:absent CPU:already_loaded"},
		"loaded on the cpu only, on a machine without gpu": {
			facts(40, dev(cpu, 0, isLoaded), dev(npu, 0)), "CPU", "already_loaded",
			"40 prompt tokens fit the CPU's 8,191; the model is loaded there.", "already_loaded/cpu:0", "GPU:absent NPU:already_loaded"},
		"pinned by the settings": {
			with(pinned("cpu", facts(40, dev(cpu, 0), dev(npu, 0))), func(f *router.Facts) { f.Request.PinnedBy = "the settings send Zed to" }),
			"CPU", "pinned", "The settings send Zed to the CPU.", "pinned/cpu:0", "NPU:pinned"},

		"side request beside a long one": {
			aside(facts(40, dev(cpu, 0, isLoaded), dev(gpu, 0, isLoaded, atWorkOn(2000)))), "CPU", "side_request",
			"A short request goes around the GPU, which is at work on a prompt of 2,000 tokens; the model is loaded on the CPU.",
			"side_request/256", "NPU:absent GPU:side_request"},
		"side request beside a short one": {
			aside(facts(40, dev(cpu, 0, isLoaded), dev(gpu, 0, isLoaded, atWorkOn(100)))), "GPU", "absent",
			"There is no NPU here; the model is loaded on the GPU.", "absent", "NPU:absent CPU:preference"},
		"side request with no other device ready": {
			aside(facts(40, dev(cpu, 0), dev(gpu, 0, isLoaded, atWorkOn(2000)))), "GPU", "absent",
			"There is no NPU here; the model is loaded on the GPU.", "absent", "NPU:absent CPU:already_loaded"},
		"an agent's turn is no side request": {
			with(aside(facts(40, dev(cpu, 0, isLoaded), dev(gpu, 0, isLoaded, atWorkOn(2000)))), func(f *router.Facts) { f.Request.Tools = true }),
			"GPU", "absent",
			"There is no NPU here; the model is loaded on the GPU.", "absent", "NPU:absent CPU:preference"},

		"on battery": {
			onBattery(facts(40, dev(cpu, 0), dev(gpu, 0), dev(npu, 0))), "NPU", "battery",
			"This computer runs on its battery, where the NPU is preferred; the NPU takes it.", "battery/npu:0", "GPU:preference CPU:preference"},
		"on battery with the model on the gpu": {
			onBattery(facts(40, dev(cpu, 0), dev(gpu, 0, isLoaded), dev(npu, 0))), "GPU", "already_loaded",
			"40 prompt tokens fit the GPU's 8,191; the model is loaded there.", "already_loaded/gpu:0", "NPU:already_loaded CPU:already_loaded"},
		"on battery an emulated npu saves nothing": {
			onBattery(facts(40, dev(cpu, 0), dev(gpu, 0), dev(npu, 0, func(d *router.DeviceFacts) { d.Emulated = true }))), "GPU", "preference",
			"40 prompt tokens fit the GPU's 8,191; it comes first in the order of preference.", "preference/GPU,NPU,CPU", "NPU (emulated on CPU):preference CPU:preference"},

		"quarantine never takes the last usable device": {
			facts(40, dev(cpu, 0, quarantined("it crashed three times"))), "CPU", "absent",
			"There is no NPU and no GPU here; the CPU takes it; the CPU is closed to smollm2:135m for now: it crashed three times, but no other device can take it.",
			"absent", "NPU:absent GPU:absent"},
		"nor the last that a long prompt fits": {
			facts(4000, dev(cpu, 0, quarantined("it crashed three times")), dev(npu, 0)), "CPU", "prompt_limit",
			"4,000 prompt tokens are more than the NPU's 1,024; the CPU takes it; the CPU is closed to smollm2:135m for now: it crashed three times, but no other device can take it.",
			"npu-prompt-limit/1024", "NPU:prompt_limit GPU:absent"},
		"nor do wrong answers": {
			facts(40, dev(cpu, 0, answersWrongly)), "CPU", "absent",
			"There is no NPU and no GPU here; the CPU takes it; the CPU answers wrongly with smollm2:135m: it said “cohclclcl” for the capital of France, but no other device can take it.",
			"absent", "NPU:absent GPU:absent"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := router.Decide(c.facts)
			require.NoError(t, err)
			assert.Equal(t, c.device, d.Device.Label())
			assert.Equal(t, c.rule, d.Rule)
			assert.Equal(t, c.reason, d.Reason)
			assert.Equal(t, c.policy, d.PolicyID)
			assert.Equal(t, c.rejected, summary(d.Rejected))
		})
	}
}

func TestModelsThatFitNoMemoryAreRefusedWithNumbers(t *testing.T) {
	f := facts(40, dev(llm.CPU, 0, needs(9, 6)))
	f.Model.Smaller = "qwen3:4b"
	d, err := router.Decide(f)
	assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
	assert.EqualError(t, err, "no device can take the request: the CPU has 6.0 GB of memory free, and smollm2:135m needs about 9.0 GB: "+
		"qwen3:4b would fit; or close other programs, or unload other models")
	assert.Equal(t, "memory", d.Rule)
}

func TestNeverFallBackHoldsForWrongAnswersAndMemory(t *testing.T) {
	for _, change := range []func(*router.DeviceFacts){answersWrongly, needs(9, 6), quarantined("it crashed three times")} {
		d, err := router.Decide(strict(facts(40, dev(llm.CPU, 0), dev(llm.NPU, 0, change))))
		assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
		assert.Equal(t, "never_fall_back", d.Rule)
	}
}

// A model that one long prompt has put on the CPU must not keep short ones off the NPU for ever (field report 1).
func TestShortPromptsAreLedBackToTheWantedDevice(t *testing.T) {
	d, err := router.Decide(facts(40, dev(llm.CPU, 0, isLoaded), dev(llm.NPU, 0)))
	require.NoError(t, err)
	assert.Equal(t, "CPU", d.Device.Label(), "this one does not wait for a compile")
	require.NotNil(t, d.WarmUp)
	assert.Equal(t, "NPU", d.WarmUp.Label())

	for name, f := range map[string]router.Facts{
		"a long prompt":             facts(4000, dev(llm.CPU, 0, isLoaded), dev(llm.NPU, 0)),
		"loaded there already":      facts(40, dev(llm.CPU, 0, isLoaded), dev(llm.NPU, 0, isLoaded)),
		"the request pins":          pinned("cpu", facts(40, dev(llm.CPU, 0, isLoaded), dev(llm.NPU, 0))),
		"no memory for two":         facts(40, dev(llm.CPU, 0, isLoaded), dev(llm.NPU, 0, needs(9, 6))),
		"not the wanted one":        facts(40, dev(llm.CPU, 0), dev(llm.NPU, 0, isLoaded)),
		"quarantined there":         facts(40, dev(llm.CPU, 0, isLoaded), dev(llm.NPU, 0, quarantined("it crashed"))),
		"loaded nowhere, CPU alone": facts(40, dev(llm.CPU, 0)),
	} {
		d, err := router.Decide(f)
		require.NoError(t, err, name)
		assert.Nil(t, d.WarmUp, name)
	}
}

func TestEveryPairOfFaultsLeavesADeviceOrSaysWhy(t *testing.T) {
	changes := []func(*router.DeviceFacts){
		func(*router.DeviceFacts) {}, isLoaded, absent("gone"), quarantined("crashed"), failed("crashed now"), answersWrongly,
		needs(9, 6), busy(1, 3), atWorkOn(5000),
	}
	for _, a := range changes {
		for _, b := range changes {
			for _, f := range []router.Facts{
				facts(40, dev(llm.CPU, 0, a), dev(llm.NPU, 0, b)), strict(facts(40, dev(llm.CPU, 0, a), dev(llm.NPU, 0, b))),
				aside(facts(40, dev(llm.CPU, 0, a), dev(llm.NPU, 0, b))), facts(4000, dev(llm.CPU, 0, a), dev(llm.NPU, 0, b)),
			} {
				d, err := router.Decide(f)
				assert.NotEmpty(t, d.Rule)
				if err != nil {
					assert.NotEqual(t, llm.CodeInternal, llm.CodeOf(err))
					continue
				}
				assert.NotEmpty(t, d.Reason)
				assert.NotEmpty(t, d.PolicyID)
				for _, r := range d.Rejected {
					assert.NotEqual(t, d.Device.Label(), r.Device)
				}
			}
		}
	}
}

func TestASentenceBeginsWithAWholeLetter(t *testing.T) {
	for clause, want := range map[string]string{"": "", "it is gone": "It is gone.", "éteint.": "Éteint.", "ß": "ß."} {
		assert.Equal(t, want, router.Sentence(clause))
	}
}
