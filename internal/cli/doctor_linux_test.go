package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/testenv"
)

func TestDoctorTriesToWriteWhereSignalboxWill(t *testing.T) {
	home := t.TempDir()
	found := space(home, filepath.Join(home, "models", "later"))
	require.Len(t, found, 1, "one disk is told once")
	assert.Contains(t, found[0].Says, " are free for "+home)
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	assert.Empty(t, entries, "looking makes nothing")

	found = space("/sys/kernel/signalbox", "/sys/kernel/signalbox/models") // nobody can write there, not even root
	require.Len(t, found, 1)
	assert.False(t, found[0].OK)
	assert.Contains(t, found[0].Says, "Nothing can be written into /sys/kernel: ")
	assert.Contains(t, found[0].Do, "SIGNALBOX_HOME")
}

func TestDoctorTellsDisksOfOneSizeApart(t *testing.T) {
	testenv.OnSmallDisk(t, 1<<20, func(t *testing.T, one testenv.SmallDisk) {
		testenv.OnSmallDisk(t, 1<<20, func(t *testing.T, other testenv.SmallDisk) {
			found := space(one.Dir, other.Dir, filepath.Join(other.Dir, "models"))
			require.Len(t, found, 2)
			assert.Contains(t, found[0].Says, one.Dir+": too little to keep settings")
			assert.Contains(t, found[1].Says, other.Dir+": too little to keep settings")
		})
	})
}
