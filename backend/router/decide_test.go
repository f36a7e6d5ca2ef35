package router_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/router"
)

// dev makes a device as the runtime lists it, with the limits that the starter model has there.
func dev(class string, index int, change ...func(*router.DeviceFacts)) router.DeviceFacts {
	d := router.DeviceFacts{Device: llm.Device{Class: class, Index: index, Runtime: class}, Parallel: 4, ContextLimit: 8192}
	if class == llm.NPU {
		d.Parallel, d.PromptLimit, d.ContextLimit = 1, 1024, 1151
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func isLoaded(d *router.DeviceFacts)  { d.Loaded = true }
func isAssumed(d *router.DeviceFacts) { d.Assumed = true }

func absent(why string) func(*router.DeviceFacts) {
	return func(d *router.DeviceFacts) { d.Absent = why }
}

func quarantined(why string) func(*router.DeviceFacts) {
	return func(d *router.DeviceFacts) { d.Quarantined = why }
}

func failed(why string) func(*router.DeviceFacts) {
	return func(d *router.DeviceFacts) { d.Excluded = why }
}

func busy(running, queued int) func(*router.DeviceFacts) {
	return func(d *router.DeviceFacts) { d.Running, d.Queued = running, queued }
}

func measured(wait, load time.Duration, prefill float64) func(*router.DeviceFacts) {
	return func(d *router.DeviceFacts) { d.Wait, d.Load, d.Prefill = &wait, &load, prefill }
}

func facts(tokens int, devices ...router.DeviceFacts) router.Facts {
	return router.Facts{
		Request: router.Request{PromptTokens: tokens},
		Model:   router.Model{Name: "smollm2:135m", ContextLength: 8192},
		Devices: devices,
	}
}

func with(f router.Facts, change func(*router.Facts)) router.Facts {
	change(&f)
	return f
}

func pinned(device string, f router.Facts) router.Facts {
	return with(f, func(f *router.Facts) { f.Request.Pinned = device })
}

func strict(f router.Facts) router.Facts {
	return with(f, func(f *router.Facts) { f.Policy.NeverFallBack = true })
}

func TestEachDecisionNamesDeviceRuleAndReason(t *testing.T) {
	cpu, gpu, npu, mock := llm.CPU, llm.GPU, llm.NPU, llm.Mock
	for name, c := range map[string]struct {
		facts              router.Facts
		device, rule       string
		reason             string
		policy             string
		routed, fallback   string // empty: as device, none
		rejectedByRuleEach string // "GPU:preference CPU:preference", in order
	}{
		// Field report 9: the device lists that other programs chose wrongly from.
		"cpu alone": {
			facts(412, dev(cpu, 0)), "CPU", "absent",
			"There is no NPU and no GPU here; the CPU takes it.", "absent", "", "", "NPU:absent GPU:absent"},
		"cpu and gpu": {
			facts(412, dev(cpu, 0), dev(gpu, 0)), "GPU", "absent",
			"There is no NPU here; the GPU takes it.", "absent", "", "", "NPU:absent CPU:preference"},
		"cpu, two gpus and npu": {
			facts(412, dev(cpu, 0), dev(gpu, 0), dev(gpu, 1), dev(npu, 0)), "NPU", "preference",
			"412 prompt tokens fit the NPU's 1,024; it comes first in the order of preference.", "preference/NPU,GPU,CPU", "", "",
			"GPU:preference GPU.1:preference CPU:preference"},
		"npu alone": {
			facts(412, dev(npu, 0)), "NPU", "preference",
			"412 prompt tokens fit the NPU's 1,024; it comes first in the order of preference.", "preference/NPU,GPU,CPU", "", "",
			"GPU:absent CPU:absent"},

		"loaded on the npu": {
			facts(412, dev(cpu, 0), dev(npu, 0, isLoaded)), "NPU", "already_loaded",
			"412 prompt tokens fit the NPU's 1,024; the model is loaded there.", "already_loaded/npu:0", "", "",
			"GPU:absent CPU:already_loaded"},
		"loaded on the cpu only": {
			facts(1, dev(cpu, 0, isLoaded), dev(gpu, 0), dev(npu, 0)), "CPU", "already_loaded",
			"1 prompt token fits the CPU's 8,191; the model is loaded there.", "already_loaded/cpu:0", "", "",
			"NPU:already_loaded GPU:already_loaded"},
		"loaded everywhere": {
			facts(412, dev(cpu, 0, isLoaded), dev(gpu, 0, isLoaded), dev(npu, 0, isLoaded)), "NPU", "already_loaded",
			"412 prompt tokens fit the NPU's 1,024; the model is loaded there.", "already_loaded/npu:0", "", "",
			"GPU:preference CPU:preference"},

		// Field report 2: around the limit. The third is never generated on the NPU.
		"one below the limit": {
			facts(1023, dev(cpu, 0), dev(npu, 0, isLoaded)), "NPU", "already_loaded",
			"1,023 prompt tokens fit the NPU's 1,024; the model is loaded there.", "already_loaded/npu:0", "", "",
			"GPU:absent CPU:already_loaded"},
		"at the limit": {
			facts(1024, dev(cpu, 0), dev(npu, 0, isLoaded)), "NPU", "already_loaded",
			"1,024 prompt tokens fit the NPU's 1,024; the model is loaded there.", "already_loaded/npu:0", "", "",
			"GPU:absent CPU:already_loaded"},
		"one above the limit": {
			facts(1025, dev(cpu, 0), dev(npu, 0, isLoaded)), "CPU", "prompt_limit",
			"1,025 prompt tokens are more than the NPU's 1,024; the CPU takes it.", "npu-prompt-limit/1024", "", "",
			"NPU:prompt_limit GPU:absent"},
		"above an assumed limit": {
			facts(1025, dev(cpu, 0, isLoaded), dev(npu, 0, isAssumed)), "CPU", "prompt_limit",
			"1,025 prompt tokens are more than the NPU's 1,024 (assumed); the model is loaded on the CPU.", "npu-prompt-limit/1024", "", "",
			"NPU:prompt_limit GPU:absent"},
		"a smaller prompt limit in the policy": {
			with(facts(257, dev(cpu, 0), dev(npu, 0, func(d *router.DeviceFacts) { d.PromptLimit, d.ContextLimit = 0, 0 })),
				func(f *router.Facts) { f.Policy.NPUPromptLimit, f.Policy.NPUReserve = 256, 64 }), "CPU", "prompt_limit",
			"257 prompt tokens are more than the NPU's 256; the CPU takes it.", "npu-prompt-limit/256", "", "",
			"NPU:prompt_limit GPU:absent"},

		"pinned by class": {
			pinned("cpu", facts(412, dev(cpu, 0), dev(npu, 0, isLoaded))), "CPU", "pinned",
			"The request asks for the CPU.", "pinned/cpu:0", "", "", "NPU:pinned"},
		"pinned by number": {
			pinned("gpu:1", facts(412, dev(cpu, 0), dev(gpu, 0), dev(gpu, 1))), "GPU.1", "pinned",
			"The request asks for the GPU.1.", "pinned/gpu:1", "", "", "GPU:pinned CPU:pinned"},
		"pinned to a busy device waits": {
			pinned("NPU", facts(412, dev(cpu, 0), dev(npu, 0, busy(1, 2)))), "NPU", "pinned",
			"The request asks for the NPU; it waits its turn there (1 running, 2 waiting).", "pinned/npu:0", "", "", "CPU:pinned"},
		"pinned beats never fall back": {
			pinned("cpu", strict(facts(412, dev(cpu, 0), dev(npu, 0)))), "CPU", "pinned",
			"The request asks for the CPU.", "pinned/cpu:0", "", "", "NPU:pinned"},

		"quarantined": {
			facts(412, dev(cpu, 0), dev(npu, 0, quarantined("its process died three times in an hour"))), "CPU", "quarantined",
			"The NPU is closed to smollm2:135m for now: its process died three times in an hour; the CPU takes it.", "quarantined/npu:0", "", "",
			"NPU:quarantined GPU:absent"},
		"present but unusable": {
			facts(412, dev(cpu, 0), dev(npu, 0, absent("its driver is missing"))), "CPU", "absent",
			"The NPU cannot be used: its driver is missing; the CPU takes it.", "absent/npu:0", "", "", "NPU:absent GPU:absent"},
		"weights that the npu does not run": {
			with(facts(412, dev(cpu, 0), dev(npu, 0)), func(f *router.Facts) { f.Model.NPUUnfit = "its weights are int4 asymmetric" }),
			"CPU", "cannot_run",
			"The NPU cannot run smollm2:135m: its weights are int4 asymmetric; the CPU takes it.", "cannot_run/npu:0", "", "",
			"NPU:cannot_run GPU:absent"},
		"embedding": {
			with(facts(100_000, dev(cpu, 0), dev(gpu, 0), dev(npu, 0)), func(f *router.Facts) { f.Request.Embedding = true }),
			"GPU", "cannot_run",
			"Embedding models run on the CPU or the GPU, not yet on the NPU; the GPU takes it.", "cannot_run/npu:0", "", "",
			"NPU:cannot_run CPU:preference"},
		"failed meanwhile": {
			facts(412, dev(cpu, 0), dev(gpu, 0, failed("its process ended while loading"))), "CPU", "device_fault",
			"The GPU failed: its process ended while loading; the CPU takes it.", "device_fault/gpu:0", "GPU", "device_fallback",
			"NPU:absent GPU:device_fault"},

		"busy, unknown speeds: another is free": {
			facts(412, dev(cpu, 0), dev(npu, 0, isLoaded, busy(1, 0))), "CPU", "busy",
			"The NPU is busy (1 running, 0 waiting); the CPU is free.", "busy/npu:0", "NPU", "busy", "GPU:absent NPU:busy"},
		"busy, unknown speeds: another has fewer waiting": {
			facts(412, dev(cpu, 0, busy(4, 0)), dev(npu, 0, busy(1, 2))), "CPU", "busy",
			"The NPU is busy (1 running, 2 waiting); the CPU has fewer waiting; it waits its turn there (4 running, 0 waiting).", "busy/npu:0", "NPU", "busy",
			"GPU:absent NPU:busy"},
		"busy, unknown speeds: equal queues stay": {
			facts(412, dev(cpu, 0, busy(4, 0)), dev(npu, 0, isLoaded, busy(1, 0))), "NPU", "already_loaded",
			"412 prompt tokens fit the NPU's 1,024; the model is loaded there; it waits its turn there (1 running, 0 waiting).",
			"already_loaded/npu:0", "", "", "GPU:absent CPU:already_loaded"},
		"busy, measured: another begins sooner": {
			facts(1000, dev(cpu, 0, measured(0, 2*time.Second, 1000)), dev(npu, 0, isLoaded, busy(1, 0), measured(20*time.Second, 0, 1000))),
			"CPU", "busy",
			"The NPU is busy (1 running, 0 waiting); the CPU begins sooner, in about 3.0 s instead of 21 s.", "busy/npu:0", "NPU", "busy",
			"GPU:absent NPU:busy"},
		"busy, measured: waiting is sooner than loading elsewhere": {
			facts(1000, dev(cpu, 0, measured(0, 30*time.Second, 1000)), dev(npu, 0, isLoaded, busy(1, 0), measured(20*time.Second, 0, 1000))),
			"NPU", "already_loaded",
			"1,000 prompt tokens fit the NPU's 1,024; the model is loaded there; it waits its turn there (1 running, 0 waiting).",
			"already_loaded/npu:0", "", "", "GPU:absent CPU:already_loaded"},
		"room for one more turn is not busy": {
			facts(412, dev(cpu, 0), dev(gpu, 0, busy(3, 0))), "GPU", "absent",
			"There is no NPU here; the GPU takes it.", "absent", "", "", "NPU:absent CPU:preference"},

		"never fall back waits for a busy device": {
			strict(facts(412, dev(cpu, 0), dev(npu, 0, isLoaded, busy(1, 5)))), "NPU", "already_loaded",
			"412 prompt tokens fit the NPU's 1,024; the model is loaded there; it waits its turn there (1 running, 5 waiting).",
			"already_loaded/npu:0", "", "", "GPU:absent CPU:never_fall_back"},
		"never fall back lets a long prompt through": {
			strict(facts(5000, dev(cpu, 0), dev(npu, 0))), "CPU", "prompt_limit",
			"5,000 prompt tokens are more than the NPU's 1,024; the CPU takes it.", "npu-prompt-limit/1024", "", "", "NPU:prompt_limit GPU:absent"},
		"never fall back without another device": {
			strict(facts(412, dev(cpu, 0))), "CPU", "absent",
			"There is no NPU and no GPU here; the CPU takes it.", "absent", "", "", "NPU:absent GPU:absent"},

		"the user's own order": {
			with(facts(412, dev(cpu, 0), dev(gpu, 0), dev(npu, 0)), func(f *router.Facts) { f.Policy.Preference = []string{gpu, cpu} }),
			"GPU", "preference",
			"412 prompt tokens fit the GPU's 8,191; it comes first in the order of preference.", "preference/GPU,CPU", "", "",
			"CPU:preference NPU:preference"},

		"mock devices": {
			facts(412, dev(mock, 0), dev(mock, 1)), "mock", "preference",
			"412 prompt tokens fit the mock device's 8,191; it comes first in the order of preference.", "preference/NPU,GPU,CPU", "", "",
			"mock.1:preference"},
		"mock device failed": {
			facts(412, dev(mock, 0, failed("its process ended")), dev(mock, 1)), "mock.1", "device_fault",
			"The mock device failed: its process ended; the mock.1 device takes it.", "device_fault/mock:0", "mock", "device_fallback",
			"mock:device_fault"},
		"emulated npu": {
			facts(412, dev(cpu, 0), dev(npu, 0, func(d *router.DeviceFacts) { d.Emulated = true })), "NPU (emulated on CPU)", "preference",
			"412 prompt tokens fit the emulated NPU's 1,024; it comes first in the order of preference.", "preference/NPU,GPU,CPU", "", "",
			"GPU:absent CPU:preference"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := router.Decide(c.facts)
			require.NoError(t, err)
			assert.Equal(t, c.device, d.Device.Label())
			assert.Equal(t, c.rule, d.Rule)
			assert.Equal(t, c.reason, d.Reason)
			assert.Equal(t, c.policy, d.PolicyID)
			if c.routed == "" {
				c.routed = c.device
			}
			assert.Equal(t, c.routed, d.Routed.Label())
			assert.Equal(t, c.fallback, d.Fallback)
			assert.Equal(t, c.rejectedByRuleEach, summary(d.Rejected))
			assert.Equal(t, c.facts.Request.PromptTokens, d.PromptTokens)
		})
	}
}

func summary(rejected []llm.Rejection) string {
	var each []string
	for _, r := range rejected {
		each = append(each, r.Device+":"+r.Rule)
	}
	return strings.Join(each, " ")
}

func TestRefusalsSayWhatStandsInTheWay(t *testing.T) {
	cpu, gpu, npu := llm.CPU, llm.GPU, llm.NPU
	for name, c := range map[string]struct {
		facts router.Facts
		code  llm.Code
		rule  string
		text  string
	}{
		"too long for every device names the largest limit": {
			facts(8192, dev(cpu, 0), dev(npu, 0)), llm.CodeContextLength, "prompt_limit",
			"prompt is too long: 8192 tokens > 8191 maximum"},
		"too long for the only device": {
			facts(1025, dev(npu, 0)), llm.CodeContextLength, "prompt_limit", "prompt is too long: 1025 tokens > 1024 maximum"},
		"too long for the pinned device": {
			pinned("npu", facts(1025, dev(cpu, 0), dev(npu, 0))), llm.CodeContextLength, "prompt_limit",
			"prompt is too long: 1025 tokens > 1024 maximum"},
		"pinned to a device that is not there": {
			pinned("npu", facts(412, dev(cpu, 0), dev(gpu, 0))), llm.CodeInvalid, "pinned",
			"the request asks for the NPU, but there is none here: use GPU or CPU"},
		"pinned without any device": {
			pinned("npu", facts(412)), llm.CodeUnavailable, "pinned", "the request asks for the NPU, but there is none here"},
		"pinned to a number that is not there": {
			pinned("GPU.7", facts(412, dev(cpu, 0), dev(gpu, 0))), llm.CodeInvalid, "pinned",
			"the request asks for the GPU.7, but there is none here: use GPU or CPU"},
		"pinned to an unusable device": {
			pinned("npu", facts(412, dev(cpu, 0), dev(npu, 0, absent("its driver is missing")))), llm.CodeUnavailable, "absent",
			"no device can take the request: the NPU cannot be used: its driver is missing"},
		"pinned to a device that cannot run it": {
			pinned("npu", with(facts(412, dev(cpu, 0), dev(npu, 0)), func(f *router.Facts) { f.Model.NPUUnfit = "its weights are int4 asymmetric" })),
			llm.CodeUnsupported, "cannot_run",
			"no device can take the request: the NPU cannot run smollm2:135m: its weights are int4 asymmetric"},
		"pinned to a quarantined device": {
			pinned("npu", facts(412, dev(cpu, 0), dev(npu, 0, quarantined("its process died three times in an hour")))),
			llm.CodeUnavailable, "quarantined",
			"no device may take the request: the NPU is closed to smollm2:135m for now: its process died three times in an hour"},
		"pinned to a device that failed": {
			pinned("npu", facts(412, dev(cpu, 0), dev(npu, 0, failed("its process ended")))), llm.CodeEngine, "device_fault",
			"no device is left for the request: the NPU failed: its process ended"},
		"pinned to what is no device": {
			pinned("tpu", facts(412, dev(cpu, 0))), llm.CodeInvalid, "pinned",
			`there is no device called "tpu": use npu, gpu, gpu:1 or cpu`},
		"all failed": {
			facts(412, dev(cpu, 0, failed("its process ended")), dev(gpu, 0, failed("CL_OUT_OF_RESOURCES"))), llm.CodeEngine, "device_fault",
			"no device is left for the request: the GPU failed: CL_OUT_OF_RESOURCES; the CPU failed: its process ended"},
		"never fall back after a fault": { // field report 8
			strict(facts(412, dev(cpu, 0), dev(gpu, 0, failed("CL_OUT_OF_RESOURCES")))), llm.CodeUnavailable, "never_fall_back",
			"no device may take the request: the GPU failed: CL_OUT_OF_RESOURCES; the CPU may not stand in for the GPU (“never fall back to the CPU” is on)"},
		"never fall back with a missing driver": {
			strict(facts(412, dev(cpu, 0, isLoaded), dev(npu, 0, absent("its driver is missing")))), llm.CodeUnavailable, "never_fall_back",
			"no device may take the request: the NPU cannot be used: its driver is missing; the CPU may not stand in for the NPU (“never fall back to the CPU” is on)"},
		"short enough only for a device that failed": {
			facts(2000, dev(cpu, 0, failed("its process ended")), dev(npu, 0)), llm.CodeEngine, "device_fault",
			"no device is left for the request: 2,000 prompt tokens are more than the NPU's 1,024; the CPU failed: its process ended"},
		"embedding on an NPU alone": {
			with(facts(3, dev(npu, 0)), func(f *router.Facts) { f.Request.Embedding = true }), llm.CodeUnsupported, "cannot_run",
			"no device can take the request: embedding models run on the CPU or the GPU, not yet on the NPU"},
		"no devices at all": {
			facts(412), llm.CodeUnavailable, "absent",
			"no device can take the request: there is none here"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := router.Decide(c.facts)
			require.Error(t, err)
			assert.Equal(t, c.code, llm.CodeOf(err))
			assert.Equal(t, c.text, err.Error())
			assert.Equal(t, c.rule, d.Rule)
			assert.Equal(t, c.facts.Request.PromptTokens, d.PromptTokens)
		})
	}
}

