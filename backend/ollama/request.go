package ollama

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

// Generation is a request of /api/chat or /api/generate.
type Generation struct {
	Model     string // as the caller wrote it: answers repeat it
	Stream    bool
	Empty     bool // nothing to answer: load the model, or with KeepAlive 0 unload it
	LLM       llm.Request
	KeepAlive *time.Duration
}

// Unload tells whether the request only asks to free the model.
func (g Generation) Unload() bool { return g.Empty && g.KeepAlive != nil && *g.KeepAlive == 0 }

// ParseChat reads a request of /api/chat.
func ParseChat(body []byte) (Generation, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Generation{}, err
	}
	g := Generation{Model: takeModel(o)}
	if g.Model == "" {
		o.FailAt("model", "model is required")
	}
	takeCommon(o, &g)
	for _, m := range o.Objects("messages") {
		g.LLM.Messages = append(g.LLM.Messages, takeMessage(m))
	}
	wire.NameToolResults(g.LLM.Messages)
	g.Empty = len(g.LLM.Messages) == 0
	tools := o.Functions("tools")
	g.LLM.Tools = tools.JSON()
	g.LLM.ToolChoice = o.ToolChoice("tool_choice", tools) // not Ollama's, and some clients send it
	return finish(o, g)
}

// ParseGenerate reads a request of /api/generate.
func ParseGenerate(body []byte) (Generation, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Generation{}, err
	}
	g := Generation{Model: takeModel(o)}
	if g.Model == "" && o.Err() == nil {
		o.Fail(llm.Errorf(llm.CodeModelNotFound, "%s", ModelNotFound("")))
	}
	takeCommon(o, &g)
	g.LLM.Prompt, g.LLM.System, g.LLM.Raw = o.Text("prompt"), o.Text("system"), o.True("raw")
	g.Empty = g.LLM.Prompt == ""
	g.LLM.Template, g.LLM.Suffix, g.LLM.Context = takeTemplate(o), o.Text("suffix"), takeContext(o)
	if g.LLM.Raw && (g.LLM.Template != "" || g.LLM.System != "" || len(g.LLM.Context) > 0) {
		o.Fail(llm.Errorf(llm.CodeInvalid, "raw mode does not support template, system, or context"))
	}
	g.LLM.EchoContext = !g.LLM.Raw && g.LLM.Suffix == ""
	refuseImages(o)
	return finish(o, g)
}

// takeModel reads the model's name, which older clients send as "name".
func takeModel(o *wire.Object) string {
	model, old := o.Text("model"), o.Text("name")
	if model == "" {
		return old
	}
	return model
}

// maxTemplate is far above the largest chat template there is.
const maxTemplate = 64 << 10

// takeTemplate reads a chat template in place of the model's own: a program in Jinja, run within a budget.
func takeTemplate(o *wire.Object) string {
	template := o.Text("template")
	switch {
	case len(template) > maxTemplate:
		o.FailAt("template", "template has %d bytes, at most %d are possible", len(template), maxTemplate)
	case goAction.MatchString(template):
		o.FailAt("template", "template is in Go's template language, and models here have Jinja templates: leave it out, or render the prompt yourself and send it with raw")
	}
	return template
}

// goAction is what Ollama's templates have and Jinja cannot.
var goAction = regexp.MustCompile(`\{\{-?\s*(\.|if |range |end\b|\$)`)

// takeContext reads the tokens of an earlier answer.
func takeContext(o *wire.Object) []int32 {
	items := o.Array("context")
	if len(items) > maxTokens {
		o.FailAt("context", "context takes at most %d tokens, not %d", maxTokens, len(items))
		return nil
	}
	var tokens []int32
	for i, raw := range items {
		n, err := strconv.ParseInt(string(raw), 10, 32)
		if err != nil || n < 0 {
			o.FailAt("context", "context[%d] must be a token id, that is a whole number from 0", i)
			return nil
		}
		tokens = append(tokens, int32(n))
	}
	return tokens
}

