package toolcall

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"signalbox/backend/llm"
)

// Conversation brings messages into the form that the model's template expects:
//
//   - results have the name of the tool, which clients often leave to the id;
//   - where a template takes one call for a turn, several become several turns, each with its result;
//   - where it knows no calls, those of earlier turns are text, in the notation of the model's family;
//   - where it knows no tools, the system message describes them, and results come from the user.
//
// The tools are those to be rendered: nil where the template does not render them. The messages of the caller are not changed.
func (s Style) Conversation(messages []llm.Message, tools json.RawMessage) ([]llm.Message, json.RawMessage) {
	messages = named(messages)
	if s.facts.single {
		messages = oneByOne(messages)
	}
	if s.facts.shortIDs {
		messages = withShortIDs(messages)
	}
	if s.family == kimi {
		messages = withKimiIDs(messages)
	}
	if s.family == harmony {
		messages = thoughtOrText(messages)
	}
	if !s.facts.native || !s.facts.history {
		messages = s.asText(messages)
	}
	if len(tools) == 0 {
		return messages, nil
	}
	if s.facts.native {
		if s.facts.inSystem && (len(messages) == 0 || messages[0].Role != "system") {
			messages = append([]llm.Message{{Role: "system", Content: "You are a helpful assistant with some tools."}}, messages...)
		}
		return messages, tools
	}
	return s.instruct(messages, tools), nil
}

// named fills in the tool's name of each result, from the call with its id, or the calls before it in their order.
func named(messages []llm.Message) []llm.Message {
	out := append([]llm.Message(nil), messages...)
	names := map[string]string{}
	var pending []llm.ToolCall
	for i, m := range out {
		if len(m.ToolCalls) > 0 {
			pending = m.ToolCalls
		}
		for _, c := range m.ToolCalls {
			names[c.ID] = c.Name
		}
		if m.Role != "tool" {
			continue
		}
		if m.ToolName == "" && m.ToolCallID != "" {
			out[i].ToolName = names[m.ToolCallID]
		}
		for n, c := range pending {
			if m.ToolCallID == c.ID && m.ToolCallID != "" || m.ToolCallID == "" && (m.ToolName == "" || m.ToolName == c.Name) {
				out[i].ToolName, out[i].ToolCallID = c.Name, c.ID
				pending = append(append([]llm.ToolCall(nil), pending[:n]...), pending[n+1:]...)
				break
			}
		}
	}
	return out
}

// oneByOne splits turns with several calls.
func oneByOne(messages []llm.Message) []llm.Message {
	var out []llm.Message
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if len(m.ToolCalls) < 2 {
			out = append(out, m)
			continue
		}
		results := messages[i+1:]
		n := 0
		for n < len(results) && results[n].Role == "tool" {
			n++
		}
		results = results[:n]
		used := make([]bool, n)
		for k, c := range m.ToolCalls {
			turn := llm.Message{Role: m.Role, ToolCalls: []llm.ToolCall{c}}
			if k == 0 {
				turn.Content, turn.Thinking = m.Content, m.Thinking
			}
			out = append(out, turn)
			for r, result := range results {
				if !used[r] && result.ToolCallID == c.ID {
					used[r] = true
					out = append(out, result)
					break
				}
			}
		}
		for r, result := range results {
			if !used[r] {
				out = append(out, result)
			}
		}
		i += n
	}
	return out
}

// withShortIDs gives calls ids of nine letters and digits, the same for the same.
func withShortIDs(messages []llm.Message) []llm.Message {
	short := func(id string) string {
		if id == "" {
			return ""
		}
		h := fnv.New64a()
		h.Write([]byte(id))
		return fmt.Sprintf("%09x", h.Sum64()&0xfffffffff)
	}
	for i := range messages {
		messages[i].ToolCallID = short(messages[i].ToolCallID)
		calls := append([]llm.ToolCall(nil), messages[i].ToolCalls...)
		for k := range calls {
			calls[k].ID = short(calls[k].ID)
		}
		messages[i].ToolCalls = calls
	}
	return messages
}