func TestTooLongCarriesBothNumbers(t *testing.T) {
	_, err := router.Decide(facts(9000, dev(llm.CPU, 0), dev(llm.NPU, 0)))
	e, ok := errors.AsType[*llm.Error](err)
	require.True(t, ok)
	assert.Equal(t, 9000, e.Value)
	assert.Equal(t, 8191, e.Limit)
}

func TestAnswersRoomCountsOnTheNPU(t *testing.T) {
	// A cache of 600 places with 128 kept for the answer leaves 473 for the prompt: the answer's last token takes none.
	small := func(d *router.DeviceFacts) { d.ContextLimit = 600 }
	for _, c := range []struct {
		tokens, maxTokens int
		device            string
	}{
		{473, 0, "NPU"},
		{474, 0, "CPU"},
		{474, 500, "CPU"},
		{591, 10, "NPU"}, // ten tokens of answer are all that is wanted
		{592, 10, "CPU"},
	} {
		f := facts(c.tokens, dev(llm.CPU, 0), dev(llm.NPU, 0, small))
		f.Request.MaxTokens = c.maxTokens
		d, err := router.Decide(f)
		require.NoError(t, err)
		assert.Equal(t, c.device, d.Device.Label(), "%d tokens, %d wanted", c.tokens, c.maxTokens)
	}
}