// takeCommon reads what chat and generate share.
func takeCommon(o *wire.Object, g *Generation) {
	g.LLM.Sampling = llm.DefaultSampling()
	g.Stream = true
	if stream := o.Bool("stream"); stream != nil {
		g.Stream = *stream
	}
	for _, row := range strayLimits { // options come after: they are Ollama's own
		if limit := o.Int(row); limit != nil {
			g.LLM.MaxTokens, g.LLM.LimitName = int(*limit), row.Name
		}
	}
	takeOptions(o, &g.LLM)
	g.KeepAlive = o.KeepAlive()
	g.LLM.KeepAlive = g.KeepAlive
	g.LLM.Constraint = takeFormat(o)
	g.LLM.Think = takeThink(o)
	g.LLM.Logprobs = o.True("logprobs")
	set(&g.LLM.TopLogprobs, o.Int(topLogprobs))
	for _, name := range []string{"truncate", "shift"} { // nothing is ever cut: false is what we do
		if o.True(name) {
			o.Ignored(name)
		}
	}
	o.Ignore("_debug_render_only")
}

func finish(o *wire.Object, g Generation) (Generation, error) {
	o.Rest()
	if o.Err() == nil && !validName(g.Model) {
		o.FailAt("model", "invalid model name")
	}
	if err := o.Err(); err != nil {
		return g, err
	}
	name, device := wire.SplitDevice(g.Model)
	g.LLM.Model = name
	if device != "" {
		g.LLM.Device = device
	}
	g.LLM.Ignored, g.LLM.Clamped = o.Notes()
	return g, nil
}

func takeMessage(m *wire.Object) llm.Message {
	msg := llm.Message{
		Role: strings.ToLower(m.Text("role")), Content: m.Text("content"), Thinking: m.Text("thinking"),
		ToolName: m.Text("tool_name"), ToolCallID: m.Text("tool_call_id"),
	}
	switch msg.Role {
	case "system", "user", "assistant", "tool":
	case "developer":
		msg.Role = "system"
	case "":
		m.FailAt(m.Path("role"), "%s is required", m.Path("role"))
	default:
		m.FailAt(m.Path("role"), "%s must be system, user, assistant or tool, not %q", m.Path("role"), msg.Role)
	}
	refuseImages(m)
	for _, call := range m.Objects("tool_calls") {
		f := call.Object("function")
		if f == nil {
			call.FailAt(call.Path("function"), "%s is required", call.Path("function"))
			return msg
		}
		arguments := f.Raw("arguments")
		if arguments == nil {
			arguments = json.RawMessage("{}")
		}
		if wire.Kind(arguments) != "object" {
			f.WrongType("arguments", "object")
		}
		msg.ToolCalls = append(msg.ToolCalls, llm.ToolCall{ID: call.Text("id"), Name: f.Text("name"), Arguments: arguments})
	}
	return msg
}

// refuseImages answers clearly instead of describing a picture that no model saw.
func refuseImages(o *wire.Object) {
	if len(o.Array("images")) > 0 {
		o.Fail(notYet(o.Path("images"), "images are not supported yet: send text only"))
	}
}

// takeFormat reads what the answer must look like.
func takeFormat(o *wire.Object) *llm.Constraint {
	raw := bytes.TrimSpace(o.Raw("format"))
	switch {
	case len(raw) == 0 || string(raw) == `""`:
	case string(raw) == `"json"`:
		return &llm.Constraint{JSON: true}
	case wire.Kind(raw) == "object":
		return &llm.Constraint{Schema: raw}
	default:
		o.FailAt("format", "invalid format: %s; expected \"json\" or a valid JSON Schema object", short(raw))
	}
	return nil
}

func takeThink(o *wire.Object) *llm.Think {
	raw := o.Raw("think")
	switch string(raw) {
	case "", `""`:
	case "true":
		return &llm.Think{Enabled: true}
	case "false":
		return &llm.Think{}
	case `"high"`, `"medium"`, `"low"`, `"max"`:
		return &llm.Think{Enabled: true, Effort: o.Text("think")}
	default:
		o.FailAt("think", `invalid think value: %s (must be "high", "medium", "low", "max", true, or false)`, short(raw))
	}
	return nil
}

