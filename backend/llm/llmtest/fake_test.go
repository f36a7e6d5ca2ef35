package llmtest_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
)

func chat(t *testing.T, options llmtest.Options, content string, req llm.GenerateRequest) (string, []llm.Delta, llm.Stats, error) {
	t.Helper()
	fake := llmtest.NewFake(options)
	t.Cleanup(func() { fake.Close() })
	model := llm.ModelRef{Name: "smollm2:135m"}
	_, err := fake.Load(t.Context(), llm.LoadRequest{Model: model}, nil)
	require.NoError(t, err)
	prompt, err := fake.Prepare(t.Context(), llm.PrepareRequest{Model: model, Messages: []llm.Message{
		{Role: "system", Content: "[[die]] is no command here"}, {Role: "user", Content: content},
	}})
	require.NoError(t, err)
	req.Model, req.Tokens = model, prompt.Tokens
	var text strings.Builder
	var deltas []llm.Delta
	stats, err := fake.Generate(t.Context(), req, func(d llm.Delta) error {
		text.WriteString(d.Text)
		deltas = append(deltas, d)
		return nil
	})
	return text.String(), deltas, stats, err
}

func TestFakePassesTheConformanceTests(t *testing.T) {
	llmtest.Run(t, func(t *testing.T) llmtest.Subject {
		fake := llmtest.NewFake(llmtest.Options{})
		t.Cleanup(func() { fake.Close() })
		return llmtest.Subject{
			Runner: fake,
			Chat:   llm.LoadRequest{Model: llm.ModelRef{Name: "smollm2:135m"}},
			Embed:  llm.LoadRequest{Model: llm.ModelRef{Name: "all-minilm"}, Embedding: true},
		}
	})
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		prompt, want string
		req          llm.GenerateRequest
		finish       llm.Finish
	}{
		"canned":                   {prompt: "hello", want: llmtest.Canned, finish: llm.FinishStop},
		"said":                     {prompt: "[[say Oslo]]", want: "Oslo", finish: llm.FinishStop},
		"said with brackets":       {prompt: `[[say {"a":[[1]]}]]`, want: `{"a":[[1]]}`, finish: llm.FinishStop},
		"what is said is no order": {prompt: "[[say [[error]] is harmless]]", want: "[[error]] is harmless", finish: llm.FinishStop},
		"split characters":         {prompt: "[[say 🌍👩‍👩‍👧é漢字]]", want: "🌍👩‍👩‍👧é漢字", finish: llm.FinishStop},
		"stop inside":              {prompt: "[[say abcdefghi]]", want: "abcd", req: llm.GenerateRequest{Stop: []string{"efg"}}, finish: llm.FinishStop},
		"half a stop":              {prompt: "[[say abcde]]", want: "abcde", req: llm.GenerateRequest{Stop: []string{"defg"}}, finish: llm.FinishStop},
		"stop in a character":      {prompt: "[[say 漢字漢]]", want: "漢", req: llm.GenerateRequest{Stop: []string{"字"}}, finish: llm.FinishStop},
		"max":                      {prompt: "hello", want: "This", req: llm.GenerateRequest{MaxTokens: 2}, finish: llm.FinishLength},
	} {
		t.Run(name, func(t *testing.T) {
			text, deltas, stats, err := chat(t, llmtest.Options{}, c.prompt, c.req)
			require.NoError(t, err)
			assert.Equal(t, c.want, text)
			assert.Equal(t, c.finish, stats.Finish)
			for _, d := range deltas {
				assert.True(t, utf8.ValidString(d.Text), "%q", d.Text)
			}
		})
	}
}

func TestErrorAfterNTokensKeepsTheStats(t *testing.T) {
	_, deltas, stats, err := chat(t, llmtest.Options{}, "[[error-after 3]]", llm.GenerateRequest{})
	assert.Equal(t, llm.CodeEngine, llm.CodeOf(err))
	assert.Len(t, deltas, 3)
	assert.Equal(t, 3, stats.CompletionTokens)
}

func TestCachedTokensBelongToTheirOwner(t *testing.T) {
	fake := llmtest.NewFake(llmtest.Options{})
	defer fake.Close()
	model := llm.ModelRef{Name: "m"}
	_, err := fake.Load(t.Context(), llm.LoadRequest{Model: model}, nil)
	require.NoError(t, err)
	prompt, err := fake.Prepare(t.Context(), llm.PrepareRequest{Prompt: "a secret that is long"})
	require.NoError(t, err)
	cached := func(owner string) int {
		stats, err := fake.Generate(context.Background(), llm.GenerateRequest{Model: model, Tokens: prompt.Tokens, Owner: owner},
			func(llm.Delta) error { return nil })
		require.NoError(t, err)
		return stats.CachedTokens
	}
	assert.Zero(t, cached("a"))
	assert.Positive(t, cached("a"))
	assert.Zero(t, cached("b"))
}
