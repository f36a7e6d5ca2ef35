package generate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/generate"
	"signalbox/internal/testenv"
)

// The probabilities are compared too, to the last digit.
func TestOurMaskGivesWhatTheModelsOwnGives(t *testing.T) {
	own := generate.New(generate.Options{Runtime: testenv.Runtime(t), Device: "CPU", OwnMask: true, SlotMemory: generate.DefaultSlotMemory})
	defer own.Close()
	_, err := own.Load(context.Background(), llm.LoadRequest{Model: model(t)}, nil)
	require.NoError(t, err)
	ours := runner(t)

	long := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 110) // more than one row of 1,024
	turns := [][]llm.Message{
		{user(france)},
		{user(long + "What does the fox do?")},
		{user(long + "What does the fox do?"), assistant("It jumps."), user("And the dog?")},             // goes on
		{user(long + "What does the fox do?"), assistant("It jumps."), user("Which animals are there?")}, // drops a tail
	}
	answer := func(r *generate.Runner, messages []llm.Message) (tokens []llm.TokenLogprob, cached int) {
		stats, err := r.Generate(context.Background(), llm.GenerateRequest{
			Model: model(t), Tokens: prepare(t, ours, messages...), MaxTokens: 12, Owner: "mask", Logprobs: true,
		}, func(d llm.Delta) error { tokens = append(tokens, d.Logprobs...); return nil })
		require.NoError(t, err)
		return tokens, stats.CachedTokens
	}
	for _, messages := range turns {
		want, cached := answer(own, messages)
		got, alsoCached := answer(ours, messages)
		if cached == alsoCached { // the pace decides, and both paces were measured
			assert.Equal(t, want, got)
		}
	}
}
