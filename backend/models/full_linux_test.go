package models_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/models"
	"signalbox/internal/disk"
	"signalbox/internal/testenv"
)

// The room that there was when the copy began is taken by something else meanwhile.
func TestAnImportOntoADiskThatFillsUpLeavesNothing(t *testing.T) {
	from := testenv.ChatModel(t)
	testenv.OnSmallDisk(t, 4<<20, func(t *testing.T, small testenv.SmallDisk) {
		l := models.Open(filepath.Join(small.Dir, "models"))
		l.SetSpace(func(string) (free, total int64, err error) { return 1 << 40, 1 << 40, nil })
		_, err := l.Import(t.Context(), from, "mine", false, func(int64, int64) {})
		require.True(t, disk.Full(err), "%v", err)
		assert.Empty(t, names(t, l))
		var left []string
		require.NoError(t, filepath.WalkDir(l.Own(), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Base(path) != ".lock" && filepath.Base(path) != ".library.json" {
				left = append(left, path)
			}
			return err
		}))
		assert.Empty(t, left)
		_, err = l.Import(t.Context(), from, "mine", true, func(int64, int64) {})
		require.NoError(t, err, "by reference it needs no room")
	})
}
