package openai

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

const (
	maxTokens = 1 << 24 // above every context there is
	maxStops  = 256
	maxStop   = 1024 // bytes of one stop string
	maxBias   = 1024 // entries of logit_bias
	maxInputs = 1 << 16
)

// The number fields of this dialect: name, whole, least, most, refused when outside (else cut, and said so). Agents ask
// for 32,000 tokens of any model, so what is too much is cut.
var (
	tokenLimit       = wire.Number{Name: "max_tokens", Integer: true, Min: -1, Max: maxTokens}
	completionLimit  = wire.Number{Name: "max_completion_tokens", Integer: true, Min: -1, Max: maxTokens}
	temperature      = wire.Number{Name: "temperature", Min: 0, Max: 2}
	topP             = wire.Number{Name: "top_p", Min: 0, Max: 1}
	topK             = wire.Number{Name: "top_k", Integer: true, Min: 0, Max: 1 << 20} // not OpenAI's; many servers have it
	minP             = wire.Number{Name: "min_p", Min: 0, Max: 1}                      // the same
	repeatPenalty    = wire.Number{Name: "repeat_penalty", Min: 0.01, Max: 100}        // the same
	presencePenalty  = wire.Number{Name: "presence_penalty", Min: -2, Max: 2}
	frequencyPenalty = wire.Number{Name: "frequency_penalty", Min: -2, Max: 2}
	seed             = wire.Number{Name: "seed", Integer: true, Min: math.MinInt64, Max: math.MaxInt64}
	topLogprobs      = wire.Number{Name: "top_logprobs", Integer: true, Min: 0, Max: 20, Refuse: true}
	choices          = wire.Number{Name: "n", Integer: true, Min: 1, Max: 128, Refuse: true}
	dimensions       = wire.Number{Name: "dimensions", Integer: true, Min: 1, Max: 1 << 16, Refuse: true}
)

// Numbers is the table above, for tests that try every limit.
var Numbers = []wire.Number{
	tokenLimit, completionLimit, temperature, topP, topK, minP, repeatPenalty, presencePenalty, frequencyPenalty, seed,
	topLogprobs, choices, dimensions,
}

// Known fields that change nothing in what the model says, or nothing a client would miss.
var ignored = []string{
	"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
	"parallel_tool_calls", "reasoning", "reasoning_effort", "verbosity", "prediction", "web_search_options",
}

// Chat is a request of /v1/chat/completions.
type Chat struct {
	Model        string // as the caller wrote it: answers repeat it
	Stream       bool
	IncludeUsage bool // a frame with the usage at the end of a stream
	LLM          llm.Request
}

// ParseChat reads a request of /v1/chat/completions.
func ParseChat(body []byte) (Chat, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Chat{}, err
	}
	c := Chat{Model: o.Text("model"), Stream: o.True("stream")}
	if c.Model == "" {
		o.FailAt("model", "you must provide a model parameter")
	}
	for _, m := range o.Objects("messages") {
		c.LLM.Messages = append(c.LLM.Messages, takeMessage(m))
	}
	if len(c.LLM.Messages) == 0 {
		o.FailAt("messages", "[] is too short - 'messages'")
	}
	if so := o.Object("stream_options"); so != nil {
		c.IncludeUsage = so.True("include_usage")
		so.Ignore("include_obfuscation")
		so.Rest()
	}
	takeSampling(o, &c.LLM)
	takeChoices(o)
	refuseFormat(o)
	takeTools(o)
	o.Ignore(ignored...)
	o.Rest()
	if err := o.Err(); err != nil {
		return c, err
	}
	c.LLM.Model, c.LLM.Device = wire.SplitDevice(c.Model)
	c.LLM.Ignored, c.LLM.Clamped = o.Notes()
	return c, nil
}

// takeSampling reads the numbers. Unset temperature and top_p are OpenAI's 1, not Ollama's defaults.
func takeSampling(o *wire.Object, req *llm.Request) {
	req.Sampling = llm.DefaultSampling()
	s := &req.Sampling
	s.Temperature, s.TopP = 1, 1
	set(&req.MaxTokens, o.Int(tokenLimit))
	set(&req.MaxTokens, o.Int(completionLimit)) // the newer name wins
	req.MaxTokens = max(req.MaxTokens, 0)       // 0 and -1: until the model or the context ends
	setFloat(&s.Temperature, o.Float(temperature))
	setFloat(&s.TopP, o.Float(topP))
	set(&s.TopK, o.Int(topK))
	setFloat(&s.MinP, o.Float(minP))
	setFloat(&s.RepeatPenalty, o.Float(repeatPenalty))
	setFloat(&s.PresencePenalty, o.Float(presencePenalty))
	setFloat(&s.FrequencyPenalty, o.Float(frequencyPenalty))
	s.Seed = o.Int(seed)
	s.LogitBias = takeBias(o)
	req.Stop = takeStop(o)
	req.Logprobs = o.True("logprobs")
	set(&req.TopLogprobs, o.Int(topLogprobs))
	if req.TopLogprobs > 0 && !req.Logprobs {
		o.FailAt("top_logprobs", "top_logprobs needs logprobs to be true")
	}
}

