package logs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/logs"
)

func TestNewestTenAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[logs]")
	require.NoError(t, os.Mkdir(dir, 0o700))
	other, err := logs.Keep(dir, "crash-gpu-1", "another's")
	require.NoError(t, err)
	var paths []string
	for i := range 13 {
		// Two within one tick of the clock would have one name.
		path, err := logs.Keep(dir, "crash-gpu", fmt.Sprint("text ", i))
		require.NoError(t, err)
		if len(paths) == 0 || paths[len(paths)-1] != path {
			paths = append(paths, path)
		}
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, min(10, len(paths))+1)
	text, err := os.ReadFile(paths[len(paths)-1])
	require.NoError(t, err)
	assert.Equal(t, "text 12", string(text))
	assert.True(t, strings.HasPrefix(filepath.Base(paths[0]), "crash-gpu-"))
	assert.FileExists(t, other)
	_, err = logs.Keep(filepath.Join(dir, "missing"), "crash", "text")
	assert.Error(t, err)
}
