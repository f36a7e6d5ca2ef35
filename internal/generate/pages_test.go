package generate_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/generate"
	"signalbox/internal/openvino"
	"signalbox/internal/testenv"
)

// Both compute the same in another order. At full precision the probabilities agree.
func TestPagesGiveWhatStatesGive(t *testing.T) {
	full := openvino.Properties{"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
	open := func(states bool) *generate.Runner {
		r := generate.New(generate.Options{
			Runtime: testenv.Runtime(t), Device: "CPU", States: states, Properties: full, SlotMemory: generate.DefaultSlotMemory,
		})
		_, err := r.Load(context.Background(), llm.LoadRequest{Model: model(t)}, nil)
		require.NoError(t, err)
		return r
	}
	states, pages := open(true), open(false)
	defer states.Close()
	defer pages.Close()

	long := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 110)
	for name, messages := range map[string][]llm.Message{
		"short": {user(france)},
		"long":  {user(long + "What does the fox do?")},
		"turns": {user(long + "What does the fox do?"), assistant("It jumps."), user("And the dog?")},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(r *generate.Runner) (tokens []llm.TokenLogprob) {
				_, err := r.Generate(context.Background(), llm.GenerateRequest{
					Model: model(t), Tokens: prepare(t, pages, messages...), MaxTokens: 12, Logprobs: true,
				}, func(d llm.Delta) error { tokens = append(tokens, d.Logprobs...); return nil })
				require.NoError(t, err)
				return tokens
			}
			want, got := answer(states), answer(pages)
			require.NotEmpty(t, want)
			for i := range want {
				assert.Equal(t, want[i].Token, got[i].Token)
				assert.InDelta(t, want[i].Logprob, got[i].Logprob, 0.001)
			}
		})
	}
}

// A cache that grows, shrinks and is shared out again must not mix conversations up.
func TestPagesThatWereGivenBackServeOthers(t *testing.T) {
	r := generate.New(generate.Options{Runtime: testenv.Runtime(t), Device: "CPU", SlotMemory: 8 << 20})
	defer r.Close()
	_, err := r.Load(context.Background(), llm.LoadRequest{Model: model(t)}, nil)
	require.NoError(t, err)
	ask := func(owner string, n int) result {
		ids := prepare(t, r, user(strings.Repeat(owner+" ", n)+france))
		return run(t, r, llm.GenerateRequest{Tokens: ids, MaxTokens: 8, Owner: owner})
	}
	alone := map[string]result{}
	for _, owner := range []string{"red", "blue", "green"} {
		alone[owner] = ask(owner, 300)
		require.NoError(t, alone[owner].err)
	}
	// Each of these takes more than the limit, so that the ones before are thrown out.
	for range 3 {
		require.NoError(t, ask("black", 1500).err)
	}
	for owner, want := range alone {
		got := ask(owner, 300)
		require.NoError(t, got.err)
		assert.Equal(t, want.text, got.text)
	}
}

func TestConversationsThatBeginAlikeAllGoOn(t *testing.T) {
	r := runner(t)
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 30)
	ask := func(owner string, messages ...llm.Message) result {
		got := run(t, r, llm.GenerateRequest{Tokens: prepare(t, r, messages...), MaxTokens: 8, Owner: owner})
		require.NoError(t, got.err)
		return got
	}
	questions := []string{"What does the fox do?", "Which animals are there?", "What colour is the fox?"}
	answers := make([]string, len(questions))
	for i, q := range questions {
		got := ask("alike", user(text+q))
		answers[i] = got.text
		if i > 0 {
			assert.Greater(t, got.stats.CachedTokens, 280, "of what was said before, whole blocks")
		}
		assert.Equal(t, ask("", user(text+q)).text, got.text)
	}
	for i, q := range questions { // each has its own end
		got := ask("alike", user(text+q), assistant(answers[i]), user("Thank you."))
		assert.Greater(t, got.stats.CachedTokens, got.stats.PromptTokens-40)
	}
}

// The CPU plugin cannot read paged attention back from a cache, but would write it each time: neither the time nor the disk is spent.
func TestPagedModelsLeaveNothingInTheCache(t *testing.T) {
	cache := t.TempDir()
	r := generate.New(generate.Options{Runtime: testenv.Runtime(t), Device: "CPU", CacheDir: cache})
	defer r.Close()
	loaded, err := r.Load(context.Background(), llm.LoadRequest{Model: model(t)}, nil)
	require.NoError(t, err)
	assert.False(t, loaded.Cached)
	assert.Contains(t, sentence(t, r), "Paris")
	left, err := os.ReadDir(cache)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// On a CPU that computes in bf16 paged attention does not take this cache, on others it does: the model answers on both.
func TestModelThatDoesNotRunPagedRunsWithout(t *testing.T) {
	r := generate.New(generate.Options{
		Runtime: testenv.Runtime(t), Device: "CPU", Properties: openvino.Properties{"KV_CACHE_PRECISION": "f32"},
	})
	defer r.Close()
	_, err := r.Load(context.Background(), llm.LoadRequest{Model: model(t)}, nil)
	require.NoError(t, err)
	assert.Contains(t, sentence(t, r), "Paris")
}

func sentence(t testing.TB, r *generate.Runner) string {
	t.Helper()
	got := run(t, r, llm.GenerateRequest{Tokens: prepare(t, r, user(france)), MaxTokens: 16})
	require.NoError(t, got.err)
	return got.text
}