func takeStop(o *wire.Object) []string {
	stops := slices.DeleteFunc(o.Texts("stop", maxStops), func(s string) bool { return s == "" })
	for i, s := range stops {
		if len(s) > maxStop {
			o.FailAt("stop", "stop[%d] has %d bytes, at most %d are possible", i, len(s), maxStop)
		}
	}
	if len(stops) == 0 {
		return nil
	}
	return stops
}

func takeBias(o *wire.Object) map[int]float64 {
	b := o.Object("logit_bias")
	if b == nil {
		return nil
	}
	names := b.Names()
	if len(names) > maxBias {
		o.FailAt("logit_bias", "logit_bias takes at most %d entries, not %d", maxBias, len(names))
		return nil
	}
	bias := map[int]float64{}
	for _, name := range names {
		token, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			o.FailAt("logit_bias", "logit_bias: keys must be token ids, that is whole numbers from 0")
			return nil
		}
		if v := b.Float(wire.Number{Name: name, Min: -100, Max: 100}); v != nil {
			bias[int(token)] = *v
		}
	}
	if len(bias) == 0 {
		return nil
	}
	return bias
}

// takeChoices refuses what would need more than one answer, or one that is not text.
func takeChoices(o *wire.Object) {
	if n := o.Int(choices); n != nil && *n > 1 {
		o.Fail(notYet("n", "n > 1 is not supported yet: send the request %d times", *n))
	}
	for _, modality := range o.Texts("modalities", 16) {
		if modality != "text" {
			o.Fail(notYet("modalities", "answers other than text are not supported"))
		}
	}
	if o.Raw("audio") != nil {
		o.Fail(notYet("audio", "audio answers are not supported"))
	}
}

// refuseFormat answers clearly instead of giving text that only looks like the schema.
func refuseFormat(o *wire.Object) {
	f := o.Object("response_format")
	if f == nil {
		return
	}
	switch kind := f.Text("type"); kind {
	case "text":
	case "json_object", "json_schema":
		o.Fail(notYet("response_format", "structured output (response_format %s) is not supported yet: leave it out and ask for JSON in the prompt", kind))
	default:
		o.FailAt("response_format.type", "response_format.type must be text, json_object or json_schema")
	}
}

// takeTools notes tools as ignored: a refusal would end every agent's run. A tool that must be called is refused, because
// the answer would be another one.
func takeTools(o *wire.Object) {
	if len(o.Array("tools")) > 0 {
		o.Ignored("tools")
	}
	if len(o.Array("functions")) > 0 {
		o.Ignored("functions")
	}
	for _, field := range []string{"tool_choice", "function_call"} {
		switch raw := o.Raw(field); string(raw) {
		case "", `"none"`: // none is what happens
		case `"auto"`:
			o.Ignored(field)
		default:
			if kind := wire.Kind(raw); kind != "object" && string(raw) != `"required"` {
				o.FailAt(field, "%s must be none, auto, required or an object that names a tool", field)
				return
			}
			o.Fail(notYet(field, "a tool that must be called (%s) is not supported yet: use auto", field))
		}
	}
}

func takeMessage(m *wire.Object) llm.Message {
	msg := llm.Message{Role: m.Text("role"), ToolCallID: m.Text("tool_call_id")}
	switch msg.Role {
	case "system", "user", "assistant", "tool":
	case "developer":
		msg.Role = "system"
	case "function":
		msg.Role, msg.ToolName = "tool", m.Text("name")
	default:
		m.FailAt(m.Path("role"), "%s must be system, developer, user, assistant or tool", m.Path("role"))
	}
	msg.Content = takeContent(m)
	msg.Thinking = firstText(m, "reasoning", "reasoning_content")
	for _, call := range m.Objects("tool_calls") {
		msg.ToolCalls = append(msg.ToolCalls, takeToolCall(call))
	}
	if msg.Role != "assistant" && !m.Has("content") {
		m.FailAt(m.Path("content"), "%s is required", m.Path("content"))
	}
	return msg
}

