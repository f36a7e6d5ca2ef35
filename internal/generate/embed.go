package generate

import (
	"context"

	"signalbox/backend/llm"
)

type embedder struct{}

func (e *embedder) close() {}

func (r *Runner) loadEmbedder(ctx context.Context, req llm.LoadRequest, progress func(llm.Phase)) (llm.Loaded, error) {
	return llm.Loaded{}, llm.Errorf(llm.CodeUnsupported, "not yet")
}

// Embed implements llm.Runner.
func (r *Runner) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embedded, error) {
	return llm.Embedded{}, llm.Errorf(llm.CodeUnsupported, "not yet")
}
