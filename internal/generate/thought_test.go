package generate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
)

func greedy() llm.Sampling {
	s := llm.DefaultSampling()
	s.Temperature = 0
	return s
}

func answerOf(t *testing.T, req llm.GenerateRequest) (string, llm.Stats) {
	var text strings.Builder
	req.Model, req.Sampling = model(t), greedy()
	stats, err := runner(t).Generate(context.Background(), req, func(d llm.Delta) error { text.WriteString(d.Text); return nil })
	require.NoError(t, err)
	return text.String(), stats
}

func TestThoughtsThatTakeTooLongAreEnded(t *testing.T) {
	tokens := prepare(t, runner(t), user("Tell me a long story about the sea."))
	free, _ := answerOf(t, llm.GenerateRequest{Tokens: tokens, MaxTokens: 40})
	for most, head := range map[int]int{0: 0, 5: 5} {
		got, stats := answerOf(t, llm.GenerateRequest{Tokens: tokens, MaxTokens: 40, Thought: &llm.Thought{
			Open: "<think>", Close: "</think>", End: "\n</think>\n\n", Opened: true, Most: most}})
		before, after, found := strings.Cut(got, "\n</think>\n\n")
		require.True(t, found, got)
		assert.True(t, strings.HasPrefix(free, before), "%q", before)
		assert.Equal(t, head == 0, before == "")
		assert.NotEmpty(t, after, "the answer goes on")
		assert.Greater(t, stats.CompletionTokens, most+3, "what was put in counts")
	}
	got, _ := answerOf(t, llm.GenerateRequest{Tokens: tokens, MaxTokens: 40, Thought: &llm.Thought{Open: "<think>", Close: "</think>", End: "</think>"}})
	assert.Equal(t, free, got, "nothing was thought")
}

func TestMarkersAreText(t *testing.T) {
	req := llm.GenerateRequest{Tokens: prepare(t, runner(t), user("Tell me a long story about the sea.")), MaxTokens: 60}
	req.Thought = &llm.Thought{Close: "</think>", End: "\n</think>\n\n", Opened: true} // with it, the answer is short
	plain, stats := answerOf(t, req)
	require.Equal(t, llm.FinishStop, stats.Finish)
	req.Markers = []string{"<|im_end|>"}
	got, _ := answerOf(t, req)
	assert.True(t, strings.HasPrefix(got, plain+"<|im_end|>"), "and end nothing: %q", got)
}

func TestContextStandsBeforeThePrompt(t *testing.T) {
	r := runner(t)
	whole := prepare(t, r, user("One."))
	p, err := r.Prepare(context.Background(), llm.PrepareRequest{Model: model(t), Messages: []llm.Message{user("One.")}, Context: []int32{5, 6}})
	require.NoError(t, err)
	assert.Equal(t, append([]int32{5, 6}, whole...), p.Tokens)
	assert.True(t, strings.HasSuffix(p.Tail, "<|im_start|>assistant\n"), p.Tail)
}

func TestModelsThatCannotFillInTheMiddleSaySo(t *testing.T) {
	_, err := runner(t).Prepare(context.Background(), llm.PrepareRequest{Model: model(t), Prompt: "def f(", Suffix: "return"})
	assert.Equal(t, llm.CodeUnsupported, llm.CodeOf(err))
}
