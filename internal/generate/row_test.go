package generate

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/testenv"
)

// An answer reads its logits after it gave the device away: another's inference must not change them. From inside, for from outside
// it depends on who is quicker.
func TestLogitsStayWhatTheyAreWhileOthersRun(t *testing.T) {
	ref := llm.ModelRef{Name: "smollm2:135m", Dir: testenv.ChatModel(t)}
	r := New(Options{Runtime: testenv.Runtime(t), Device: "CPU", SlotMemory: DefaultSlotMemory})
	defer r.Close()
	_, err := r.Load(context.Background(), llm.LoadRequest{Model: ref}, nil)
	require.NoError(t, err)
	c, _, done, err := r.chats.get(context.Background(), ref.Name, nil)
	require.NoError(t, err)
	defer done()
	require.NotNil(t, c.pages)

	first, err := c.newSlot()
	require.NoError(t, err)
	defer first.close()
	second, err := c.newSlot()
	require.NoError(t, err)
	defer second.close()
	row, err := first.feed(c, []int32{100, 200, 300})
	require.NoError(t, err)
	want := slices.Clone(row)
	other, err := second.feed(c, []int32{4000, 5000})
	require.NoError(t, err)
	assert.NotEqual(t, want, slices.Clone(other))
	assert.Equal(t, want, row)

	for range 3 { // what the same conversation covers is not kept again
		s, err := c.newSlot()
		require.NoError(t, err)
		_, err = s.feed(c, []int32{100, 200, 300})
		require.NoError(t, err)
		c.slots.keep(s, "somebody")
	}
	assert.Len(t, c.slots.idle, 1)
}
