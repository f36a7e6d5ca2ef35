package generate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"signalbox/backend/llm"
	"signalbox/backend/toolcall"
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
	out, err := t.prepare(req)
	switch {
	case errors.Is(err, openvino.ErrNUL):
		return llm.Prompt{}, llm.Errorf(llm.CodeInvalid, "the prompt contains a NUL character, which the tokenizer cannot take")
	case errors.Is(err, errControl):
		return llm.Prompt{}, llm.Errorf(llm.CodeInvalid, "%w", err)
	case err != nil:
		return llm.Prompt{}, engineError(err, "prepare the prompt for %s", req.Model.Name)
	case ctx.Err() != nil:
		return llm.Prompt{}, ctx.Err()
	case req.Limit > 0 && len(out.Tokens) > req.Limit:
		return llm.Prompt{}, llm.PromptTooLong(len(out.Tokens), req.Limit)
	}
	return out, nil
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
	size := len(req.Prompt) + len(req.Suffix) + len(req.Tools)
	for _, m := range req.Messages {
		size += len(m.Content)
	}
	if least := (size + t.longest - 1) / t.longest; least > req.Limit {
		return llm.PromptTooLong(least, req.Limit)
	}
	return nil
}

func (t *tokenizer) prepare(req llm.PrepareRequest) (llm.Prompt, error) {
	ids, text, err := t.written(req)
	if err != nil {
		return llm.Prompt{}, err
	}
	if len(req.Context) > 0 { // what came before ends where this begins: only the first text has a beginning token
		ids = slices.Concat(req.Context, trimPrefix(ids, t.before))
	}
	return llm.Prompt{Tokens: ids, Tail: tail(text)}, nil
}

// written makes the tokens of a request, and their text.
func (t *tokenizer) written(req llm.PrepareRequest) ([]int32, string, error) {
	if req.Suffix != "" {
		return t.fillInTheMiddle(req.Prompt, req.Suffix)
	}
	if req.Messages == nil {
		ids, err := t.encodeRaw(req.Prompt)
		return ids, req.Prompt, err
	}
	template := t.template
	if req.Template != "" {
		var err error
		if template, err = template.With(req.Template); err != nil {
			return nil, "", err
		}
	}
	segments, err := template.Render(prompt.Input{
		Messages: req.Messages, Tools: req.Tools, AddGenerationPrompt: true, Thinking: req.Thinking, Effort: req.Effort, Now: time.Now(),
	})
	if err != nil {
		return nil, "", err
	}
	ids, err := t.encode(segments)
	if err != nil {
		return nil, "", err
	}
	// The template writes the beginning token where the model wants one; without a template the tokenizer adds its own.
	if template.Source() == "" {
		ids = slices.Concat(t.before, ids)
	}
	text, _ := join(segments)
	return ids, text, nil
}

// fillInTheMiddle asks for what stands between two texts. Only the marks around them are special tokens.
func (t *tokenizer) fillInTheMiddle(before, after string) ([]int32, string, error) {
	const hole = "\x00" // no prompt has one
	// Some makers do not call these tokens special: any token with that text will do.
	known := func(token string) bool {
		return slices.ContainsFunc(t.raw, func(have []byte) bool { return string(have) == token })
	}
	form, ok := toolcall.FillInTheMiddle(hole, hole, known)
	if !ok {
		e := llm.Errorf(llm.CodeUnsupported, "this model cannot fill in the middle: its tokenizer has no tokens for that")
		e.Param = "suffix"
		return nil, "", e
	}
	if strings.Contains(before+after, hole) {
		return nil, "", openvino.ErrNUL
	}
	marks := strings.Split(form, hole)
	texts := []string{before, after}
	if strings.HasPrefix(form, "[SUFFIX]") {
		slices.Reverse(texts)
	}
	segments := []prompt.Segment{{Text: marks[0]}, {Text: texts[0], Literal: true}, {Text: marks[1]}, {Text: texts[1], Literal: true}, {Text: marks[2]}}
	ids, err := t.encode(segments)
	text, _ := join(segments)
	return slices.Concat(t.before, ids), text, err
}

// tail is the end of text.
func tail(text string) string {
	const most = 100
	return strings.ToValidUTF8(text[max(0, len(text)-most):], "")
}
