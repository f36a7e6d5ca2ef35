package models_test

import (
	"bytes"
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

func TestWhatIsHalfFetchedTakesNoMoreRoomWhereItIsMovedTo(t *testing.T) {
	l, to := models.Open(t.TempDir()), filepath.Join(t.TempDir(), "new")
	name := filepath.Join(models.PartialDir, "m-x", "files", "openvino_model.bin.partial")
	require.NoError(t, os.MkdirAll(filepath.Join(l.Own(), filepath.Dir(name)), 0o700))
	f, err := os.Create(filepath.Join(l.Own(), name))
	require.NoError(t, err)
	for _, at := range []int64{0, 20<<20 - 3} { // what two ranges brought, and nothing after them
		_, err = f.WriteAt([]byte("weights"), at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Truncate(50<<20))
	require.NoError(t, f.Close())
	want, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	before, err := l.Usage()
	require.NoError(t, err)
	require.NoError(t, l.Move(t.Context(), to, func(int64, int64) {}, func(to string) error { l.Reopen(to); return nil }))
	got, err := os.ReadFile(filepath.Join(to, name))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
	usage, err := l.Usage()
	require.NoError(t, err)
	assert.Less(t, usage.Partial, before.Partial+8<<20)
}