// An answer that is asked for goes where it fits whole, as long as a device that takes the request has the room.
func TestTheAnswerThatIsAskedForMustFit(t *testing.T) {
	cpu, npu := llm.CPU, llm.NPU
	for name, c := range map[string]struct {
		facts     router.Facts
		maxTokens int
		device    string
		room      int    // for the answer
		rejected  string // the NPU's reason
	}{
		"more than is left": {facts(1020, dev(cpu, 0), dev(npu, 0, isLoaded)), 400, "CPU", 7172,
			"A prompt of 1,020 and an answer of up to 400 do not fit the NPU's 1,152."},
		"not compiled yet": {facts(1020, dev(cpu, 0), dev(npu, 0, isAssumed, func(d *router.DeviceFacts) { d.PromptLimit, d.ContextLimit = 0, 8192 })), 400, "CPU", 7172,
			"A prompt of 1,020 and an answer of up to 400 do not fit the NPU's 1,152 (assumed)."},
		"all that is left":               {facts(1020, dev(cpu, 0), dev(npu, 0)), 132, "NPU", 132, ""},
		"a short prompt":                 {facts(20, dev(cpu, 0), dev(npu, 0)), 400, "NPU", 1132, ""},
		"no limit":                       {facts(1020, dev(cpu, 0), dev(npu, 0)), 0, "NPU", 132, ""},
		"an agent's cap, a short prompt": {facts(128, dev(cpu, 0), dev(npu, 0)), 32000, "NPU", 1024, ""},
		"an agent's cap, a long prompt": {facts(1020, dev(cpu, 0), dev(npu, 0)), 32000, "CPU", 7172,
			"A prompt of 1,020 and an answer of up to 1,024 do not fit the NPU's 1,152."},
		"pinned":                {pinned("npu", facts(1020, dev(cpu, 0), dev(npu, 0))), 400, "NPU", 132, ""},
		"the other one failed":  {facts(1020, dev(cpu, 0, failed("its process ended")), dev(npu, 0)), 400, "NPU", 132, ""},
		"the other one is kept": {facts(1020, dev(cpu, 0, quarantined("it crashed")), dev(npu, 0)), 400, "NPU", 132, ""},
		"an NPU alone":          {facts(1020, dev(npu, 0)), 400, "NPU", 132, ""},
		"never fall back lets it through": {strict(facts(1020, dev(cpu, 0), dev(npu, 0))), 400, "CPU", 7172,
			"A prompt of 1,020 and an answer of up to 400 do not fit the NPU's 1,152."},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.Request.MaxTokens = c.maxTokens
			d, err := router.Decide(c.facts)
			require.NoError(t, err)
			assert.Equal(t, c.device, d.Device.Label())
			assert.Equal(t, c.room, d.AnswerLimit)
			for _, r := range d.Rejected {
				if c.rejected != "" && r.Device == "NPU" {
					assert.Equal(t, llm.Rejection{Device: "NPU", Rule: router.RulePromptLimit, Reason: c.rejected}, r)
				}
			}
			assert.Equal(t, c.rejected != "", d.Rule == router.RulePromptLimit, d.Rule)
		})
	}
}

