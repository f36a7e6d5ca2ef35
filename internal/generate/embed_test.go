package generate_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/generate"
	"signalbox/internal/openvino"
	"signalbox/internal/testenv"
)

func minilm(t testing.TB) llm.ModelRef {
	return llm.ModelRef{Name: "all-minilm", Dir: testenv.EmbedModel(t)}
}

var loadEmbedder sync.Once

func embed(t testing.TB, req llm.EmbedRequest) (llm.Embedded, error) {
	t.Helper()
	r := runner(t)
	loadEmbedder.Do(func() {
		loaded, err := r.Load(context.Background(), llm.LoadRequest{Model: minilm(t), Embedding: true}, nil)
		require.NoError(t, err)
		assert.Equal(t, 256, loaded.ContextLimit)
	})
	req.Model = minilm(t)
	return r.Embed(context.Background(), req)
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestLikeTextsHaveLikeVectors(t *testing.T) {
	got, err := embed(t, llm.EmbedRequest{Inputs: []string{"A man is eating food.", "A man eats something.", "The stock market fell."}})
	require.NoError(t, err)
	require.Len(t, got.Vectors, 3)
	for _, v := range got.Vectors {
		require.Len(t, v, 384)
		assert.InDelta(t, 1, math.Sqrt(dot(v, v)), 1e-4)
	}
	near, far := dot(got.Vectors[0], got.Vectors[1]), dot(got.Vectors[0], got.Vectors[2])
	assert.Greater(t, near, 0.6)
	assert.Less(t, far, 0.3)
	assert.Positive(t, got.Tokens)
}

func TestEmbeddersAreCompiledWithTheGivenProperties(t *testing.T) {
	r := generate.New(generate.Options{Runtime: testenv.Runtime(t), Device: "CPU", Properties: openvino.Properties{"NUM_STREAMS": "many"}})
	defer r.Close()
	_, err := r.Load(context.Background(), llm.LoadRequest{Model: minilm(t), Embedding: true}, nil)
	assert.Equal(t, llm.CodeEngine, llm.CodeOf(err))
	assert.ErrorContains(t, err, "number of streams")
}

func TestBatchesKeepTheOrder(t *testing.T) {
	var inputs []string
	for i := range 90 {
		inputs = append(inputs, strings.Repeat("word ", i%40+1)+"end")
	}
	all, err := embed(t, llm.EmbedRequest{Inputs: inputs})
	require.NoError(t, err)
	require.Len(t, all.Vectors, len(inputs))
	for _, i := range []int{0, 39, 40, 77} {
		one, err := embed(t, llm.EmbedRequest{Inputs: inputs[i : i+1]})
		require.NoError(t, err)
		assert.Greater(t, dot(one.Vectors[0], all.Vectors[i]), 0.98, "padding must not count")
	}
}

func TestLongTextsAreCutOnlyWhenAllowed(t *testing.T) {
	long := strings.Repeat("word ", 300)
	_, err := embed(t, llm.EmbedRequest{Inputs: []string{"short", long}})
	assert.Equal(t, llm.CodeContextLength, llm.CodeOf(err))
	got, err := embed(t, llm.EmbedRequest{Inputs: []string{"short", long, strings.Repeat("x ", 1<<20)}, Truncate: true})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2}, got.Truncated)
	assert.Equal(t, 256+256+3, got.Tokens)
	_, err = embed(t, llm.EmbedRequest{Inputs: []string{strings.Repeat("x ", 1<<20)}})
	assert.Equal(t, llm.CodeContextLength, llm.CodeOf(err))
}

func TestDimensionsAndRaw(t *testing.T) {
	got, err := embed(t, llm.EmbedRequest{Inputs: []string{"hello"}, Dimensions: 64})
	require.NoError(t, err)
	require.Len(t, got.Vectors[0], 64)
	assert.InDelta(t, 1, dot(got.Vectors[0], got.Vectors[0]), 1e-4)
	raw, err := embed(t, llm.EmbedRequest{Inputs: []string{"hello"}, Raw: true})
	require.NoError(t, err)
	assert.Greater(t, math.Abs(dot(raw.Vectors[0], raw.Vectors[0])-1), 1e-2)
	for _, d := range []int{-1, 385} {
		_, err = embed(t, llm.EmbedRequest{Inputs: []string{"hello"}, Dimensions: d})
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
	}
	_, err = embed(t, llm.EmbedRequest{Inputs: []string{"a\x00b"}})
	assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
	none, err := embed(t, llm.EmbedRequest{})
	require.NoError(t, err)
	assert.Empty(t, none.Vectors)
	empty, err := embed(t, llm.EmbedRequest{Inputs: []string{""}})
	require.NoError(t, err)
	require.Len(t, empty.Vectors, 1)
}
