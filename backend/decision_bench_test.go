package backend

import (
	"testing"

	"github.com/stretchr/testify/require"

	"signalbox/backend/dispatch"
	"signalbox/backend/llm"
	"signalbox/backend/models"
)

// found is a library that has found its model already.
type found struct{ model models.Model }

func (f found) Find(string) (models.Model, error) { return f.model, nil }

// BenchmarkDecision is what the whole program does for a decision apart from reading the disk and counting the prompt: ask engine,
// cards, memory, power and settings, apply the rules.
func BenchmarkDecision(b *testing.B) {
	backend, _ := start(b, b.TempDir())
	model, err := backend.library.Find("all-minilm") // an embedding has no prompt to count
	require.NoError(b, err)
	dispatcher := dispatch.New(found{model}, backend.engine, backend.journal, backend.policy)
	call := dispatch.Call{Request: llm.Request{Model: model.Name}, Client: "Zed"}
	_, err = dispatcher.Explain(b.Context(), call)
	require.NoError(b, err)
	for b.Loop() {
		_, _ = dispatcher.Explain(b.Context(), call)
	}
}