// short is a value from outside, fit to be repeated in an error.
func short(raw []byte) string {
	const most = 40
	s := strings.ToValidUTF8(string(raw), "?")
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// modelName is what a model's name may look like. It never becomes a path; this only keeps the answer to "a b" Ollama's.
var modelName = regexp.MustCompile(`^[\pL\pN_][\pL\pN_.:/@+-]{0,349}$`)

func validName(s string) bool { return modelName.MatchString(s) }

// maxInputs bounds one embedding request; a whole corpus of 64 MiB fits.
const maxInputs = 1 << 16

// Embedding is a request of /api/embed or /api/embeddings.
type Embedding struct {
	Model string
	Embed llm.EmbedRequest // without a model
	LLM   llm.Request      // model, device, keep-alive and notes
}

// ParseEmbed reads a request of /api/embed.
func ParseEmbed(body []byte) (Embedding, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Embedding{}, err
	}
	e := Embedding{Model: takeModel(o), Embed: llm.EmbedRequest{Truncate: true}}
	switch raw := o.Raw("input"); wire.Kind(raw) {
	case "string", "array":
		e.Embed.Inputs = takeInputs(o)
	case "null":
	default:
		o.FailAt("input", "invalid input type")
	}
	if truncate := o.Bool("truncate"); truncate != nil {
		e.Embed.Truncate = *truncate
	}
	set(&e.Embed.Dimensions, o.Int(dimensions))
	return finishEmbed(o, e)
}

// takeInputs reads "input". Ollama has one text for everything that is neither a string nor a list of strings.
func takeInputs(o *wire.Object) []string {
	raw := o.Raw("input")
	if wire.Kind(raw) == "array" {
		for _, item := range o.Array("input") {
			if wire.Kind(item) != "string" {
				o.FailAt("input", "invalid input type")
				return nil
			}
		}
	}
	inputs := o.Texts("input", maxInputs)
	if len(inputs) == 1 && inputs[0] == "" && wire.Kind(raw) == "string" {
		return nil
	}
	return inputs
}

// ParseEmbeddings reads a request of the older /api/embeddings.
func ParseEmbeddings(body []byte) (Embedding, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Embedding{}, err
	}
	e := Embedding{Model: takeModel(o), Embed: llm.EmbedRequest{Truncate: true, Raw: true}}
	if prompt := o.Text("prompt"); prompt != "" {
		e.Embed.Inputs = []string{prompt}
	}
	return finishEmbed(o, e)
}

func finishEmbed(o *wire.Object, e Embedding) (Embedding, error) {
	if e.Model == "" {
		o.FailAt("model", "model is required")
	}
	refuseStream(o)
	e.LLM.Sampling = llm.DefaultSampling()
	takeOptions(o, &e.LLM)
	e.LLM.KeepAlive = o.KeepAlive()
	g, err := finish(o, Generation{Model: e.Model, LLM: e.LLM})
	e.LLM = g.LLM
	return e, err
}

// refuseStream keeps "stream": true from being answered by one frame.
func refuseStream(o *wire.Object) {
	if o.True("stream") {
		o.FailAt("stream", "stream: this route answers with one JSON object and cannot stream")
	}
}

// Show is a request of /api/show.
type Show struct{ Model string }

// ParseShow reads a request of /api/show, which names the model in "model" or, from older clients, in "name".
func ParseShow(body []byte) (Show, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Show{}, err
	}
	model := takeModel(o)
	if model == "" {
		o.FailAt("model", "model is required")
	}
	refuseStream(o)
	if err := o.Err(); err != nil {
		return Show{}, err
	}
	if !validName(model) {
		return Show{}, llm.Errorf(llm.CodeModelNotFound, "%s", ModelNotFound(model))
	}
	return Show{Model: model}, nil
}
