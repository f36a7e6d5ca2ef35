package models

import (
	"encoding/json"
	"slices"

	"signalbox/backend/llm"
)

// Apply gives a request what a variant says where the request does not: system text, the conversation's beginning, template
// and parameters. Of other models nothing changes.
func (m Model) Apply(req llm.Request) llm.Request {
	if m.Parent == "" || req.Raw {
		return m.sampled(req)
	}
	if req.Template == "" {
		req.Template = m.Override
	}
	if len(req.Messages) == 0 {
		if req.System == "" {
			req.System = m.System
		}
		if len(m.Messages) == 0 || req.Suffix != "" || len(req.Context) > 0 {
			return m.sampled(req)
		}
		req.Messages = []llm.Message{{Role: "user", Content: req.Prompt}}
		if req.System != "" {
			req.Messages = slices.Insert(req.Messages, 0, llm.Message{Role: "system", Content: req.System})
		}
	}
	begin := slices.Clone(m.Messages)
	at := slices.IndexFunc(req.Messages, func(msg llm.Message) bool { return msg.Role != "system" })
	if at < 0 {
		at = len(req.Messages)
	}
	messages := slices.Insert(slices.Clone(req.Messages), at, begin...)
	if m.System != "" && !slices.ContainsFunc(req.Messages, func(msg llm.Message) bool { return msg.Role == "system" }) {
		messages = slices.Insert(messages, 0, llm.Message{Role: "system", Content: m.System})
	}
	req.Messages = messages
	return m.sampled(req)
}

// sampled fills in what the request does not say: the maker's defaults, and a variant's over them.
func (m Model) sampled(req llm.Request) llm.Request {
	s := &req.Sampling
	for _, p := range m.Parameters {
		if slices.Contains(req.Sent, p.Name) {
			continue
		}
		switch p.Name {
		case "temperature":
			setNumber(&s.Temperature, p)
		case "top_k":
			setNumber(&s.TopK, p)
		case "top_p":
			setNumber(&s.TopP, p)
		case "min_p":
			setNumber(&s.MinP, p)
		case "typical_p":
			setNumber(&s.TypicalP, p)
		case "repeat_penalty":
			setNumber(&s.RepeatPenalty, p)
		case "repeat_last_n":
			setNumber(&s.RepeatLastN, p)
		case "presence_penalty":
			setNumber(&s.PresencePenalty, p)
		case "frequency_penalty":
			setNumber(&s.FrequencyPenalty, p)
		case "num_predict":
			if req.MaxTokens == 0 {
				setNumber(&req.MaxTokens, p)
				req.MaxTokens = max(req.MaxTokens, 0)
			}
		case "num_ctx":
			setNumber(&req.ContextLimit, p)
		case "seed":
			var seed int64
			if s.Seed == nil && json.Unmarshal(p.Value, &seed) == nil {
				s.Seed = &seed
			}
		case "stop":
			if len(req.Stop) == 0 {
				req.Stop = texts(p.Value)
			}
		}
	}
	return req
}

func setNumber[T int | float64](to *T, p Parameter) {
	var v T
	if json.Unmarshal(p.Value, &v) == nil {
		*to = v
	}
}

// texts reads a string or a list of them.
func texts(raw json.RawMessage) (list []string) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	_ = json.Unmarshal(raw, &list) // what is neither is nothing
	return list
}
