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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/disk"
)

// TestAFullDiskIsSaidWhereItMatters has no byte left for what people ask to be kept.
func TestAFullDiskIsSaidWhereItMatters(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	home := newHome(t)
	if err := syscall.Mount("tmpfs", home, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("this machine mounts no file systems: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(home, syscall.MNT_DETACH)) })
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

	payload, _ := json.Marshal(map[string]any{"theme": "dark"})
	req, err := http.NewRequest("PUT", s.UI+"/ui/settings", bytes.NewReader(payload))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.Token)
	resp, err = http.DefaultClient.Do(req)
	require.NoError(t, err)
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	assert.Equal(t, 507, resp.StatusCode)
	assert.Contains(t, string(body), "the disk is full: save the settings: ")

	doctor := exec.Command(Binary(t), "doctor")
	doctor.Env = append(os.Environ(), "SIGNALBOX_HOME="+home)
	said, _ := doctor.Output()
	assert.Regexp(t, `(?m)^FAIL  disk     \S+ \S?B of 2.1 MB are free for `+home+`: too little to keep settings, records and chats\.$`, string(said))

	require.NoError(t, os.Remove(filepath.Join(home, "instance.json")))
	require.NoError(t, os.Remove(filler.Name()))
	Eventually(t, 20*time.Second, "others find it again", func() bool {
		_, err := os.Stat(filepath.Join(home, "instance.json"))
		return err == nil
	})
	resp, text = s.Post("/api/copy", map[string]string{"source": model, "destination": "mine"})
	assert.Equal(t, 200, resp.StatusCode, text)
}
