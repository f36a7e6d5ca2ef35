package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

const (
	maxStops = 256
	maxStop  = 1024 // bytes of one stop sequence
)

// The number fields of this dialect: name, whole, least, most, refused when outside (else cut, and said so).
var (
	maxTokens   = wire.Number{Name: "max_tokens", Integer: true, Min: -1 << 53, Max: 1 << 24} // below 1 is refused in Anthropic's words
	temperature = wire.Number{Name: "temperature", Min: 0, Max: 2}
	topP        = wire.Number{Name: "top_p", Min: 0, Max: 1}
	topK        = wire.Number{Name: "top_k", Integer: true, Min: 0, Max: 1 << 20}
	budget      = wire.Number{Name: "budget_tokens", Integer: true, Min: 0, Max: 1 << 24}
)

// Numbers is the table above, for tests that try every limit.
var Numbers = []wire.Number{maxTokens, temperature, topP, topK, budget}

// Known fields that change nothing in what the model says, or nothing a client would miss.
var ignored = []string{
	"metadata", "service_tier", "container", "context_management", "mcp_servers", "inference_geo", "speed", "betas", "diagnostics",
}

// Messages is a request of /v1/messages, or of /v1/messages/count_tokens.
type Messages struct {
	Model  string // as the caller wrote it: answers repeat it
	Stream bool
	LLM    llm.Request
}

// ParseMessages reads a request of /v1/messages.
func ParseMessages(body []byte) (Messages, error) { return parse(body, false) }

// ParseCount reads a request of /v1/messages/count_tokens: the same body, without a limit on the answer.
func ParseCount(body []byte) (Messages, error) { return parse(body, true) }

func parse(body []byte, count bool) (Messages, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Messages{}, err
	}
	m := Messages{Model: o.Text("model"), Stream: o.True("stream")}
	if m.Model == "" {
		o.FailAt("model", "model: Field required")
	}
	if count && m.Stream {
		o.FailAt("stream", "stream: this route answers with one JSON object and cannot stream")
	}
	in := conversation{}
	in.system(o)
	in.take(o)
	m.LLM.Messages = wire.MergeSystem(in.messages)
	wire.NameToolResults(m.LLM.Messages)
	takeLimit(o, &m.LLM, count)
	takeSampling(o, &m.LLM)
	tools := takeTools(o)
	m.LLM.Tools, m.LLM.ToolChoice = tools.JSON(), takeToolChoice(o, tools)
	m.LLM.Think = takeThinking(o)
	takeOutput(o, &m.LLM)
	m.LLM.KeepAlive = o.KeepAlive() // not Anthropic's; as in /api/chat
	o.Ignore(ignored...)
	o.Rest()
	if err := o.Err(); err != nil {
		return m, err
	}
	m.LLM.Model, m.LLM.Device = wire.SplitDevice(m.Model)
	m.LLM.Ignored, m.LLM.Clamped = o.Notes()
	return m, nil
}

func takeLimit(o *wire.Object, req *llm.Request, count bool) {
	limit := o.Int(maxTokens)
	switch {
	case limit != nil && *limit > 0:
		req.MaxTokens = int(*limit)
	case !count:
		o.FailAt("max_tokens", "max_tokens is required and must be positive")
	}
}

// takeSampling reads the numbers. Unset temperature and top_p are Anthropic's 1.
func takeSampling(o *wire.Object, req *llm.Request) {
	req.Sampling = llm.DefaultSampling()
	s := &req.Sampling
	s.Temperature, s.TopP = 1, 1
	req.Sent = o.Sent()
	if v := o.Float(temperature); v != nil {
		s.Temperature = *v
	}
	if v := o.Float(topP); v != nil {
		s.TopP = *v
	}
	if v := o.Int(topK); v != nil {
		s.TopK = int(*v)
	}
	stops := slices.DeleteFunc(o.Texts("stop_sequences", maxStops), func(s string) bool { return s == "" })
	for i, stop := range stops {
		if len(stop) > maxStop {
			o.FailAt("stop_sequences", "stop_sequences[%d] has %d bytes, at most %d are possible", i, len(stop), maxStop)
		}
	}
	if len(stops) > 0 {
		req.Stop = stops
	}
}

