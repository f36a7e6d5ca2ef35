package ollama

import (
	"math"
	"slices"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

const (
	maxTokens = 1 << 24 // above every context there is
	maxStops  = 256     // FIM clients send up to 20
	maxStop   = 1024    // bytes of one stop string
)

// The number fields of this dialect: name, whole, least, most, refused when outside (else cut, and said so).
var (
	numCtx           = wire.Number{Name: "num_ctx", Integer: true, Min: 0, Max: maxTokens}
	numPredict       = wire.Number{Name: "num_predict", Integer: true, Min: -2, Max: maxTokens}
	temperature      = wire.Number{Name: "temperature", Min: 0, Max: 100}
	topK             = wire.Number{Name: "top_k", Integer: true, Min: 0, Max: 1 << 20}
	topP             = wire.Number{Name: "top_p", Min: 0, Max: 1}
	minP             = wire.Number{Name: "min_p", Min: 0, Max: 1}
	typicalP         = wire.Number{Name: "typical_p", Min: 0, Max: 1}
	repeatLastN      = wire.Number{Name: "repeat_last_n", Integer: true, Min: -1, Max: 1 << 20}
	repeatPenalty    = wire.Number{Name: "repeat_penalty", Min: 0.01, Max: 100}
	presencePenalty  = wire.Number{Name: "presence_penalty", Min: -10, Max: 10}
	frequencyPenalty = wire.Number{Name: "frequency_penalty", Min: -10, Max: 10}
	seed             = wire.Number{Name: "seed", Integer: true, Min: math.MinInt64, Max: math.MaxInt64}
	topLogprobs      = wire.Number{Name: "top_logprobs", Integer: true, Min: 0, Max: 20, Refuse: true}
	dimensions       = wire.Number{Name: "dimensions", Integer: true, Min: 0, Max: 1 << 16, Refuse: true}
)

// strayLimits are the other dialects' names for num_predict, which some clients send here: without a limit a small model may
// talk for minutes.
var strayLimits = []wire.Number{
	{Name: "max_tokens", Integer: true, Min: 0, Max: maxTokens},
	{Name: "max_output_tokens", Integer: true, Min: 0, Max: maxTokens},
}

// Numbers is the table above, for tests that try every limit.
var Numbers = []wire.Number{
	numCtx, numPredict, temperature, topK, topP, minP, typicalP, repeatLastN, repeatPenalty, presencePenalty,
	frequencyPenalty, seed, topLogprobs, dimensions, strayLimits[0], strayLimits[1],
}

// Options of llama.cpp that mean nothing here. Their types are checked as Ollama does, so that a mistake is not hidden.
var (
	ignoredInts  = []string{"num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "draft_num_predict", "mirostat"}
	ignoredFlags = []string{"use_mmap", "use_mlock", "numa", "low_vram", "penalize_newline", "f16_kv", "vocab_only"}
)

// takeOptions reads "options" into req.
func takeOptions(body *wire.Object, req *llm.Request) {
	o := body.Object("options")
	if o == nil {
		return
	}
	s := &req.Sampling
	req.Sent = o.Sent()
	set(&req.ContextLimit, o.Int(numCtx))
	if limit := o.Int(numPredict); limit != nil {
		req.MaxTokens, req.LimitName = int(*limit), ""
	}
	req.MaxTokens = max(req.MaxTokens, 0) // -1 and -2: until the model or the context ends
	setFloat(&s.Temperature, o.Float(temperature))
	set(&s.TopK, o.Int(topK))
	setFloat(&s.TopP, o.Float(topP))
	setFloat(&s.MinP, o.Float(minP))
	setFloat(&s.TypicalP, o.Float(typicalP))
	set(&s.RepeatLastN, o.Int(repeatLastN))
	setFloat(&s.RepeatPenalty, o.Float(repeatPenalty))
	setFloat(&s.PresencePenalty, o.Float(presencePenalty))
	setFloat(&s.FrequencyPenalty, o.Float(frequencyPenalty))
	if v := o.Int(seed); v != nil && *v != -1 { // -1: another answer each time
		s.Seed = v
	}
	req.Stop = takeStop(o)
	if pinned := o.Text("device"); pinned != "" {
		device, ok := wire.Device(pinned)
		if !ok {
			o.FailAt("options.device", "option \"device\" must be npu, gpu or cpu, with a number behind it (gpu:1) where there are several")
		}
		req.Device = device
	}
	for _, name := range ignoredInts {
		if o.Int(wire.Number{Name: name, Integer: true, Min: math.MinInt64, Max: math.MaxInt64}) != nil {
			o.Ignored(o.Path(name))
		}
	}
	for _, name := range ignoredFlags {
		if o.Bool(name) != nil {
			o.Ignored(o.Path(name))
		}
	}
	o.Rest()
}

// takeStop reads "stop". Empty strings would end every answer at once and are left out.
func takeStop(o *wire.Object) []string {
	stops := slices.DeleteFunc(o.Texts("stop", maxStops), func(s string) bool { return s == "" })
	for i, s := range stops {
		if len(s) > maxStop {
			o.FailAt(o.Path("stop"), "option \"stop\": string %d has %d bytes, at most %d are possible", i+1, len(s), maxStop)
		}
	}
	if len(stops) == 0 {
		return nil
	}
	return stops
}

func set(to *int, from *int64) {
	if from != nil {
		*to = int(*from)
	}
}

func setFloat(to *float64, from *float64) {
	if from != nil {
		*to = *from
	}
}
