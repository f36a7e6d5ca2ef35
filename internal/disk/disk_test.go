package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/disk"
)

func TestWriteReplacesAndLeavesNothingBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "settings.json")
	for _, text := range []string{"one", "", "three, which is longer"} {
		require.NoError(t, disk.Write(path, []byte(text)))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, text, string(got))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode())
		require.NoError(t, disk.WriteMode(path, nil, 0o644))
		info, err = os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o644), info.Mode())
	}
}

func TestAFailureLeavesTheOldFileAndNamesIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	require.NoError(t, os.Mkdir(path, 0o700)) // a folder where the file should be
	require.NoError(t, os.WriteFile(filepath.Join(path, "inside"), nil, 0o600))
	err := disk.Write(path, []byte("x"))
	require.Error(t, err)
	assert.True(t, strings.HasPrefix(err.Error(), "write "+path+": "), err.Error())
	assert.NotContains(t, err.Error(), ".taken-", "the temporary file is nobody's business")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	err = disk.Write(filepath.Join(dir, "none", "file"), nil)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestReadersSeeAWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	whole := map[string]bool{strings.Repeat("a", 1<<16): true, strings.Repeat("b", 1<<16): true}
	require.NoError(t, disk.Write(path, []byte(strings.Repeat("a", 1<<16))))
	var writers sync.WaitGroup
	for text := range whole {
		writers.Go(func() {
			for range 20 {
				assert.NoError(t, disk.Write(path, []byte(text)))
			}
		})
	}
	for range 200 {
		var text []byte
		require.NoError(t, disk.Patiently(func() (err error) {
			text, err = os.ReadFile(path)
			return err
		}))
		assert.True(t, whole[string(text)])
	}
	writers.Wait()
}

func TestOtherErrorsAreNoFullDisk(t *testing.T) {
	assert.False(t, disk.Full(nil))
	assert.False(t, disk.Full(fs.ErrPermission))
	assert.False(t, disk.Full(errors.New("no space left on device")))
}