// takeTools reads the tools. Those that run on Anthropic's servers, or whose schema only its models know, are left out and noted.
func takeTools(o *wire.Object) wire.Tools {
	var tools wire.Tools
	o.EachTool("tools", func(tool *wire.Object) {
		if kind := tool.Text("type"); kind != "" && kind != "custom" {
			tool.IgnoredType(kind)
			return
		}
		tools.Add(wire.Tool{
			Name: tool.RequiredText("name"), Description: tool.Text("description"), Parameters: tool.Schema("input_schema"), Strict: tool.True("strict"),
		})
	})
	return tools
}

func takeToolChoice(o *wire.Object, tools wire.Tools) llm.ToolChoice {
	choice := o.ToolChoice("tool_choice", tools)
	if c := o.Object("tool_choice"); c != nil {
		if off := c.Bool("disable_parallel_tool_use"); off != nil {
			on := !*off
			choice.Parallel = &on
		}
	}
	return choice
}

// takeThinking reads whether to think. Who does not ask for thinking does not expect it in the answer.
func takeThinking(o *wire.Object) *llm.Think {
	t := o.Object("thinking")
	if t == nil {
		return &llm.Think{}
	}
	t.Text("display") // all of it is shown
	defer t.Rest()
	switch t.Text("type") {
	case "disabled":
		return &llm.Think{}
	case "adaptive": // as the model does by itself
		return nil
	case "enabled":
		think := &llm.Think{Enabled: true}
		if n := t.Int(budget); n != nil {
			think.Budget = int(*n)
		}
		return think
	}
	t.FailAt("thinking.type", "thinking.type: must be enabled, disabled or adaptive")
	return nil
}

// takeOutput reads effort and format, in the places where they have been.
func takeOutput(o *wire.Object, req *llm.Request) {
	if config := o.Object("output_config"); config != nil {
		think, ok := wire.Effort(config.Text("effort"))
		switch {
		case !ok:
			config.Ignored("output_config.effort")
		case think != nil && (req.Think == nil || req.Think.Enabled):
			think.Budget = budgetOf(req.Think)
			req.Think = think
		}
		req.Constraint = takeFormat(config.Object("format"))
		config.Rest()
	}
	if c := takeFormat(o.Object("output_format")); c != nil {
		req.Constraint = c
	}
}

func budgetOf(t *llm.Think) int {
	if t == nil {
		return 0
	}
	return t.Budget
}

func takeFormat(f *wire.Object) *llm.Constraint {
	if f == nil {
		return nil
	}
	if f.Text("type") != "json_schema" {
		f.FailAt(f.Path("type"), "%s: must be json_schema", f.Path("type"))
		return nil
	}
	schema := f.Schema("schema")
	if schema == nil {
		f.FailAt(f.Path("schema"), "%s: Field required", f.Path("schema"))
		return nil
	}
	f.Rest()
	return &llm.Constraint{Schema: schema}
}

// conversation makes messages of system and messages.
type conversation struct{ messages []llm.Message }

// billing begins a block that Claude Code puts first: it is not for the model, and differs with each request, so that no
// prompt would have the beginning of the one before.
const billing = "x-anthropic-billing-header"

func (c *conversation) system(o *wire.Object) {
	switch wire.Kind(o.Raw("system")) {
	case "string":
		c.add(llm.Message{Role: "system", Content: o.Text("system")})
	case "array":
		for i, block := range o.Objects("system") {
			text := block.Text("text")
			if strings.HasPrefix(text, billing) {
				o.Ignored(fmt.Sprintf("system[%d]", i))
				continue
			}
			c.add(llm.Message{Role: "system", Content: text})
		}
	case "null":
	default:
		o.WrongType("system", "string or array")
	}
}

