package generate

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/openvino"
	"signalbox/internal/testenv"
)

// TestMemory looks at one model from inside: what it takes, and what it gives back.
func TestMemory(t *testing.T) {
	r := New(Options{Runtime: testenv.Runtime(t), Device: "CPU", SlotMemory: DefaultSlotMemory})
	defer r.Close()
	ref := llm.ModelRef{Name: "smollm2:135m", Dir: testenv.ChatModel(t)}
	_, err := r.Version() // the runtime is there
	require.NoError(t, err)
	before := residentBytes()
	loaded, err := r.Load(context.Background(), llm.LoadRequest{Model: ref}, nil)
	require.NoError(t, err)
	c, _, done, err := r.chats.get(context.Background(), ref.Name, nil)
	require.NoError(t, err)
	defer done()
	require.NotNil(t, c.pages)

	t.Run("is what the process takes", func(t *testing.T) { memoryOfTheProcess(t, r, c, ref, loaded, before) })
	t.Run("is given back when nobody needs it", func(t *testing.T) { memoryGivenBack(t, r, c, ref) })
	t.Run("is given back around what is kept", func(t *testing.T) { memoryAroundWhatIsKept(t, r, c) })
	t.Run("that is not there fails one answer", func(t *testing.T) { memoryMissing(t, r, c, ref) })
}

// forgetAll drops all that is kept, as when it is over the limit.
func forgetAll(c *chat) {
	c.slots.close()
	c.slots.closed = false
}

// ids are n tokens that begin with a word.
func ids(t *testing.T, c *chat, word string, n int) []int32 {
	t.Helper()
	tokens, err := c.tokenizer.encodeRaw(word + strings.Repeat(" The quick brown fox jumps over the lazy dog.", n/10+1))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(tokens), n)
	return tokens[:n]
}

func written(t *testing.T, r *Runner, ref llm.ModelRef, owner string, tokens []int32) (string, llm.Stats) {
	t.Helper()
	var text strings.Builder
	stats, err := r.Generate(context.Background(), llm.GenerateRequest{Model: ref, Tokens: tokens, MaxTokens: 6, Owner: owner},
		func(d llm.Delta) error { text.WriteString(d.Text); return nil })
	require.NoError(t, err)
	return text.String(), stats
}

// What is said of a model's memory is what the process has gained by it, with the conversations that are kept. Where the system does
// not tell, it is what is known without.
func memoryOfTheProcess(t *testing.T, r *Runner, c *chat, ref llm.ModelRef, loaded llm.Loaded, before int64) {
	assert.GreaterOrEqual(t, loaded.Bytes, fileSize(ref.Dir, "openvino_model.bin"))
	debug.FreeOSMemory() // what is given back, or used again, later would look like less memory of the model
	openvino.Trim()
	last, base := int64(0), r.memory.charge(c.name, c.least())
	for _, owner := range []string{"red", "blue", "green"} {
		_, stats := written(t, r, ref, owner, ids(t, c, owner, 1500))
		last = stats.Memory
	}
	assert.Greater(t, last, base+c.slots.bytes(c.slots.idle)/2, "kept conversations take memory")
	if now := residentBytes(); now != 0 {
		assert.InDelta(t, now-before, last, 20<<20)
	}
}

// A cache that a long prompt made large is as small as before when nobody needs it.
func memoryGivenBack(t *testing.T, r *Runner, c *chat, ref llm.ModelRef) {
	forgetAll(c)
	written(t, r, ref, "", ids(t, c, "red", 20))
	first := c.pages.size()
	want, _ := written(t, r, ref, "", ids(t, c, "red", 100))
	large, _ := written(t, r, ref, "kept", ids(t, c, "blue", 2000))
	grown, resident := c.pages.size(), residentBytes()
	require.Greater(t, grown, first+first/2)

	forgetAll(c)
	got, _ := written(t, r, ref, "", ids(t, c, "red", 100))
	assert.Equal(t, want, got)
	assert.Equal(t, first, c.pages.size())
	if resident != 0 {
		assert.Less(t, residentBytes(), resident-(grown-first)/2, "of %d bytes", grown-first)
	}
	got, _ = written(t, r, ref, "", ids(t, c, "blue", 2000))
	assert.Equal(t, large, got)
}

// What is kept is moved to where the cache stays, and computes what it would have computed.
func memoryAroundWhatIsKept(t *testing.T, r *Runner, c *chat) {
	forgetAll(c)
	require.NoError(t, r.turn.take(context.Background()))
	defer r.turn.give()
	feed := func(s *slot, tokens []int32) []float32 {
		row, err := s.feed(c, tokens)
		require.NoError(t, err)
		return slices.Clone(row)
	}
	open := func() *slot {
		s, err := c.newSlot()
		require.NoError(t, err)
		return s
	}
	prompt, next := ids(t, c, "red", 300), ids(t, c, "green", 40)
	low := open()
	feed(low, prompt)
	want := feed(low, next)

	large := open()
	feed(large, ids(t, c, "blue", 512))
	for range 4 {
		feed(large, ids(t, c, "blue", 512))
	}
	high := open()
	feed(high, prompt)
	shared, kept := high.cache.reuse(200)
	require.Equal(t, 192, kept)
	other := &slot{cache: shared}
	before := slices.Clone(high.cache.(*paged).blocks)
	large.close()
	require.NoError(t, c.pages.shrink())

	after := high.cache.(*paged).blocks
	assert.NotEqual(t, before, after)
	assert.Equal(t, after[:6], shared.(*paged).blocks, "shared blocks stay shared")
	assert.Less(t, int(slices.Max(after)), len(c.pages.users))
	assert.Less(t, len(c.pages.users), 50)
	assert.Equal(t, want, feed(high, next))
	feed(other, prompt[192:])
	assert.InDeltaSlice(t, want, feed(other, next), 0.5) // computed in other pieces
	for _, s := range []*slot{low, high, other} {
		s.close()
	}
	assert.Empty(t, c.pages.open)
	assert.Zero(t, c.pages.used())
}

// A cache that cannot grow fails the answer that needs more, and nothing else.
func memoryMissing(t *testing.T, r *Runner, c *chat, ref llm.ModelRef) {
	forgetAll(c)
	want, _ := written(t, r, ref, "red", ids(t, c, "red", 300))
	size := c.pages.size()

	make, made := c.pages.newTensor, 0
	c.pages.newTensor = func(typ openvino.ElementType, dims ...int64) (*openvino.Tensor, error) {
		if made++; made%20 == 0 { // in the midst of the layers
			return nil, errors.New("no memory")
		}
		return make(typ, dims...)
	}
	_, err := r.Generate(context.Background(), llm.GenerateRequest{Model: ref, Tokens: ids(t, c, "blue", 2000), MaxTokens: 6}, func(llm.Delta) error { return nil })
	assert.ErrorContains(t, err, "no memory")
	assert.Equal(t, 40, made, "it is tried with less, too")
	assert.Equal(t, size, c.pages.size())
	got, stats := written(t, r, ref, "red", ids(t, c, "red", 301))
	assert.Equal(t, 288, stats.CachedTokens)
	assert.NotEmpty(t, got)

	c.pages.newTensor = make
	again, _ := written(t, r, ref, "", ids(t, c, "red", 300))
	assert.Equal(t, want, again)
	_, stats = written(t, r, ref, "", ids(t, c, "blue", 2000))
	assert.Equal(t, 6, stats.CompletionTokens)
}
