package downloads_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/downloads"
	"signalbox/backend/hub/hubtest"
	"signalbox/backend/models"
)

func TestAFullDiskIsSaidAndThePullGoesOnLater(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("this machine mounts no file systems: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(5_000_000))
	m := manager(dir, h.URL, downloads.Options{})
	_, err := pull(t.Context(), m, "qwen3")
	assert.ErrorContains(t, err, "the disk is full")
	assert.ErrorContains(t, err, "free some space and pull again")
	list := m.List()
	require.Len(t, list, 1)
	assert.Equal(t, downloads.Failed, list[0].State)
	assert.Greater(t, list[0].Completed, int64(500_000))
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=20m"))
	_, err = pull(t.Context(), m, "qwen3")
	require.NoError(t, err)
	_, err = models.Open(dir).Find("qwen3")
	assert.NoError(t, err)
}
