// Package e2e runs the built program as people do: `signalbox serve` in a process of its own, on the real engine unless a
// test asks for the fake one, spoken to over HTTP alone. Its tests are the product's promises seen from outside.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"signalbox/internal/instance"
	"signalbox/internal/testenv"
)

// Binary is the headless program that `make build` leaves, or the one that SIGNALBOX_HEADLESS names.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("SIGNALBOX_HEADLESS"); path != "" {
		return path
	}
	name := "signalbox-headless"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(testenv.Root(t), "build", "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing: run `make build` first", path)
	}
	return path
}

// Server is a running `signalbox serve`.
type Server struct {
	URL   string // of the public API
	UI    string // of the window's listener, for programs: with the token
	Page  string // the page's address with a one-time code
	Token string
	Home  string // SIGNALBOX_HOME
	Cmd   *exec.Cmd

	t      testing.TB
	mu     sync.Mutex
	stderr bytes.Buffer  // guarded by mu
	exited chan struct{} // closed when the process has ended
}

// Start runs the program and waits for its address. It ends with the test. env adds to the environment; a
// SIGNALBOX_HOME in it is used, else the server gets an empty folder.
func Start(t testing.TB, env []string, args ...string) *Server {
	t.Helper()
	home := ""
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, "SIGNALBOX_HOME="); ok {
			home = value
		}
	}
	if home == "" {
		home = t.TempDir()
	}
	cmd := exec.Command(Binary(t), append([]string{"serve"}, args...)...)
	cmd.Env = append(append(os.Environ(), "SIGNALBOX_HOST=127.0.0.1:0", "SIGNALBOX_PROBE=off", "SIGNALBOX_HOME="+home), env...)
	return launch(t, cmd, home)
}

// launch starts a server with a command of its own.
func launch(t testing.TB, cmd *exec.Cmd, home string) *Server {
	t.Helper()
	s := &Server{t: t, Home: home, Cmd: cmd, exited: make(chan struct{})}
	s.Cmd.Stderr = lockedWriter{s}
	stdout, err := s.Cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.Cmd.Start())
	t.Cleanup(s.Stop)
	lines := bufio.NewScanner(stdout)
	for s.Page == "" && lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "Signalbox is listening on "); ok {
			s.URL = url
		}
		if url, ok := strings.CutPrefix(lines.Text(), "The window in a browser: "); ok {
			s.Page = url
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdout)
		_ = s.Cmd.Wait()
		close(s.exited)
	}()
	require.NotEmpty(t, s.Page, "serve did not print its addresses; it said:\n%s", s.Log())
	running := attach(t, s.Home)
	s.UI, s.Token = running.UI, running.Token
	return s
}

// attach speaks to the server that owns a home and that somebody else has started. That it runs must be known: a file left by
// another one would be believed, since Wine's locks are not ours.
func attach(t testing.TB, home string) *Server {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, "instance.json"))
	require.NoError(t, err)
	var owner instance.Owner
	require.NoError(t, json.Unmarshal(text, &owner))
	return &Server{t: t, Home: home, URL: owner.APIURL, UI: owner.UIURL, Token: owner.Token}
}

// Stop ends the server as a terminal does and waits for it.
func (s *Server) Stop() {
	_ = s.Cmd.Process.Signal(os.Interrupt)
	select {
	case <-s.exited:
	case <-time.After(20 * time.Second):
		_ = s.Cmd.Process.Kill()
		<-s.exited
		s.t.Errorf("serve did not end within 20 s of an interrupt; it said:\n%s", s.Log())
	}
}

// Exited is closed when the process has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Log is what the server wrote to standard error.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

type lockedWriter struct{ s *Server }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.stderr.Write(p)
}

// Post sends JSON to the public API and returns the answer with its body read.
func (s *Server) Post(path string, body any) (*http.Response, string) {
	s.t.Helper()
	resp := s.Open(context.Background(), path, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp, string(text)
}

// Open is Post with the body left to read.
func (s *Server) Open(ctx context.Context, path string, body any) *http.Response {
	s.t.Helper()
	resp, err := s.open(ctx, path, body)
	require.NoError(s.t, err)
	return resp
}

func (s *Server) open(ctx context.Context, path string, body any) (*http.Response, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+path, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.Token) // of no use but on the window's listener
	return http.DefaultClient.Do(req)
}

// Get decodes a JSON answer of the window's listener into out.
func (s *Server) Get(path string, out any) {
	s.t.Helper()
	s.Send("GET", path, nil, out)
}

// Send sends JSON to the window's listener and decodes its answer into out, unless that is nil.
func (s *Server) Send(method, path string, body, out any) {
	s.t.Helper()
	payload, err := json.Marshal(body)
	require.NoError(s.t, err)
	req, err := http.NewRequest(method, s.UI+path, bytes.NewReader(payload))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+s.Token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, 200, resp.StatusCode, "%s %s: %s", method, path, text)
	if out != nil {
		require.NoError(s.t, json.Unmarshal(text, out))
	}
}

// Eventually waits until what holds, by asking again and again, and fails after limit.
func Eventually(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