func (c *conversation) add(m llm.Message) { c.messages = append(c.messages, m) }

func (c *conversation) take(o *wire.Object) {
	list := o.Objects("messages")
	if len(list) == 0 {
		o.FailAt("messages", "messages: at least one message is required")
	}
	for _, m := range list {
		switch role := m.Text("role"); role {
		case "user", "assistant", "system":
			c.message(m, role)
		default:
			m.FailAt(m.Path("role"), "%s: must be user, assistant or system", m.Path("role"))
		}
	}
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == "assistant" {
		o.Ignored(fmt.Sprintf("messages[%d] (prefill)", len(list)-1)) // it is read, but the answer is a turn of its own
	}
}

func (c *conversation) message(m *wire.Object, role string) {
	switch wire.Kind(m.Raw("content")) {
	case "string":
		c.add(llm.Message{Role: role, Content: m.Text("content")})
	case "array":
		turn := turn{c: c, role: role}
		for _, block := range m.Objects("content") {
			turn.block(block)
		}
		turn.end()
	case "null":
		m.FailAt(m.Path("content"), "%s: Field required", m.Path("content"))
	default:
		m.WrongType("content", "string or array")
	}
}

// turn is one message of blocks. Tool results in it become messages of their own, where they stand.
type turn struct {
	c        *conversation
	role     string
	texts    []string
	thinking []string
	calls    []llm.ToolCall
}

func (t *turn) block(b *wire.Object) {
	switch kind := b.Text("type"); kind {
	case "text":
		t.texts = append(t.texts, b.Text("text"))
	case "thinking":
		t.thinking = append(t.thinking, b.Text("thinking"))
	case "redacted_thinking": // nobody but Anthropic can read it
		b.IgnoredType(kind)
	case "tool_use":
		input := b.Schema("input")
		if input == nil {
			input = json.RawMessage("{}")
		}
		t.calls = append(t.calls, llm.ToolCall{ID: b.Text("id"), Name: b.RequiredText("name"), Arguments: input})
	case "tool_result":
		t.end()
		t.c.add(llm.Message{Role: "tool", ToolCallID: b.RequiredText("tool_use_id"), Content: content(b)})
	case "document":
		t.texts = append(t.texts, document(b))
	case "image":
		b.Fail(notSupported(b.Path("type"), "images are not supported yet: send text only"))
	default:
		b.IgnoredType(kind)
	}
}

// end adds what was gathered as one message.
func (t *turn) end() {
	if len(t.texts)+len(t.thinking)+len(t.calls) == 0 {
		return
	}
	t.c.add(llm.Message{
		Role: t.role, Content: strings.Join(t.texts, "\n"), Thinking: strings.Join(t.thinking, "\n"), ToolCalls: t.calls,
	})
	t.texts, t.thinking, t.calls = nil, nil, nil
}

// content is a tool's result.
func content(b *wire.Object) string {
	switch wire.Kind(b.Raw("content")) {
	case "string":
		return b.Text("content")
	case "null":
		return ""
	case "array":
	default:
		b.WrongType("content", "string or array")
		return ""
	}
	var texts []string
	for _, part := range b.Objects("content") {
		switch kind := part.Text("type"); kind {
		case "text":
			texts = append(texts, part.Text("text"))
		case "document":
			texts = append(texts, document(part))
		case "image":
			part.Fail(notSupported(part.Path("type"), "images are not supported yet: send text only"))
		default:
			part.IgnoredType(kind)
		}
	}
	return strings.Join(texts, "\n")
}

// document is a document's text, when it is one of text.
func document(b *wire.Object) string {
	source := b.Object("source")
	if source == nil {
		b.FailAt(b.Path("source"), "%s: Field required", b.Path("source"))
		return ""
	}
	if source.Text("type") != "text" {
		b.Fail(notSupported(source.Path("type"), "%s: only documents of plain text are supported", source.Path("type")))
	}
	return source.Text("data")
}
