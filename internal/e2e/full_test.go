//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/disk"
	"signalbox/internal/testenv"
)

// TestAFullDiskIsSaidWhereItMatters has no byte left for what people ask to be kept.
func TestAFullDiskIsSaidWhereItMatters(t *testing.T) {
	testenv.OnSmallDisk(t, 2<<20, func(t *testing.T, small testenv.SmallDisk) { fullWhereItMatters(t, small.Dir) })
}

func fullWhereItMatters(t *testing.T, home string) {
	t.Helper()
	s := Start(t, []string{"SIGNALBOX_HOME=" + home}, "--engine", "fake")
	t.Cleanup(s.Stop) // before the file system goes
	filler, err := os.Create(filepath.Join(home, "filler"))
	require.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	require.True(t, disk.Full(err), "%v", err)
	filler.Close()

	resp, text := s.Post("/api/copy", map[string]string{"source": model, "destination": "mine"})
	assert.Equal(t, 507, resp.StatusCode)
	assert.Contains(t, text, "the disk is full: ")
	assert.NoDirExists(t, filepath.Join(home, "models", "mine"), "a folder without a model in it")

	window := func(method, path string, body any) (int, string) {
		payload, _ := json.Marshal(body)
		req, err := http.NewRequest(method, s.UI+path, bytes.NewReader(payload))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.Token)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		said, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return resp.StatusCode, string(said)
	}
	status, text := window("PUT", "/ui/settings", map[string]any{"theme": "dark"})
	assert.Equal(t, 507, status)
	assert.Contains(t, text, "the disk is full: save the settings: ")
	status, text = window("POST", "/desktop/import", map[string]any{"path": testenv.ChatModel(t), "name": "mine"})
	assert.Equal(t, 507, status)
	assert.Contains(t, text, "there is not enough space: ")
	assert.NoDirExists(t, filepath.Join(home, "models", "mine"))

	doctor := exec.Command(Binary(t), "doctor")
	doctor.Env = append(os.Environ(), "SIGNALBOX_HOME="+home)
	said, _ := doctor.Output()
	assert.Regexp(t, `(?m)^FAIL  disk     \S+ \S?B of .* are free for `+home+`: too little to keep settings, records and chats\.$`, string(said))

	require.NoError(t, os.Remove(filepath.Join(home, "instance.json")))
	require.NoError(t, os.Remove(filler.Name()))
	Eventually(t, patience, "others find it again", func() bool {
		_, err := os.Stat(filepath.Join(home, "instance.json"))
		return err == nil
	})
	resp, text = s.Post("/api/copy", map[string]string{"source": model, "destination": "mine"})
	assert.Equal(t, 200, resp.StatusCode, text)
}
