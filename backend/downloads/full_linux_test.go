package downloads_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/downloads"
	"signalbox/backend/hub/hubtest"
	"signalbox/backend/models"
	"signalbox/internal/testenv"
)

func TestAFullDiskIsSaidAndThePullGoesOnLater(t *testing.T) {
	testenv.OnSmallDisk(t, 2<<20, func(t *testing.T, disk testenv.SmallDisk) {
		h := hubtest.New(t)
		h.Add(repo, hubtest.Small(5_000_000))
		m := manager(disk.Dir, h.URL, downloads.Options{})
		_, err := pull(t.Context(), m, "qwen3")
		assert.ErrorContains(t, err, "the disk is full")
		assert.ErrorContains(t, err, "free some space and pull again")
		list := m.List()
		require.Len(t, list, 1)
		assert.Equal(t, downloads.Failed, list[0].State)
		assert.Greater(t, list[0].Completed, int64(500_000))
		disk.Grow(t, 20<<20)
		_, err = pull(t.Context(), m, "qwen3")
		require.NoError(t, err)
		_, err = models.Open(disk.Dir).Find("qwen3")
		assert.NoError(t, err)
	})
}
