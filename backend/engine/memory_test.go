package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
)

// growing takes a thousand bytes for each answer.
type growing struct {
	llm.Runner
	answers int64
}

func (g *growing) Generate(ctx context.Context, req llm.GenerateRequest, emit func(llm.Delta) error) (llm.Stats, error) {
	stats, err := g.Runner.Generate(ctx, req, emit)
	g.answers++
	stats.Memory = 1<<20 + 1000*g.answers
	return stats, err
}

func TestSizeOfAModelFollowsItsAnswers(t *testing.T) {
	b := open(t, engine.Options{InProcess: func(d llm.Device) (llm.Runner, error) {
		runner, err := inProcess(d)
		return &growing{Runner: runner}, err
	}})
	_, _, err := b.Load(t.Context(), mock(0), chatModel("m"), nil, nil)
	require.NoError(t, err)
	size := func() int64 {
		loaded := b.Loaded()
		require.Len(t, loaded, 1)
		assert.EqualValues(t, 1<<20, loaded[0].Loaded.Bytes, "what it took when it had been loaded")
		return loaded[0].Bytes
	}
	assert.EqualValues(t, 1<<20, size())
	b.answers(0)
	assert.EqualValues(t, 1<<20+1000, size())
	refusing := job(0, "m", "hello")
	refusing.OnDelta = func(llm.Delta) error { return errors.New("enough") }
	_, err = b.run(t.Context(), refusing)
	require.ErrorContains(t, err, "enough")
	assert.EqualValues(t, 1<<20+2000, size(), "after one that was ended, too")
}
