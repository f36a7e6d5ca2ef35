package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"signalbox/internal/testenv"
)

// TestChatInTheRealPage drives the real page in Chromium against the real engine: chat, badge and reason, stop in the
// middle, the request's row. SHOTS keeps its pictures in a folder.
func TestChatInTheRealPage(t *testing.T) {
	s := Start(t, nil)
	cmd := exec.Command("npm", "--prefix", filepath.Join(testenv.Root(t), "frontend"), "run", "--silent", "e2e:real")
	cmd.Env = append(os.Environ(), "SIGNALBOX_URL="+s.Page, "MODEL="+model, "DEVICE=CPU")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}
