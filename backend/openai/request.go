package openai

import (
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
	probsOfText      = wire.Number{Name: "logprobs", Integer: true, Min: 0, Max: 20, Refuse: true} // of completions
	choices          = wire.Number{Name: "n", Integer: true, Min: 1, Max: 128, Refuse: true}
	bestOf           = wire.Number{Name: "best_of", Integer: true, Min: 1, Max: 128, Refuse: true}
	outputLimit      = wire.Number{Name: "max_output_tokens", Integer: true, Min: -1, Max: maxTokens} // of responses
	maxToolCalls     = wire.Number{Name: "max_tool_calls", Integer: true, Min: 1, Max: math.MaxInt32}
	thinkingLimit    = wire.Number{Name: "max_tokens", Integer: true, Min: 0, Max: maxTokens} // of "reasoning"
	logitBias        = wire.Number{Name: "logit_bias", Min: -100, Max: 100}                   // of each token
	dimensions       = wire.Number{Name: "dimensions", Integer: true, Min: 1, Max: 1 << 16, Refuse: true}
)

// Numbers is the table above, for tests that try every limit.
var Numbers = []wire.Number{
	tokenLimit, completionLimit, temperature, topP, topK, minP, repeatPenalty, presencePenalty, frequencyPenalty, seed,
	topLogprobs, probsOfText, choices, bestOf, outputLimit, maxToolCalls, thinkingLimit, logitBias, dimensions,
}

// Known fields that change nothing in what the model says, or nothing a client would miss.
var ignored = []string{
	"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
	"verbosity", "prediction", "web_search_options",
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
	c := Chat{Model: takeModel(o), Stream: o.True("stream")}
	for _, m := range o.Objects("messages") {
		c.LLM.Messages = append(c.LLM.Messages, takeMessage(m))
	}
	if len(c.LLM.Messages) == 0 {
		o.FailAt("messages", "[] is too short - 'messages'")
	}
	c.LLM.Messages = wire.MergeSystem(c.LLM.Messages)
	wire.NameToolResults(c.LLM.Messages)
	c.IncludeUsage = takeStreamOptions(o)
	takeSampling(o, &c.LLM)
	takeLogprobs(o, &c.LLM)
	takeChoices(o)
	c.LLM.Constraint = takeFormat(o.Object("response_format"))
	tools := o.Functions("tools")
	c.LLM.Tools, c.LLM.ToolChoice = tools.JSON(), o.ToolChoice("tool_choice", tools)
	c.LLM.ToolChoice.Parallel = o.Bool("parallel_tool_calls")
	o.Ignore("functions", "function_call") // the form before tools: its answers looked different
	c.LLM.Think = takeThink(o)
	o.Ignore(ignored...)
	return c, finish(o, c.Model, &c.LLM)
}

func takeModel(o *wire.Object) string {
	model := o.Text("model")
	if model == "" {
		o.FailAt("model", "you must provide a model parameter")
	}
	return model
}

func takeStreamOptions(o *wire.Object) (includeUsage bool) {
	so := o.Object("stream_options")
	if so == nil {
		return false
	}
	includeUsage = so.True("include_usage")
	so.Ignore("include_obfuscation")
	so.Rest()
	return includeUsage
}

// finish completes req with the model, the device, and what was not honoured.
func finish(o *wire.Object, model string, req *llm.Request) error {
	o.Rest()
	if err := o.Err(); err != nil {
		return err
	}
	req.Model, req.Device = wire.SplitDevice(model)
	req.Ignored, req.Clamped = o.Notes()
	return nil
}

// takeSampling reads the numbers. Unset temperature and top_p are OpenAI's 1, not Ollama's defaults.
func takeSampling(o *wire.Object, req *llm.Request) {
	req.Sampling = llm.DefaultSampling()
	s := &req.Sampling
	s.Temperature, s.TopP = 1, 1
	req.Sent = o.Sent()
	set(&req.MaxTokens, o.Int(tokenLimit))
	if limit := o.Int(completionLimit); limit != nil { // the newer name wins
		req.MaxTokens, req.LimitName = int(*limit), completionLimit.Name
	}
	req.MaxTokens = max(req.MaxTokens, 0) // 0 and -1: until the model or the context ends
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
	req.KeepAlive = o.KeepAlive() // not OpenAI's; as in /api/chat
}