func TestUnknownLimitsRefuseNothing(t *testing.T) {
	f := facts(1_000_000, dev(llm.CPU, 0, func(d *router.DeviceFacts) { d.ContextLimit = 0 }))
	f.Model.ContextLength = 0
	d, err := router.Decide(f)
	require.NoError(t, err)
	assert.Equal(t, "CPU", d.Device.Label())
	assert.Zero(t, d.PromptLimit)
}

func TestPinsAreUnderstood(t *testing.T) {
	devices := []router.DeviceFacts{dev(llm.CPU, 0), dev(llm.GPU, 0), dev(llm.GPU, 1), dev(llm.NPU, 0), dev(llm.Mock, 0)}
	for text, label := range map[string]string{
		"npu": "NPU", " NPU ": "NPU", "npu:0": "NPU", "NPU (emulated on CPU)": "NPU",
		"GPU": "GPU", "gpu.1": "GPU.1", "GPU:1": "GPU.1", "cpu": "CPU", "mock:0": "mock",
	} {
		d, err := router.Decide(pinned(text, facts(1, devices...)))
		require.NoError(t, err, text)
		assert.Equal(t, label, d.Device.Label(), text)
	}
	for _, text := range []string{"tpu", "npu:x", "npu:", "gpu:-1", "gpu:100000000000", "n\u212au", "../npu", "npu\x00", strings.Repeat("x", 5000)} {
		_, err := router.Decide(pinned(text, facts(1, devices...)))
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), text)
		assert.Less(t, len(err.Error()), 300)
	}
}

