package openvino_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/openvino"
	"signalbox/internal/testenv"
)

// The pass is called through the C++ class: it must be the one that the runtime for this system has. make test-wine runs this too.
func TestAttentionIsPaged(t *testing.T) {
	lib, c := core(t)
	require.NoError(t, lib.CanPageAttention())
	for range 3 { // what it frees is freed once
		m, err := c.ReadModel(filepath.Join(testenv.ChatModel(t), "openvino_model.xml"), "")
		require.NoError(t, err)
		require.NoError(t, m.PageAttention())
		compiled, err := c.Compile(m, "CPU", nil)
		m.Close()
		require.NoError(t, err)
		inputs, err := compiled.Inputs()
		compiled.Close()
		require.NoError(t, err)
		assert.Len(t, inputs, 7+2*30)
		assert.Contains(t, inputs, openvino.Port{Name: "input_ids", Type: openvino.I64, Dims: []int64{-1}})
		assert.Contains(t, inputs, openvino.Port{Name: "max_context_len", Type: openvino.I32, Dims: []int64{}})
		last := inputs[len(inputs)-1]
		assert.Contains(t, []string{"key_cache.29", "value_cache.29"}, last.Name)
		require.Len(t, last.Dims, 4)
		assert.Equal(t, []int64{-1, 3, 32}, last.Dims[:3], "any number of blocks, 3 heads, 32 tokens")
	}
	closed, err := c.ReadModel(filepath.Join(testenv.ChatModel(t), "openvino_model.xml"), "")
	require.NoError(t, err)
	closed.Close()
	assert.ErrorIs(t, closed.PageAttention(), openvino.ErrClosed)
}