func firstText(m *wire.Object, names ...string) string {
	text := ""
	for _, name := range names {
		if wire.Kind(m.Raw(name)) == "string" && text == "" {
			text = m.Text(name)
		}
	}
	return text
}

// takeContent reads a message's text, which may come in parts.
func takeContent(m *wire.Object) string {
	switch wire.Kind(m.Raw("content")) {
	case "null":
		return ""
	case "string":
		return m.Text("content")
	case "array":
	default:
		m.WrongType("content", "string or array")
		return ""
	}
	var texts []string
	for _, part := range m.Objects("content") {
		switch kind := part.Text("type"); kind {
		case "text", "input_text", "output_text":
			texts = append(texts, part.Text("text"))
		case "refusal":
			texts = append(texts, part.Text("refusal"))
		case "image_url", "input_image", "image":
			part.Fail(notYet(part.Path("type"), "images are not supported yet: send text only"))
		default:
			part.Fail(notYet(part.Path("type"), "%s: only parts of type text are supported", part.Path("type")))
		}
	}
	return strings.Join(texts, "\n")
}

// takeToolCall reads a call that an earlier answer made. Its arguments are JSON in a string; a small model may have
// written something else, and then the conversation must still be able to go on.
func takeToolCall(call *wire.Object) llm.ToolCall {
	f := call.Object("function")
	if f == nil {
		call.FailAt(call.Path("function"), "%s is required", call.Path("function"))
		return llm.ToolCall{}
	}
	arguments := f.Raw("arguments")
	if wire.Kind(arguments) == "string" {
		arguments = json.RawMessage(strings.TrimSpace(f.Text("arguments")))
	}
	switch {
	case len(arguments) == 0:
		arguments = json.RawMessage("{}")
	case wire.Kind(arguments) != "object" || !json.Valid(arguments):
		arguments = marshal(map[string]string{"arguments": string(arguments)})
	}
	return llm.ToolCall{ID: call.Text("id"), Name: f.Text("name"), Arguments: arguments}
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

// Embeddings is a request of /v1/embeddings.
type Embeddings struct {
	Model  string
	Base64 bool             // vectors as base64 of little-endian float32, which OpenAI's own libraries ask for
	Embed  llm.EmbedRequest // without a model
	LLM    llm.Request      // model, device and notes
}

// ParseEmbeddings reads a request of /v1/embeddings.
func ParseEmbeddings(body []byte) (Embeddings, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Embeddings{}, err
	}
	e := Embeddings{Model: o.Text("model"), Embed: llm.EmbedRequest{Truncate: true}}
	if e.Model == "" {
		o.FailAt("model", "you must provide a model parameter")
	}
	e.Embed.Inputs = takeInputs(o)
	switch format := o.Text("encoding_format"); format {
	case "", "float":
	case "base64":
		e.Base64 = true
	default:
		o.FailAt("encoding_format", "encoding_format must be float or base64")
	}
	set(&e.Embed.Dimensions, o.Int(dimensions))
	if truncate := o.Bool("truncate"); truncate != nil { // not OpenAI's; as in /api/embed
		e.Embed.Truncate = *truncate
	}
	if o.True("stream") {
		o.FailAt("stream", "stream: this route answers with one JSON object and cannot stream")
	}
	o.Ignore("user")
	o.Rest()
	if err := o.Err(); err != nil {
		return e, err
	}
	e.LLM.Model, e.LLM.Device = wire.SplitDevice(e.Model)
	e.LLM.Sampling = llm.DefaultSampling()
	e.LLM.Ignored, e.LLM.Clamped = o.Notes()
	return e, nil
}

func takeInputs(o *wire.Object) []string {
	raw := o.Raw("input")
	switch wire.Kind(raw) {
	case "string":
	case "array":
		for _, item := range o.Array("input") {
			switch wire.Kind(item) {
			case "string":
			case "number", "array":
				o.FailAt("input", "input as token ids is not supported: send text (LangChain: check_embedding_ctx_length=False)")
				return nil
			default:
				o.FailAt("input", "invalid input")
				return nil
			}
		}
	default:
		o.FailAt("input", "invalid input")
		return nil
	}
	inputs := o.Texts("input", maxInputs)
	if len(inputs) == 0 || (len(inputs) == 1 && inputs[0] == "") {
		o.FailAt("input", "invalid input")
	}
	return inputs
}