func TestDecideChangesNothingAndRepeatsItself(t *testing.T) {
	f := facts(2000, dev(llm.CPU, 0), dev(llm.NPU, 0), dev(llm.GPU, 0, busy(4, 4)))
	before := append([]router.DeviceFacts(nil), f.Devices...)
	one, err := router.Decide(f)
	require.NoError(t, err)
	two, err := router.Decide(f)
	require.NoError(t, err)
	assert.Equal(t, one, two)
	assert.Equal(t, before, f.Devices)
}

func TestRulesAreNamedAndSaidOnce(t *testing.T) {
	seen := map[string]bool{}
	set := map[string]string{}
	for _, r := range router.Rules(router.Policy{SidePrompt: 256, SideAnswer: 64}) {
		assert.Regexp(t, `^[a-z_]+$`, r.Name)
		assert.Regexp(t, `^[A-Z].*\.$`, r.Says)
		assert.False(t, seen[r.Name], r.Name)
		seen[r.Name] = true
		if r.Set != "" {
			set[r.Name] = r.Set
		}
	}
	assert.Equal(t, map[string]string{
		router.RulePromptLimit:   "NPU: 1,024 tokens, of the answer at least 128; elsewhere the model's own limit",
		router.RuleNeverFallBack: "off",
		router.RuleSideRequest:   "prompts up to 256 tokens, answers up to 64; a long one has 512 or more",
		router.RuleBattery:       "off",
		router.RulePreference:    "NPU, GPU, CPU",
	}, set)
}

func TestRecordTakesTheDecision(t *testing.T) {
	d, err := router.Decide(facts(1025, dev(llm.CPU, 0), dev(llm.NPU, 0)))
	require.NoError(t, err)
	var r llm.Record
	d.Record(&r)
	assert.Equal(t, "cpu:0", r.EndpointID)
	assert.Equal(t, "CPU", r.ExecutionDevice)
	assert.Equal(t, "CPU", r.RoutedDevice)
	assert.Equal(t, "npu-prompt-limit/1024", r.PolicyID)
	assert.Equal(t, "prompt_limit", r.RouteRule)
	assert.Empty(t, r.FallbackReason)
	assert.Len(t, r.Rejected, 2)
}

func BenchmarkDecide(b *testing.B) {
	f := facts(1025, dev(llm.CPU, 0, busy(4, 2)), dev(llm.GPU, 0, busy(4, 1)), dev(llm.GPU, 1, isLoaded), dev(llm.NPU, 0))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := router.Decide(f); err != nil {
			b.Fatal(err)
		}
	}
}
