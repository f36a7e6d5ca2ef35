//go:build unix

package cli_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"signalbox/internal/cli"
)

func TestAClosedTerminalEndsTheServerInOrder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("SIGNALBOX_HOME", home)
	t.Setenv("SIGNALBOX_HOST", "127.0.0.1:0")
	ended := make(chan int, 1)
	go func() { ended <- cli.Program{}.Main([]string{"serve", "--engine", "fake"}) }()
	published := filepath.Join(home, "instance.json")
	require.Eventually(t, func() bool { _, err := os.Stat(published); return err == nil }, time.Minute, 5*time.Millisecond)

	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	select {
	case code := <-ended:
		require.Zero(t, code)
	case <-time.After(time.Minute):
		require.Fail(t, "it goes on running")
	}
	require.NoFileExists(t, published)
}
