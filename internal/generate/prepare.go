package generate

import (
	"context"
	"errors"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/generate/prompt"
	"signalbox/internal/openvino"
)

// Prepare implements llm.Runner.
func (r *Runner) Prepare(ctx context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	t, done, err := r.tokenizer(ctx, req.Model)
	if err != nil {
		return llm.Prompt{}, err
	}
	defer done()
	if err := t.mayFit(req); err != nil {
		return llm.Prompt{}, err
	}
	ids, err := t.prepare(req)
	switch {
	case errors.Is(err, openvino.ErrNUL):
		return llm.Prompt{}, llm.Errorf(llm.CodeInvalid, "the prompt contains a NUL character, which the tokenizer cannot take")
	case errors.Is(err, errControl):
		return llm.Prompt{}, llm.Errorf(llm.CodeInvalid, "%w", err)
	case err != nil:
		return llm.Prompt{}, engineError(err, "prepare the prompt for %s", req.Model.Name)
	case ctx.Err() != nil:
		return llm.Prompt{}, ctx.Err()
	case req.Limit > 0 && len(ids) > req.Limit:
		return llm.Prompt{}, llm.PromptTooLong(len(ids), req.Limit)
	}
	return llm.Prompt{Tokens: ids}, nil
}

// tokenizer returns the model's tokenizer, loading it when it is not there yet.
func (r *Runner) tokenizer(ctx context.Context, model llm.ModelRef) (*tokenizer, func(), error) {
	if err := checkFolder(model, "openvino_tokenizer.xml", "openvino_detokenizer.xml"); err != nil {
		return nil, nil, err
	}
	t, _, done, err := r.tokenizers.get(ctx, model.Name, func() (*tokenizer, error) {
		core, err := r.native()
		if err != nil {
			return nil, err
		}
		t, err := openTokenizer(core, model.Dir, true)
		if err != nil {
			return nil, engineError(err, "load the tokenizer of %s", model.Name)
		}
		return t, nil
	})
	return t, done, err
}

// mayFit refuses from the bytes alone what cannot fit: every token stands for at most as many bytes as the longest one.
func (t *tokenizer) mayFit(req llm.PrepareRequest) error {
	if req.Limit <= 0 {
		return nil
	}
	size := len(req.Prompt) + len(req.Tools)
	for _, m := range req.Messages {
		size += len(m.Content)
	}
	if least := (size + t.longest - 1) / t.longest; least > req.Limit {
		return llm.PromptTooLong(least, req.Limit)
	}
	return nil
}

func (t *tokenizer) prepare(req llm.PrepareRequest) ([]int32, error) {
	if req.Messages == nil {
		return t.encodeRaw(req.Prompt)
	}
	segments, err := t.template.Render(prompt.Input{
		Messages: req.Messages, Tools: req.Tools, AddGenerationPrompt: true, Now: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	ids, err := t.encode(segments)
	if err != nil {
		return nil, err
	}
	// The template writes the beginning token where the model wants one; without a template the tokenizer adds its own.
	if t.template.Source() == "" {
		ids = append(append([]int32(nil), t.before...), ids...)
	}
	return ids, nil
}
