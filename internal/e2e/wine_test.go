//go:build linux && wine_e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/testenv"
)

// windowsProgram is the cross-compiled program with its arguments, under Wine, on a home of this machine.
func windowsProgram(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	root := testenv.Root(t)
	program := filepath.Join(root, "build", "bin", "signalbox.exe")
	if path := os.Getenv("SIGNALBOX_WINDOWS"); path != "" {
		program = path
	}
	require.FileExists(t, program, "run `make windows` first")
	require.DirExists(t, filepath.Join(filepath.Dir(program), "runtime", "windows-amd64"), "run `make runtime-windows` first")
	cmd := exec.Command(filepath.Join(root, "build", "wine", "run.sh"), append([]string{program}, args...)...)
	cmd.Env = append(os.Environ(), "SIGNALBOX_HOST=127.0.0.1:0", "SIGNALBOX_HOME=Z:"+strings.ReplaceAll(home, "/", `\`))
	return cmd
}

// TestWindowsProgram has the Windows program answer from the real engine: its DLLs, processes, locks and consoles, as far as Wine is
// Windows.
func TestWindowsProgram(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	// Wine cannot save the registers of AMX, so where the CPU has it the instructions fault.
	s := launch(t, windowsProgram(t, home, "serve", "--property", "INFERENCE_PRECISION_HINT=f32"), home)

	lines := s.ask(france, map[string]any{"num_predict": 24})
	require.Greater(t, len(lines), 4, "a stream")
	last := lines[len(lines)-1]
	require.True(t, last.Done, last.Error)
	assert.Contains(t, text(lines), "Paris")
	assert.Equal(t, "CPU", last.Record.Device)
	assert.Equal(t, "completed", last.Record.Outcome)

	// Other programs of the user find it through its folder.
	out, err := windowsProgram(t, home, "ps").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Regexp(t, `smollm2:135m +[0-9a-f]{12} +.* CPU `, string(out))
	out, err = windowsProgram(t, home, "serve").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "Signalbox is already running (pid ")
	out, err = windowsProgram(t, home, "run", "smollm2:153m", "hi").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "did you mean smollm2:135m?")

	assert.NotEmpty(t, engines(home), "the engine is a process of its own")
	require.NoError(t, s.Cmd.Process.Signal(syscall.SIGKILL))
	<-s.Exited()
	Eventually(t, patience, "no engine is left", func() bool { return len(engines(home)) == 0 })
}

// engines are the engine's processes that work for a home; Wine starts them apart from our process tree.
func engines(home string) (list []string) {
	for _, line := range processesThatMention(strings.ReplaceAll(home, "/", `\`)) {
		if strings.Contains(line, " engine ") {
			list = append(list, line)
		}
	}
	return list
}
