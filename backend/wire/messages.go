package wire

import (
	"encoding/json"
	"strings"

	"signalbox/backend/llm"
)

// MergeSystem makes one message of the system messages that a conversation begins with: many chat templates take one alone.
func MergeSystem(messages []llm.Message) []llm.Message {
	n := 0
	var texts []string
	for n < len(messages) && messages[n].Role == "system" {
		if messages[n].Content != "" {
			texts = append(texts, messages[n].Content)
		}
		n++
	}
	if n < 2 {
		return messages
	}
	return append([]llm.Message{{Role: "system", Content: strings.Join(texts, "\n\n")}}, messages[n:]...)
}

// CallArguments makes a JSON object of the arguments that an earlier answer called with. A small model may have written
// something else, and then the conversation must still be able to go on.
func CallArguments(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if text == "" {
		return json.RawMessage("{}")
	}
	if text[0] == '{' && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	object, err := json.Marshal(map[string]string{"arguments": text})
	if err != nil { // a string always can
		return json.RawMessage("{}")
	}
	return object
}

// NameToolResults gives each tool's result the name of the call it answers: templates show it, and not every client sends it.
func NameToolResults(messages []llm.Message) {
	names := map[string]string{}
	var last []llm.ToolCall // of the last answer that called, in order
	next := 0
	for i := range messages {
		m := &messages[i]
		if len(m.ToolCalls) > 0 {
			last, next = m.ToolCalls, 0
		}
		for _, call := range m.ToolCalls {
			names[call.ID] = call.Name
		}
		if m.Role != "tool" {
			continue
		}
		switch {
		case m.ToolName != "":
		case m.ToolCallID != "":
			m.ToolName = names[m.ToolCallID]
		case next < len(last): // Continue sends results without any id, in the calls' order
			m.ToolName = last[next].Name
		}
		next++
	}
}
