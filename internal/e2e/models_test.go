//go:build linux

package e2e_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/hub/hubtest"
	"signalbox/internal/e2e"
)

// run runs a command against the server, in a pipe as a script does.
func run(t *testing.T, s *e2e.Server, input string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), e2e.Binary(t), args...)
	cmd.Env = append(os.Environ(), "SIGNALBOX_HOME="+s.Home)
	cmd.Stdin = strings.NewReader(input)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out.String(), problems.String(), exit.ExitCode()
	}
	require.NoError(t, err, problems.String())
	return out.String(), problems.String(), 0
}

// folderOf is where the library keeps a model, read-only files and all.
func folderOf(t *testing.T, library, file string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(library, "m-*", file))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return filepath.Dir(found[0])
}

// TestModelsOnTheCommandLine does with a model what its owner does: tokens, pulls, checks, repairs, deletes, moves.
func TestModelsOnTheCommandLine(t *testing.T) {
	h := hubtest.New(t)
	h.Add(fromHub, hubtest.Small(3_000_000))
	home := filepath.Join(t.TempDir(), "ž 漢 home")
	// Without a session bus there is no keyring: what is asked here must not reach the one of whoever runs the tests.
	env := []string{"SIGNALBOX_HOME=" + home, "HF_ENDPOINT=" + h.URL, "HF_TOKEN=", "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere", "HTTPS_PROXY=http://127.0.0.1:9"}
	s := e2e.Start(t, env)

	_, problem, code := run(t, s, "wrong\n", "login")
	assert.Equal(t, 1, code)
	assert.Contains(t, problem, "does not accept the token")
	out, problem, code := run(t, s, "hf_secret\n", "login")
	require.Zero(t, code, problem)
	assert.Contains(t, out, "belongs to ada")
	assert.Contains(t, out, "file that only you can read")
	var source struct{ Endpoint, Token string }
	s.Get("/ui/hub", &source)
	assert.Equal(t, h.URL, source.Endpoint)
	assert.Equal(t, "file", source.Token)

	_, problem, code = run(t, s, "", "pull", "qwen3")
	require.Zero(t, code, problem)
	assert.Contains(t, problem, "pulling openvino_model.bin: 3.0 MB\n")
	assert.NotContains(t, problem, "\r", "bars are for terminals")
	assert.Contains(t, problem, "NPUs run it: its weights are int4 symmetric")
	last := h.Requests()[len(h.Requests())-1]
	assert.Contains(t, []string{"", "Bearer hf_secret"}, last.Authorization)
	out, _, _ = run(t, s, "", "show", "qwen3")
	assert.Contains(t, out, "source")
	assert.Contains(t, out, fromHub+"@"+hubtest.Commit[:12])
	assert.Contains(t, out, "NPU")
	assert.Regexp(t, `CPU +up to 2048 tokens, not tried yet`, out)
	_, _, code = run(t, s, "", "logout")
	assert.Zero(t, code)
	s.Get("/ui/hub", &source)
	assert.Empty(t, source.Token)

	library := filepath.Join(home, "models")
	dir := folderOf(t, library, "openvino_tokenizer.bin")
	out, problem, code = run(t, s, "", "verify", "qwen3")
	require.Zero(t, code, problem)
	assert.Equal(t, "qwen3: 6 files are as they came\n", out)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openvino_tokenizer.bin"), make([]byte, 500), 0o600))
	out, _, code = run(t, s, "", "verify", "qwen3")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "damaged: openvino_tokenizer.bin")
	require.NoError(t, os.Remove(filepath.Join(dir, "openvino_model.bin")))
	out, _, _ = run(t, s, "", "list")
	assert.Regexp(t, `qwen3:8b +damaged`, out)
	out, problem, code = run(t, s, "", "verify", "--repair", "qwen3")
	assert.Zero(t, code, problem)
	assert.Contains(t, out, "6 files are as they came")

	_, problem, code = run(t, s, "", "rm", "qwen3")
	require.Zero(t, code, problem)
	out, _, _ = run(t, s, "", "df")
	assert.Regexp(t, `qwen3:8b +3.0 MB +deleted`, out)
	_, problem, code = run(t, s, "", "restore", "qwen3:8b")
	require.Zero(t, code, problem)
	_, problem, code = run(t, s, "", "restore", "nothing:1b")
	assert.Equal(t, 1, code)
	assert.Contains(t, problem, "lists what was deleted and can come back")

	to := filepath.Join(t.TempDir(), "another drive")
	before := len(h.Requests())
	_, problem, code = run(t, s, "", "move", to)
	require.Zero(t, code, problem)
	dir = folderOf(t, to, "openvino_model.bin")
	assert.NoFileExists(t, filepath.Join(library, filepath.Base(dir), "openvino_model.bin"))
	out, _, _ = run(t, s, "", "verify", "qwen3:8b")
	assert.Equal(t, "qwen3:8b: 6 files are as they came\n", out)
	assert.Len(t, h.Requests(), before, "nothing is fetched again")
	_, problem, code = run(t, s, "", "move", filepath.Join(to, "within"))
	assert.Equal(t, 1, code)
	assert.Contains(t, problem, "is within the folder")

	s.Stop()
	s = e2e.Start(t, env)
	out, _, _ = run(t, s, "", "list")
	assert.Contains(t, out, "qwen3:8b", "where the models are is kept")
}

func TestDownloadsAreSteeredFromTheCommandLine(t *testing.T) {
	h := hubtest.New(t)
	h.Add(fromHub, hubtest.Small(8_000_000))
	h.Set(func(f *hubtest.Faults) { f.Pace = time.Second / 2 })
	s := e2e.Start(t, []string{"HF_ENDPOINT=" + h.URL})
	state := func() string {
		out, _, _ := run(t, s, "", "downloads")
		return out
	}
	s.Send(http.MethodPost, "/ui/downloads", map[string]any{"model": "qwen3"}, nil)
	e2e.Eventually(t, time.Minute, "it downloads", func() bool { return strings.Contains(state(), "downloading") })
	out, problem, code := run(t, s, "", "downloads", "pause", "qwen3:8b")
	require.Zero(t, code, problem)
	assert.Equal(t, "paused 'qwen3:8b'\n", out)
	assert.Contains(t, state(), "paused")
	_, problem, code = run(t, s, "", "downloads", "resume", fromHub)
	require.Zero(t, code, problem)
	e2e.Eventually(t, time.Minute, "it goes on", func() bool { return strings.Contains(state(), "downloading") })
	_, problem, code = run(t, s, "", "downloads", "cancel", "qwen3:8b")
	require.Zero(t, code, problem)
	assert.NotContains(t, state(), "qwen3")
	left, err := filepath.Glob(filepath.Join(s.Home, "models", ".partial", "*", "files", "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	_, problem, code = run(t, s, "", "downloads", "cancel", "qwen3:8b")
	assert.Equal(t, 1, code)
	assert.Contains(t, problem, "there is no download of")
}

// TestWithoutANetworkTheWellKnownModelsAreListed has a hub that takes connections and never answers.
func TestWithoutANetworkTheWellKnownModelsAreListed(t *testing.T) {
	h := hubtest.New(t)
	h.Set(func(f *hubtest.Faults) {
		f.Before = func(_ string, _ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	})
	s := e2e.Start(t, []string{"HF_ENDPOINT=" + h.URL})
	began := time.Now()
	out, problem, code := run(t, s, "", "search", "qwen3")
	assert.Equal(t, 1, code)
	assert.Less(t, time.Since(began), time.Minute)
	assert.Contains(t, problem, "did not answer within 8s")
	assert.Contains(t, out, "qwen3:8b")
}
