package models

import (
	"encoding/json"
	"slices"

	"signalbox/backend/llm"
)

// Apply gives a request what a variant says where the request does not: system text, the conversation's beginning, template
// and parameters. Of other models nothing changes.
//
// A request does not say which of its sampling fields were sent, so one that was sent with the dialect's default counts as
// not sent.
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

func (m Model) sampled(req llm.Request) llm.Request {
	usual, s := llm.DefaultSampling(), &req.Sampling
	for _, p := range m.Defaults {
		switch p.Name {
		case "temperature":
			setNumber(&s.Temperature, usual.Temperature, p)
		case "top_k":
			setNumber(&s.TopK, usual.TopK, p)
		case "top_p":
			setNumber(&s.TopP, usual.TopP, p)
		case "min_p":
			setNumber(&s.MinP, usual.MinP, p)
		case "typical_p":
			setNumber(&s.TypicalP, usual.TypicalP, p)
		case "repeat_penalty":
			setNumber(&s.RepeatPenalty, usual.RepeatPenalty, p)
		case "repeat_last_n":
			setNumber(&s.RepeatLastN, usual.RepeatLastN, p)
		case "presence_penalty":
			setNumber(&s.PresencePenalty, usual.PresencePenalty, p)
		case "frequency_penalty":
			setNumber(&s.FrequencyPenalty, usual.FrequencyPenalty, p)
		case "num_predict":
			setNumber(&req.MaxTokens, 0, p)
			req.MaxTokens = max(req.MaxTokens, 0)
		case "num_ctx":
			setNumber(&req.ContextLimit, 0, p)
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

// setNumber takes a parameter where the request has the usual value.
func setNumber[T int | float64](to *T, usual T, p Parameter) {
	var v T
	if *to == usual && json.Unmarshal(p.Value, &v) == nil {
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
