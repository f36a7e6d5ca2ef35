package server_test

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/server"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func TestA04RoutesAreTheseAndNoOthers(t *testing.T) {
	s := server.New(newRig(t).deps)
	golden(t, "routes-public.txt", strings.Join(s.Routes(false), "\n")+"\n")
	golden(t, "routes-ui.txt", strings.Join(s.Routes(true), "\n")+"\n")
	for _, route := range s.Routes(true) {
		if strings.HasPrefix(route, "GET ") || strings.HasPrefix(route, "HEAD ") {
			assert.NotContains(t, route, "changes", "GET and HEAD change nothing")
		}
	}
}

func do(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

func TestRootIsWhatClientsPing(t *testing.T) {
	r := newRig(t)
	resp, body := do(t, "GET", r.public.URL+"/", "")
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, "Ollama is running", body)
	assert.Contains(t, resp.Header.Get("Content-Type"), "text/plain")
	for _, path := range []string{"/", "/api/version", "/api/tags"} {
		resp, body := do(t, "HEAD", r.public.URL+path, "")
		assert.Equal(t, 200, resp.StatusCode, path)
		assert.Empty(t, body)
	}
}

func TestWrongMethodsAndUnknownPathsAnswerAsOllamaDoes(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"POST", "/", 405, "405 method not allowed"},
		{"GET", "/api/chat", 405, "405 method not allowed"},
		{"DELETE", "/api/tags", 405, "405 method not allowed"},
		{"POST", "/v1/models", 405, `{"error":{"message":"POST /v1/models: method not allowed","type":"invalid_request_error","param":null,"code":null}}`},
		{"GET", "/v1/messages", 405, ""},
		{"GET", "/v1/nope", 404, `{"error":{"message":"unknown request URL: GET /v1/nope","type":"invalid_request_error","param":null,"code":null}}`},
		{"HEAD", "/api/ps", 405, ""},
		{"GET", "/nowhere", 404, "404 page not found"},
		{"POST", "/api/nowhere", 404, "404 page not found"},
		{"GET", "/favicon.ico", 404, "404 page not found"},
		{"TRACE", "/api/tags", 405, "405 method not allowed"},
	} {
		resp, body := do(t, tt.method, r.public.URL+tt.path, "")
		assert.Equal(t, tt.status, resp.StatusCode, "%s %s", tt.method, tt.path)
		if tt.path == "/v1/messages" { // with an id of its own
			assert.Equal(t, "error", object(t, body)["type"])
		} else {
			assert.Equal(t, tt.text, body, "%s %s", tt.method, tt.path)
		}
		assert.NotEmpty(t, resp.Header.Get("X-Request-ID"))
		if !strings.HasPrefix(tt.path, "/v1/") {
			assert.Equal(t, "text/plain", resp.Header.Get("Content-Type"), tt.path)
		}
		if tt.status == 405 {
			assert.NotEmpty(t, resp.Header.Get("Allow"), "%s %s", tt.method, tt.path)
		}
	}
}

func TestF29WrongBaseURLsNameTheRightOne(t *testing.T) {
	r := newRig(t)
	for path, right := range map[string]string{
		"/models":                   "/v1/models",
		"//v1/models":               "/v1/models",
		"/v1/v1/models":             "/v1/models",
		"/v1/models/":               "/v1/models",
		"/V1/Models":                "/v1/models",
		"/v3/models":                "/v1/models",
		"/chat/completions":         "/v1/chat/completions",
		"/api/chat/completions":     "/v1/chat/completions",
		"/api/v1/chat/completions":  "/v1/chat/completions",
		"/v3/chat/completions":      "/v1/chat/completions",
		"/v1/v1/chat/completions":   "/v1/chat/completions",
		"//v1//chat/completions":    "/v1/chat/completions",
		"/v1/v1/messages":           "/v1/messages",
		"/v1/messages/":             "/v1/messages",
		"/messages":                 "/v1/messages",
		"/responses":                "/v1/responses",
		"/v1/api/chat":              "/api/chat",
		"/v1/api/tags":              "/api/tags",
		"/api/api/generate":         "/api/generate",
		"/ollama/api/tags":          "/api/tags",
		"/tags":                     "/api/tags",
		"/generate":                 "/api/generate",
		"/api/chat/":                "/api/chat",
		"/v1/%2e%2e/v1/embeddings":  "/v1/embeddings",
		"/engines/x/v1/completions": "/v1/completions",
	} {
		for _, method := range []string{"GET", "POST"} {
			resp, body := do(t, method, r.public.URL+path, "{}")
			assert.Equal(t, 404, resp.StatusCode, "%s %s", method, path)
			assert.Contains(t, resp.Header.Get("Content-Type"), "application/json")
			var o map[string]any
			require.NoError(t, json.Unmarshal([]byte(body), &o), body)
			message, _ := o["error"].(string)
			if nested, ok := o["error"].(map[string]any); ok {
				message, _ = nested["message"].(string)
			}
			assert.Contains(t, message, "http://"+r.public.Listener.Addr().String()+right+" ", "%s %s", method, path)
		}
	}
}

func TestA28OddPathsNeverRedirect(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{
		"//v1/messages", "/v1/models/%2e%2e/x", "/v1/models/../x", "/./api/tags", "//", "/api/../api/tags", "/api//tags", "/v1/models//etc/passwd",
		"/v1/models/%00", "/v1/models/a%5c..%5cb", "/%2fapi/tags", "/api/tags/", "/ui", "//evil.example/%2f..", "/api/blobs/sha256:..%2f..",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
			resp := raw(t, r.public, method+" "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
			assert.Contains(t, []int{400, 404, 405, 501}, resp.StatusCode, "%s %s", method, path)
			assert.Empty(t, resp.Header.Get("Location"))
		}
	}
	resp := raw(t, r.public, "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n")
	assert.Equal(t, 403, resp.StatusCode, "the guard runs before routing")
}