func takeLogprobs(o *wire.Object, req *llm.Request) {
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
		row := logitBias
		row.Name = name
		if v := b.Float(row); v != nil {
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
	takeN(o)
	for _, modality := range o.Texts("modalities", 16) {
		if modality != "text" {
			o.Fail(notSupported("modalities", "answers other than text are not supported"))
		}
	}
	if o.Raw("audio") != nil {
		o.Fail(notSupported("audio", "audio answers are not supported"))
	}
}

func takeN(o *wire.Object) {
	if n := o.Int(choices); n != nil && *n > 1 {
		o.Fail(notSupported("n", "n > 1 is not supported: send the request %d times", *n))
	}
}

// takeFormat reads what the answer must look like, from response_format or from the format of responses' text.
func takeFormat(f *wire.Object) *llm.Constraint {
	if f == nil {
		return nil
	}
	defer f.Rest()
	switch f.Text("type") {
	case "text":
	case "json_object":
		return &llm.Constraint{JSON: true}
	case "json_schema":
		spec := f
		if nested := f.Object("json_schema"); nested != nil {
			spec = nested
			defer nested.Rest()
		}
		spec.Text("name")
		spec.Text("description")
		spec.Bool("strict") // every schema is kept to, strict or not
		schema := spec.Schema("schema")
		if schema == nil {
			spec.FailAt(spec.Path("schema"), "%s is required", spec.Path("schema"))
			return nil
		}
		return &llm.Constraint{Schema: schema}
	default:
		f.FailAt(f.Path("type"), "%s must be text, json_object or json_schema", f.Path("type"))
	}
	return nil
}

// takeThink reads how much to think, in the words of OpenAI and those that servers of open models added.
func takeThink(o *wire.Object) *llm.Think {
	think := takeEffort(o, "reasoning_effort")
	if r := o.Object("reasoning"); r != nil {
		if t := takeReasoning(r); t != nil {
			think = t
		}
	}
	if k := o.Object("chat_template_kwargs"); k != nil {
		for _, name := range []string{"enable_thinking", "thinking"} {
			if on := k.Bool(name); on != nil {
				think = &llm.Think{Enabled: *on}
			}
		}
		k.Rest()
	}
	if wire.Kind(o.Raw("think")) == "boolean" { // Ollama's
		think = &llm.Think{Enabled: o.True("think")}
	}
	return think
}

func takeReasoning(r *wire.Object) *llm.Think {
	think := takeEffort(r, "effort")
	if on := r.Bool("enabled"); on != nil && think == nil {
		think = &llm.Think{Enabled: *on}
	}
	if budget := r.Int(thinkingLimit); budget != nil {
		if think == nil {
			think = &llm.Think{Enabled: *budget > 0}
		}
		think.Budget = int(*budget)
	}
	r.Text("summary") // there is no model that sums up: the thinking itself is shown
	r.Rest()
	return think
}

func takeEffort(o *wire.Object, name string) *llm.Think {
	think, ok := wire.Effort(o.Text(name))
	if !ok {
		o.FailAt(o.Path(name), "%s must be none, minimal, low, medium, high or xhigh", o.Path(name))
	}
	return think
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
	return joinParts(m, "content")
}

func joinParts(m *wire.Object, name string) string {
	var texts []string
	for _, part := range m.Objects(name) {
		switch kind := part.Text("type"); kind {
		case "text", "input_text", "output_text":
			texts = append(texts, part.Text("text"))
		case "refusal":
			texts = append(texts, part.Text("refusal"))
		case "image_url", "input_image", "image":
			part.Fail(notSupported(part.Path("type"), "images are not supported yet: send text only"))
		default:
			part.Fail(notSupported(part.Path("type"), "%s: only parts of type text are supported", part.Path("type")))
		}
	}
	return strings.Join(texts, "\n")
}

// takeToolCall reads a call that an earlier answer made. Its arguments are JSON in a string.
func takeToolCall(call *wire.Object) llm.ToolCall {
	f := call.Object("function")
	if f == nil {
		call.FailAt(call.Path("function"), "%s is required", call.Path("function"))
		return llm.ToolCall{}
	}
	arguments := string(f.Raw("arguments"))
	if wire.Kind(f.Raw("arguments")) == "string" {
		arguments = f.Text("arguments")
	}
	return llm.ToolCall{ID: call.Text("id"), Name: f.Text("name"), Arguments: wire.CallArguments(arguments)}
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
	e := Embeddings{Model: takeModel(o), Embed: llm.EmbedRequest{Truncate: true}}
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
	e.LLM.KeepAlive = o.KeepAlive()
	e.LLM.Sampling = llm.DefaultSampling()
	o.Ignore("user")
	return e, finish(o, e.Model, &e.LLM)
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
