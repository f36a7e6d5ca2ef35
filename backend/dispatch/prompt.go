package dispatch

import (
	"context"
	"errors"

	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/router"
)

// prepare asks the engine for a prompt's tokens. They depend on no device, so that an engine process which was ended meanwhile,
// and did not crash over them, is no reason to refuse the request.
func (d *Dispatcher) prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	prompt, err := d.engine.Prepare(ctx, req)
	if blameless(err) && ctx.Err() == nil {
		prompt, err = d.engine.Prepare(ctx, req)
	}
	return prompt, err
}

// context is the tokens of prompt and answer together. Without them the answer is whole all the same, so a fault gives none.
func (t *trip) context(ctx context.Context) []int32 {
	together, err := t.d.prepare(ctx, llm.PrepareRequest{Model: t.model, Prompt: t.said.String(), Context: t.prompt.Tokens})
	if err != nil {
		return nil
	}
	return together.Tokens
}

// prepareRequest is what a request's prompt is made from. Generate and Count share it, so that their counts are equal.
func prepareRequest(model models.Model, req llm.Request) llm.PrepareRequest {
	return newForm(model, req, "").prepared
}

// promptLimit is the most that any device could take: 0 when that is not known. With it the engine refuses megabytes of text by
// their size, before a template or a tokenizer sees them.
func promptLimit(model models.Model, req llm.Request) int {
	window := model.ContextLength
	if asked := req.ContextLimit; asked > 0 && (window == 0 || asked < window) {
		return max(1, asked-1)
	}
	return max(0, window-1) // one token of answer
}

// answerLimit is the most tokens of answer that the request allows behind a prompt: prompt and answer share the caller's num_ctx.
// 0: it says nothing.
func answerLimit(req llm.Request, promptTokens int) int {
	limit := req.MaxTokens
	if req.ContextLimit > 0 {
		if room := max(1, req.ContextLimit-promptTokens); limit == 0 || room < limit {
			return room
		}
	}
	return limit
}

// tooLong completes the refusal of a prompt above promptLimit; other errors stay as they are.
func (t *trip) tooLong(err error) error {
	e := nameLimit(err, t.call.Request)
	if e == nil {
		return err
	}
	t.set(func(r *llm.Record) {
		r.PromptTokens, r.RouteRule, r.RouteReason = &e.Value, router.RulePromptLimit, e.Error()
	})
	return e
}

// nameLimit says in the refusal of a long prompt whose limit it was. It is nil for other errors.
func nameLimit(err error, req llm.Request) *llm.Error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Code != llm.CodeContextLength {
		return nil
	}
	if asked := req.ContextLimit; asked > 0 && e.Limit == max(1, asked-1) {
		e.Param = "num_ctx"
		_ = e.WithHint("the request's num_ctx is %d, for prompt and answer together: raise it or shorten the prompt", asked)
	}
	return e
}

// conversation is the messages to render: those of a chat, or a plain prompt as one user turn.
func conversation(req llm.Request) []llm.Message {
	if len(req.Messages) > 0 {
		return req.Messages
	}
	var messages []llm.Message
	if req.System != "" {
		messages = append(messages, llm.Message{Role: "system", Content: req.System})
	}
	return append(messages, llm.Message{Role: "user", Content: req.Prompt})
}