// withKimiIDs gives calls the ids that Kimi has learned: it reads the tool's name from them.
func withKimiIDs(messages []llm.Message) []llm.Message {
	ids := map[string]string{}
	n := 0
	for i := range messages {
		calls := append([]llm.ToolCall(nil), messages[i].ToolCalls...)
		for k, c := range calls {
			calls[k].ID = kimiID(c.Name, n)
			n++
			ids[c.ID] = calls[k].ID
		}
		messages[i].ToolCalls = calls
		if id, ok := ids[messages[i].ToolCallID]; ok && messages[i].Role == "tool" {
			messages[i].ToolCallID = id
		}
	}
	return messages
}

// thoughtOrText joins what gpt-oss's template refuses to see side by side in a turn with a call.
func thoughtOrText(messages []llm.Message) []llm.Message {
	for i, m := range messages {
		if len(m.ToolCalls) > 0 && m.Thinking != "" && m.Content != "" {
			messages[i].Thinking, messages[i].Content = m.Thinking+"\n\n"+m.Content, ""
		}
	}
	return messages
}

// asText writes calls as the model did, and results as the user's words where the template knows no other way.
func (s Style) asText(messages []llm.Message) []llm.Message {
	var out []llm.Message
	for _, m := range messages {
		if len(m.ToolCalls) > 0 {
			var calls []call
			for _, c := range m.ToolCalls {
				calls = append(calls, call{c.Name, orEmpty(c.Arguments)})
			}
			m.Content = strings.TrimLeft(m.Content+"\n"+s.of().write(calls), "\n")
			m.ToolCalls = nil
		}
		if m.Role == "tool" && !s.facts.native {
			m = llm.Message{Role: "user", Content: "<tool_response>\n" + m.Content + "\n</tool_response>"}
			if n := len(out); n > 0 && out[n-1].Role == "user" && strings.HasSuffix(out[n-1].Content, "</tool_response>") {
				out[n-1].Content += "\n" + m.Content // templates want the roles to take turns
				continue
			}
		}
		out = append(out, m)
	}
	return out
}

func orEmpty(arguments json.RawMessage) string {
	if len(arguments) == 0 {
		return "{}"
	}
	return string(arguments)
}

// instruct describes the tools in the system message, or where the template refuses one, in the first message of the user.
func (s Style) instruct(messages []llm.Message, tools json.RawMessage) []llm.Message {
	text := instructions(tools)
	role := "system"
	if s.facts.noSystem {
		role = "user"
	}
	for i, m := range messages {
		if m.Role == role && (role == "user" || i == 0) {
			if messages[i].Content = m.Content + "\n\n" + text; role == "user" {
				messages[i].Content = text + "\n\n" + m.Content
			}
			return messages
		}
	}
	return append([]llm.Message{{Role: role, Content: text}}, messages...)
}

// instructions is the form in which many models have learned to use tools, in words.
func instructions(tools json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(tools, &list) != nil {
		list = []json.RawMessage{tools}
	}
	var b strings.Builder
	b.WriteString("# Tools\n\nYou can call functions to help with the request. They are described within <tools></tools> as JSON, one a line:\n<tools>\n")
	for _, t := range list {
		b.Write(t)
		b.WriteString("\n")
	}
	b.WriteString("</tools>\n\nTo call a function, answer with its name and arguments as a JSON object within <tool_call></tool_call>:\n" +
		"<tool_call>\n{\"name\": \"the function's name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>\n" +
		"The result then comes within <tool_response></tool_response>. Call a function only when it helps; otherwise answer in words.")
	return b.String()
}

// Write is a call in the notation of the model's family, as the model itself would write it. Arguments are a JSON object.
func (s Style) Write(calls ...llm.ToolCall) string {
	var list []call
	for _, c := range calls {
		list = append(list, call{c.Name, orEmpty(c.Arguments)})
	}
	return s.of().write(list)
}

// Written is the style with these Markers, for those who do not know the template: the fake engine. It is the generic one when
// there are none.
func Written(markers []string) Style {
	for _, f := range families {
		foreign := slices.ContainsFunc(f.markers, func(m string) bool { return !slices.Contains(markers, m) })
		if !foreign {
			return Style{family: f}
		}
	}
	return Style{family: generic}
}
