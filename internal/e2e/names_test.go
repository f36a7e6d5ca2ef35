//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/hub/hubtest"
	"signalbox/internal/e2e"
)

// canary is in every hostile name, and must be in no path that the program opens.
const canary = "canary"

var hostileNames = []string{
	`\\canary\share\m`, `//canary/share/m`, "/etc/canary", "/canary", `C:\canary`, "C:/canary", "../canary", "../../../../canary",
	`..\..\canary`, "a/../canary", "canary/..", "canary/.", "./canary", ".canary", "canary.", "canary ", " canary", "canary:b:c", "canary:..", "canary:../../x",
	"a%5c..%5ccanary", "a%2f..%2fcanary", "canary%00", "canary\x00", "canary\n", "canary\x1b[2J", "\u202ecanary", "ca\u0301nary canary", "canary\u212a",
	"canary@../../api/whoami-v2?x", "canary/model@..", "http://canary/x", "canary:8080/a/b", "file:///canary", "~/canary", "$HOME/canary", "canary|id", "-canary",
	strings.Repeat("canary", 60), "canary/" + strings.Repeat("a/", 100),
}

// devices of Windows are names of nothing, on every system.
var deviceNames = []string{"CON", "con", "NUL", "nul.bin", "Aux", "PRN.txt", "COM1", "lpt9", "COM\u00b9", "a/CON", "x:nul", "CONIN$", "x.", "x ", "a:b/.."}

// TestNoNameBecomesAPath is check 5 of the threats: hostile names and digests on every route that takes one, and the trace of
// the program's system calls has no path with one of them.
func TestNoNameBecomesAPath(t *testing.T) {
	h := hubtest.New(t)
	trace, wrapper := filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "traced")
	script := fmt.Sprintf("#!/bin/sh\nexec strace -D -f -qq -s 4096 -o '%s' -e trace=%%file '%s' \"$@\"\n", trace, e2e.Binary(t))
	require.NoError(t, os.WriteFile(wrapper, []byte(script), 0o700))
	t.Setenv("SIGNALBOX_HEADLESS", wrapper)
	s := e2e.Start(t, []string{"HF_ENDPOINT=" + h.URL}, "--engine", "fake")

	send := func(base, method, path string, body any) int {
		t.Helper()
		text, err := json.Marshal(body)
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader(text))
		if err != nil { // no client can send it either
			return http.StatusBadRequest
		}
		req.Header.Set("Content-Type", "application/json")
		if base == s.UI {
			req.Header.Set("Authorization", "Bearer "+s.Token)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	type try struct {
		base, method, path string
		body               any
	}
	with := func(name string) []try {
		m := map[string]any{"model": name, "stream": false}
		message := []any{map[string]any{"role": "user", "content": "x"}}
		list := []try{
			{s.URL, "POST", "/api/show", m}, {s.URL, "POST", "/api/pull", m}, {s.URL, "DELETE", "/api/delete", m},
			{s.URL, "POST", "/api/copy", map[string]any{"source": name, "destination": "fine"}},
			{s.URL, "POST", "/api/create", map[string]any{"model": "fine", "from": name, "stream": false}},
			{s.URL, "POST", "/api/create", map[string]any{"model": "fine", "from": "fine", "files": map[string]any{name: "sha256:" + name}}},
			{s.URL, "POST", "/api/chat", map[string]any{"model": name, "messages": message, "stream": false}},
			{s.URL, "POST", "/api/generate", map[string]any{"model": name, "prompt": "x", "stream": false}},
			{s.URL, "POST", "/api/embed", map[string]any{"model": name, "input": "x"}},
			{s.URL, "POST", "/v1/chat/completions", map[string]any{"model": name, "messages": message}},
			{s.URL, "POST", "/v1/responses", map[string]any{"model": name, "input": "x"}},
			{s.URL, "POST", "/v1/messages", map[string]any{"model": name, "max_tokens": 1, "messages": message}},
			{s.URL, "POST", "/v1/embeddings", map[string]any{"model": name, "input": "x"}},
			{s.URL, "GET", "/v1/models/" + url.PathEscape(name), nil},
			{s.URL, "HEAD", "/api/blobs/" + url.PathEscape(name), nil}, {s.URL, "POST", "/api/blobs/" + url.PathEscape(name), nil},
			{s.UI, "POST", "/ui/models/verify", m}, {s.UI, "POST", "/ui/models/repair", m}, {s.UI, "POST", "/ui/models/restore", m},
			{s.UI, "POST", "/ui/preflight", m}, {s.UI, "POST", "/ui/downloads", m},
			{s.UI, "POST", "/ui/downloads/" + url.PathEscape(name) + "/resume", nil},
			{s.UI, "DELETE", "/ui/downloads/" + url.PathEscape(name), nil},
			{s.UI, "GET", "/ui/" + url.PathEscape(name), nil},
		}
		return list
	}
	for _, name := range append(append([]string{}, hostileNames...), deviceNames...) {
		for _, try := range with(name) {
			status := send(try.base, try.method, try.path, try.body)
			switch {
			case strings.HasPrefix(try.path, "/ui/"+url.PathEscape(name)): // the page, for whatever is asked
			case try.path == "/ui/downloads" && status == http.StatusOK && utf8.ValidString(name): // begun, and failed at the hub
			default:
				assert.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, status, "%q on %s %s", name, try.method, try.path)
			}
		}
	}
	// New names are refused too, beside what is there.
	require.Equal(t, http.StatusOK, send(s.URL, "POST", "/api/create", map[string]any{"model": "fine", "from": "smollm2:135m", "stream": false}))
	for _, name := range append(append([]string{}, hostileNames...), deviceNames...) {
		for path, body := range map[string]any{
			"/api/copy":   map[string]any{"source": "fine", "destination": name},
			"/api/create": map[string]any{"model": name, "from": "fine", "stream": false},
		} {
			assert.Equal(t, http.StatusBadRequest, send(s.URL, "POST", path, body), "%q on %s", name, path)
		}
	}
	s.Stop()

	text, err := os.ReadFile(trace)
	require.NoError(t, err)
	require.Contains(t, string(text), filepath.Join(s.Home, "models"), "the trace shows what the library opens")
	for line := range strings.Lines(string(text)) {
		// The bytes of a path are escaped in the trace, letters are not.
		assert.NotContains(t, strings.ToLower(line), canary)
		assert.NotRegexp(t, `(?i)"(?:[^"]*/)?(?:con|nul|aux|prn|com[1-9]|lpt[1-9])(?:\.[^"/]*)?"`, line)
	}
	for _, r := range h.Requests() {
		assert.NotContains(t, r.Path, "..")
		assert.NotContains(t, r.Path, "whoami", "a revision chose what is asked")
	}
}
