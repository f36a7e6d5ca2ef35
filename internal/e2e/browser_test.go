//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/testenv"
)

// listener is somebody else's server on this machine, which answers everything and tries to take the session over.
type listener struct {
	*httptest.Server
	mu   sync.Mutex
	came []*http.Request // guarded by mu
}

func listen(t *testing.T) *listener {
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.came = append(l.came, r)
		l.mu.Unlock()
		w.Header().Set("Access-Control-Allow-Origin", "*")
		http.SetCookie(w, &http.Cookie{Name: "signalbox_session", Value: "stolen", Path: "/"})
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) requests() []*http.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.came
}

// TestChatInChromiumOnTheRealEngine chats in the real page, served by the real program, on the real engine: an answer with the
// device that gave it, a stop in the middle, the requests' rows, and all of it again after a reload.
func TestChatInChromiumOnTheRealEngine(t *testing.T) {
	s := Start(t, nil)
	node := exec.Command("node", filepath.Join("e2e", "real.mjs"))
	node.Dir = filepath.Join(testenv.Root(t), "frontend")
	node.Env = append(os.Environ(), "SIGNALBOX_URL="+s.Page, "DEVICE=CPU")
	out, err := node.CombinedOutput()
	require.NoError(t, err, "%s\nthe server said:\n%s", out, s.Log())
	assert.Contains(t, string(out), "ok   the badge names the device: ")
	assert.Contains(t, string(out), "ok   the chat is there again after a reload")
}

// TestHostileAnswerStaysInThePage is check 3 of the threat page, with Chromium: an answer reaches no other server, no other
// server gets the session's cookie or can replace it, and the secrets are nowhere to be read.
func TestHostileAnswerStaysInThePage(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	other := listen(t)
	_, port, err := net.SplitHostPort(other.Listener.Addr().String())
	require.NoError(t, err)
	config, err := json.Marshal(map[string]any{
		"frontend": filepath.Join(testenv.Root(t), "frontend"), "page": s.Page, "executable": "/usr/bin/chromium",
		"others":   []string{"http://127.0.0.1:" + port + "/", "http://localhost:" + port + "/"},
		"markdown": HostileMarkdown("127.0.0.1:" + port),
	})
	require.NoError(t, err)
	node := exec.Command("node", filepath.Join("testdata", "hostile.mjs"))
	node.Stdin, node.Stderr = bytes.NewReader(config), os.Stderr
	out, err := node.Output()
	require.NoError(t, err, "node with Chromium; `make setup system-test` installs both")
	var seen struct {
		Elsewhere, Referers, Dialogs, Texts, History []string
		Address                                      string
		Cookies                                      []struct{ Name, Value string }
		InPage                                       struct{ Cookie, Stored string }
	}
	require.NoError(t, json.Unmarshal(out, &seen), "%s", out)

	require.Len(t, seen.Texts, 2)
	assert.Contains(t, seen.Texts[0], "THE END", "the answer was not shown whole, so it was not tried")
	assert.Contains(t, seen.Texts[1], "still here", "another server's cookie ended the session")
	assert.Empty(t, seen.Elsewhere)
	assert.Empty(t, seen.Dialogs)
	assert.Empty(t, seen.Referers)
	came := other.requests()
	for _, r := range came {
		assert.Contains(t, []string{"/", "/favicon.ico"}, r.URL.Path, "the answer reached another server")
		for _, c := range r.Cookies() {
			assert.Equal(t, "stolen", c.Value, "%s got the session", r.Host)
		}
	}
	require.GreaterOrEqual(t, len(came), 2, "the browser was to open both pages of the other server")

	// The secrets: in no address, in no place that a script can read, in no log, in no process's arguments.
	u, err := url.Parse(s.Page)
	require.NoError(t, err)
	code := u.Query().Get("code")
	require.Len(t, seen.Cookies, 1)
	session := seen.Cookies[0].Value
	require.Len(t, session, 64)
	for _, address := range append(seen.History, seen.Address) {
		assert.NotContains(t, address, "code=")
		assert.NotContains(t, address, s.Token)
	}
	assert.Empty(t, seen.InPage.Cookie, "HttpOnly")
	assert.NotContains(t, seen.InPage.Stored, session)
	log, err := os.ReadFile(filepath.Join(s.Home, "logs", "signalbox.log"))
	require.NoError(t, err)
	for what, text := range map[string]string{"the log": s.Log(), "the log file": string(log), "a command line": commandLines(t)} {
		for _, secret := range []string{code, session, s.Token} {
			assert.NotContains(t, text, secret, what)
		}
	}
	assert.NotRegexp(t, `[?&](code|token|key)=`, string(log))
}

// commandLines are those of all processes, which every user of a machine can read.
func commandLines(t *testing.T) string {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, _ := os.ReadFile(file)
		all.Write(text)
		all.WriteByte('\n')
	}
	return all.String()
}
