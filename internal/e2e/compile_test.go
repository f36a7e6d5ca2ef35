//go:build linux

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/cards"
)

// command is a command of the built program that speaks to s.
func (s *Server) command(args ...string) *exec.Cmd {
	cmd := exec.Command(Binary(s.t), args...)
	cmd.Env = append(os.Environ(), "SIGNALBOX_HOME="+s.Home)
	return cmd
}

// TestAModelIsCompiledAheadOfItsFirstRequest uses the fake engine, whose loads take as long as their names say. Phases that pass in no
// time may not be told of.
func TestAModelIsCompiledAheadOfItsFirstRequest(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	dir := filepath.Join(filepath.Dir(Binary(t)), "models", "smollm2-135m")
	add := func(name string) {
		s.Send("POST", "/desktop/import", map[string]any{"path": dir, "name": name, "reference": true}, nil)
	}
	const some, slow = "fake:slow-load-6000ms", "fake:slow-load-90000ms"
	add(some)
	said, err := s.command("compile", some, "--device", "mock").CombinedOutput()
	require.NoError(t, err, string(said))
	assert.Contains(t, string(said), "compiling for mock\n")
	assert.Contains(t, string(said), some+" runs on the mock. Nothing was kept")
	assert.Empty(t, s.stateOf("mock").Models, "it was another process, which has gone")
	assert.Empty(t, s.all().Requests, "it is no request")
	var known struct{ Cards []cards.Card }
	s.Get("/ui/cards", &known)
	took := false
	for _, c := range known.Cards {
		took = took || c.Model == some && c.Compile >= 6*time.Second
	}
	assert.True(t, took, "how long it took is known: %+v", known.Cards)

	said, err = s.command("compile", model, "--device", "gpu").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(said), "the request asks for the GPU, but there is none here")

	add(slow)
	before := children(s.Cmd.Process.Pid)
	cmd := s.command("compile", slow, "--device", "mock")
	var out bytes.Buffer
	cmd.Stderr = &out
	require.NoError(t, cmd.Start())
	Eventually(t, patience, "a process of its own is at work", func() bool { return len(children(s.Cmd.Process.Pid)) > len(before) })
	s.Post("/api/chat", chat("hello", nil)) // others go on
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	assert.Error(t, cmd.Wait())
	assert.Equal(t, 130, cmd.ProcessState.ExitCode(), out.String())
	assert.True(t, strings.HasSuffix(out.String(), "Stopped. Nothing was kept.\n"), out.String())
	Eventually(t, patience, "its process has ended", func() bool { return s.stateOf("mock").Running == 0 && len(children(s.Cmd.Process.Pid)) <= 1 })
}
