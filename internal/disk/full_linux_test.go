package disk_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/disk"
)

func TestAFullDiskIsKnown(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	_, err = full.Write([]byte("x"))
	assert.True(t, disk.Full(err), "%v", err)
}
