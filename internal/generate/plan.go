package generate

import (
	"maps"
	"strconv"

	"signalbox/backend/llm"
	"signalbox/internal/openvino"
)

// Defaults for the NPU, whose programs are compiled for fixed lengths.
const (
	DefaultPromptLimit = 1024
	DefaultReserve     = 128
)

// defaultContext is taken for models that do not say how long their context is.
const defaultContext = 2048

// plan is how a model is compiled for a device, and what it can then do.
type plan struct {
	properties openvino.Properties
	limits     limits
}

// cpuProperties were measured in turns, on two busy cores: without pinning, steps and prompts take a tenth less, since other
// programs may use the cores too; with activations quantised in groups of 64, as the weights are, prompts take 5-20 % less.
var cpuProperties = openvino.Properties{
	"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "ENABLE_CPU_PINNING": "NO", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "64",
}

func (r *Runner) plan(req llm.LoadRequest, known facts, cutAt int) (plan, error) {
	context := known.Positions
	if context <= 0 {
		context = cutAt
	}
	if context <= 0 {
		context = defaultContext
	}
	p := plan{properties: openvino.Properties{}, limits: limits{context: context, prompt: context - 1, chunk: r.options.PrefillLimit}}
	switch r.class() {
	case llm.NPU:
		p.npu(req, context, r.options)
	case llm.GPU:
		p.properties["PERFORMANCE_HINT"] = "LATENCY"
	case llm.CPU:
		maps.Copy(p.properties, cpuProperties)
	default:
		return plan{}, llm.Errorf(llm.CodeUnavailable, "device %q is not one this engine knows", r.options.Device)
	}
	maps.Copy(p.properties, r.options.Properties)
	return p, nil
}

// npu asks for the plugin's language model pipeline.
func (p *plan) npu(req llm.LoadRequest, context int, options Options) {
	prefixes := "YES"
	if options.SlotMemory <= 0 {
		prefixes = "NO"
	}
	prompt, reserve := req.PromptLimit, req.Reserve
	if prompt <= 0 {
		prompt = DefaultPromptLimit
	}
	if reserve <= 0 {
		reserve = DefaultReserve
	}
	prompt = min(prompt, context-1)
	maps.Copy(p.properties, openvino.Properties{
		"NPU_USE_NPUW": "YES", "NPUW_LLM": "YES", "NPUW_LLM_BATCH_DIM": "0", "NPUW_LLM_SEQ_LEN_DIM": "2",
		"NPUW_LLM_MAX_PROMPT_LEN":        strconv.Itoa(prompt),
		"NPUW_LLM_MIN_RESPONSE_LEN":      strconv.Itoa(reserve),
		"NPUW_LLM_ENABLE_PREFIX_CACHING": prefixes,
	})
	if options.Emulate {
		p.properties["NPUW_DEVICES"], p.properties["NPUW_ONLINE_PIPELINE"] = "CPU", "NONE"
	}
	p.limits.prompt, p.limits.chunk = prompt, prompt
	p.limits.context = min(context, prompt+reserve)
}
