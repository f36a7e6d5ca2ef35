package generate_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/generate"
	"signalbox/internal/testenv"
)

// The NPU plugin's own pipeline, with the CPU standing in for the hardware: slow, but the real code. One load for all tests.
func TestNPUPipeline(t *testing.T) {
	r := generate.New(generate.Options{Runtime: testenv.Runtime(t), Device: "NPU", Emulate: true, SlotMemory: generate.DefaultSlotMemory})
	ctx := context.Background()
	var phases []string
	loaded, err := r.Load(ctx, llm.LoadRequest{Model: model(t), PromptLimit: 256, Reserve: 64},
		func(p llm.Phase) { phases = append(phases, p.Name) })
	require.NoError(t, err)
	assert.Contains(t, phases, "compiling for NPU")
	assert.Equal(t, 256, loaded.PromptLimit)
	t.Log(loaded)

	t.Run("answers as the CPU does", func(t *testing.T) {
		ids := prepare(t, r, user(france))
		npu := run(t, r, llm.GenerateRequest{Tokens: ids, MaxTokens: 12})
		require.NoError(t, npu.err)
		cpu := run(t, runner(t), llm.GenerateRequest{Tokens: ids, MaxTokens: 12})
		assert.Equal(t, cpu.text, npu.text)
		t.Log(npu)
	})
	t.Run("one answer at a time", func(t *testing.T) {
		questions := []string{"Why is the sky blue?", "Count from one to ten."}
		var alone, together [2]result
		for i, q := range questions {
			alone[i] = run(t, r, llm.GenerateRequest{Tokens: prepare(t, r, user(q)), MaxTokens: 6, Owner: q})
		}
		var all sync.WaitGroup
		for i, q := range questions {
			all.Go(func() {
				together[i] = run(t, r, llm.GenerateRequest{Tokens: prepare(t, r, user(q)), MaxTokens: 6, Owner: q})
			})
		}
		all.Wait()
		for i := range questions {
			require.NoError(t, together[i].err)
			assert.Equal(t, alone[i].text, together[i].text)
		}
	})
	t.Run("full to the last token", func(t *testing.T) {
		ids := prepare(t, r, user(strings.Repeat("word ", 220)))
		require.Less(t, len(ids), 257)
		for len(ids) < 256 {
			ids = append(ids, ids[len(ids)-1])
		}
		got := run(t, r, llm.GenerateRequest{Tokens: ids, IgnoreEOS: true})
		require.NoError(t, got.err)
		assert.Equal(t, llm.FinishLength, got.stats.Finish)
		assert.Equal(t, loaded.ContextLimit, got.stats.PromptTokens+got.stats.CompletionTokens)
		t.Log(got.stats)

		got = run(t, r, llm.GenerateRequest{Tokens: append(ids, ids[0])})
		assert.Equal(t, llm.CodeContextLength, llm.CodeOf(got.err))
		again := run(t, r, llm.GenerateRequest{Tokens: prepare(t, r, user(france)), MaxTokens: 4})
		require.NoError(t, again.err)
		assert.NotEmpty(t, again.text)
	})
}
