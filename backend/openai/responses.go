package openai

import (
	"encoding/json"
	"strings"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

// Responses is a request of /v1/responses.
type Responses struct {
	Model  string
	Stream bool
	LLM    llm.Request
	Echo   Echo
}

// Echo is what of a request its answers repeat.
type Echo struct {
	Instructions      *string         `json:"instructions"`
	MaxOutputTokens   *int64          `json:"max_output_tokens"`
	Metadata          json.RawMessage `json:"metadata"`
	ParallelToolCalls bool            `json:"parallel_tool_calls"`
	Reasoning         json.RawMessage `json:"reasoning"`
	Temperature       float64         `json:"temperature"`
	Text              json.RawMessage `json:"text"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	Tools             json.RawMessage `json:"tools"` // those that are honoured
	TopP              float64         `json:"top_p"`
}

// Known fields of responses that change nothing in what the model says.
var ignoredOfResponses = []string{
	"store", "include", "user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "client_metadata",
}

// ParseResponses reads a request of /v1/responses. There are no conversations kept here, so what refers to an earlier answer is
// refused: leaving it out would be another conversation.
func ParseResponses(body []byte) (Responses, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Responses{}, err
	}
	r := Responses{Model: takeModel(o), Stream: o.True("stream")}
	refuseState(o)
	instructions := o.Text("instructions")
	if instructions != "" {
		r.LLM.Messages = append(r.LLM.Messages, llm.Message{Role: "system", Content: instructions})
		r.Echo.Instructions = &instructions
	}
	items := input{object: o, messages: r.LLM.Messages}
	items.take()
	r.LLM.Messages = wire.MergeSystem(items.messages)
	wire.NameToolResults(r.LLM.Messages)

	takeSampling(o, &r.LLM)
	if limit := o.Int(outputLimit); limit != nil {
		r.LLM.MaxTokens = int(max(*limit, 0))
		r.Echo.MaxOutputTokens = limit
	}
	set(&r.LLM.TopLogprobs, o.Int(topLogprobs))
	r.LLM.Logprobs = r.LLM.TopLogprobs > 0
	if text := o.Object("text"); text != nil {
		r.Echo.Text = o.Raw("text")
		r.LLM.Constraint = takeFormat(text.Object("format"))
		text.Ignore("verbosity")
		text.Rest()
	}
	if reasoning := o.Object("reasoning"); reasoning != nil {
		r.Echo.Reasoning = o.Raw("reasoning")
		r.LLM.Think = takeReasoning(reasoning)
	}
	r.takeTools(o)
	if o.Int(maxToolCalls) != nil {
		o.Ignored("max_tool_calls")
	}
	if o.Text("truncation") == "auto" { // nothing is ever cut
		o.Ignored("truncation")
	}
	takeStreamOptions(o)
	r.Echo.Metadata = o.Raw("metadata")
	o.Ignore(ignoredOfResponses...)
	r.Echo.Temperature, r.Echo.TopP = r.LLM.Sampling.Temperature, r.LLM.Sampling.TopP
	return r, finish(o, r.Model, &r.LLM)
}

func refuseState(o *wire.Object) {
	for _, field := range []string{"previous_response_id", "conversation"} {
		if o.Raw(field) != nil {
			o.Fail(notSupported(field, "%s is not supported: no answers are kept here, so send the whole conversation in input", field))
		}
	}
	if o.True("background") {
		o.Fail(notSupported("background", "background is not supported: wait for the answer, or stream it"))
	}
	if o.Raw("prompt") != nil {
		o.Fail(notSupported("prompt", "prompt is not supported: stored prompts are on OpenAI's servers, so send the text itself"))
	}
}

// takeTools reads the tools, which are flatter here than in chat.
func (r *Responses) takeTools(o *wire.Object) {
	var tools wire.Tools
	kept := []json.RawMessage{}
	raw := o.Array("tools")
	i := -1
	o.EachTool("tools", func(tool *wire.Object) {
		i++
		if kind := tool.Text("type"); kind != "function" {
			tool.IgnoredType(kind)
			return
		}
		spec := tool
		if nested := tool.Object("function"); nested != nil { // as in chat: some clients mix them up
			spec = nested
		}
		tools.Add(wire.Tool{
			Name: spec.RequiredText("name"), Description: spec.Text("description"), Parameters: spec.Schema("parameters"), Strict: spec.True("strict"),
		})
		kept = append(kept, raw[i])
	})
	r.LLM.Tools, r.LLM.ToolChoice = tools.JSON(), o.ToolChoice("tool_choice", tools)
	r.LLM.ToolChoice.Parallel = o.Bool("parallel_tool_calls")
	r.Echo.Tools, r.Echo.ToolChoice = marshal(kept), o.Raw("tool_choice")
	r.Echo.ParallelToolCalls = r.LLM.ToolChoice.Parallel == nil || *r.LLM.ToolChoice.Parallel
	if r.Echo.ToolChoice == nil {
		r.Echo.ToolChoice = json.RawMessage(`"auto"`)
	}
}

// input makes messages of a request's input.
type input struct {
	object   *wire.Object
	messages []llm.Message
	thinking string // waits for the assistant's message it belongs to
}

func (in *input) take() {
	o := in.object
	switch wire.Kind(o.Raw("input")) {
	case "string":
		in.messages = append(in.messages, llm.Message{Role: "user", Content: o.Text("input")})
	case "array":
		for _, item := range o.Objects("input") {
			in.item(item)
		}
	case "null":
	default:
		o.WrongType("input", "string or array")
	}
	if len(in.messages) == 0 {
		o.FailAt("input", "input is required")
	}
}

func (in *input) item(item *wire.Object) {
	switch kind := item.Text("type"); kind {
	case "", "message":
		in.message(item)
	case "function_call":
		in.call(llm.ToolCall{ID: item.Text("call_id"), Name: item.RequiredText("name"), Arguments: wire.CallArguments(item.Text("arguments"))})
	case "custom_tool_call":
		in.call(llm.ToolCall{ID: item.Text("call_id"), Name: item.RequiredText("name"), Arguments: marshal(map[string]string{"input": item.Text("input")})})
	case "function_call_output", "custom_tool_call_output":
		in.messages = append(in.messages, llm.Message{Role: "tool", ToolCallID: item.Text("call_id"), Content: output(item)})
	case "reasoning":
		in.reasoning(item)
	case "item_reference":
		item.Fail(notSupported(item.Path("id"), "%s refers to an earlier answer, and none are kept here: send the item itself", item.Path("id")))
	default:
		item.IgnoredType(kind)
	}
}

func (in *input) message(item *wire.Object) {
	msg := llm.Message{Role: item.Text("role")}
	switch msg.Role {
	case "system", "user":
	case "assistant":
		msg.Thinking, in.thinking = in.thinking, ""
	case "developer":
		msg.Role = "system"
	default:
		item.FailAt(item.Path("role"), "%s must be system, developer, user or assistant", item.Path("role"))
	}
	if !item.Has("content") {
		item.FailAt(item.Path("content"), "%s is required", item.Path("content"))
	}
	msg.Content = takeContent(item)
	in.messages = append(in.messages, msg)
}

// call joins the call to the assistant's turn that it is part of.
func (in *input) call(call llm.ToolCall) {
	if n := len(in.messages); n == 0 || in.messages[n-1].Role != "assistant" {
		in.messages = append(in.messages, llm.Message{Role: "assistant", Thinking: in.thinking})
		in.thinking = ""
	}
	last := &in.messages[len(in.messages)-1]
	last.ToolCalls = append(last.ToolCalls, call)
}

func (in *input) reasoning(item *wire.Object) {
	var texts []string
	for _, list := range []string{"summary", "content"} {
		if wire.Kind(item.Raw(list)) != "array" {
			continue
		}
		for _, part := range item.Objects(list) {
			texts = append(texts, part.Text("text"))
		}
	}
	in.thinking = strings.Join(texts, "\n")
}

// output is a tool's result: text, or parts of text.
func output(item *wire.Object) string {
	switch wire.Kind(item.Raw("output")) {
	case "string":
		return item.Text("output")
	case "array":
		return joinParts(item, "output")
	case "null":
		return ""
	}
	return string(item.Raw("output")) // an object: the model may read it as JSON
}
