//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/server/wiretest"
	"signalbox/internal/testenv"
)

// These are checks 1, 2 and 4 of the threat page's section C, on the built program: what its parts are tested for holds also
// when they are put together, on the listeners it really opens.

// raw sends bytes as they are to a listener's address and returns the answer's status, and headers.
func raw(t testing.TB, base, request string) *http.Response {
	t.Helper()
	u, err := url.Parse(base)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(t, err, "%q", request)
	return resp
}

// requests is what the journal holds.
func (s *Server) requests() []journal.Entry {
	s.t.Helper()
	var answer struct {
		Requests []journal.Entry `json:"requests"`
	}
	s.Get("/ui/requests?limit=1000", &answer)
	return answer.Requests
}

// changing are the routes of a listener that do something: "POST", "/api/chat".
func changing(t testing.TB, list string) (routes [][2]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(t), "backend", "server", "testdata", list))
	require.NoError(t, err)
	variable := regexp.MustCompile(`\{[^}]*\}`)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] != "GET" && fields[0] != "HEAD" {
			routes = append(routes, [2]string{fields[0], variable.ReplaceAllString(fields[1], "x")})
		}
	}
	require.Greater(t, len(routes), 10)
	return routes
}

const question = `{"model":"smollm2:135m","messages":[{"role":"user","content":"hi"}],"prompt":"hi","stream":false}`

func TestHostileHostsReachNoHandler(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	six := strings.Replace(s.URL, "127.0.0.1", "[::1]", 1)
	for name, base := range map[string]string{"public": s.URL, "public, IPv6": six, "window": s.UI} {
		ask := func(method, path, host string) *http.Response {
			return raw(t, base, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
				method, path, host, s.Token, len(question), question))
		}
		for _, host := range wiretest.HostileHosts {
			for _, method := range []string{"GET", "POST", "OPTIONS", "HEAD"} {
				resp := ask(method, "/api/chat", host)
				// What net/http itself calls malformed is 400.
				assert.Contains(t, []int{400, 403}, resp.StatusCode, "%s: %s with Host %q", name, method, host)
				assert.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
			}
		}
		assert.Equal(t, 403, raw(t, base, "GET /api/tags HTTP/1.0\r\n\r\n").StatusCode, "%s: no Host", name)
		assert.Equal(t, 403, raw(t, base, "GET http://evil.example/api/tags HTTP/1.1\r\nHost: localhost\r\n\r\n").StatusCode, "%s: the URL's host counts", name)
		u, err := url.Parse(base)
		require.NoError(t, err)
		assert.Equal(t, 200, ask("POST", "/api/chat", u.Host).StatusCode, "%s: its own name", name)
	}
	assert.Len(t, s.requests(), 3, "only the three with a good Host were let in")
}

// TestOtherWebPagesChangeNothing sends every changing route what a browser sends for a page that is not ours.
func TestOtherWebPagesChangeNothing(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	cookie := s.enter()
	page, err := url.Parse(s.Page)
	require.NoError(t, err)
	port := strings.TrimPrefix(s.UI, "http://127.0.0.1:")
	for _, other := range []struct {
		name, headers  string
		public, window int
	}{
		{"no-cors fetch of text", "Origin: https://evil.example\r\nContent-Type: text/plain\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Site: cross-site\r\n", 403, 403},
		{"beacon without a type", "Origin: https://evil.example\r\n", 403, 403},
		{"form", "Origin: https://evil.example\r\nContent-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Mode: navigate\r\n", 403, 403},
		{"sandboxed frame", "Origin: null\r\nContent-Type: text/plain\r\n", 403, 403},
		{"only cross-site", "Sec-Fetch-Site: cross-site\r\n", 403, 403},
		{"only same-site", "Sec-Fetch-Site: same-site\r\n", 0, 403},
		{"the window's name with another port", "Origin: http://" + page.Hostname() + ":1\r\n", 403, 403},
		{"the window by address", "Origin: http://127.0.0.1:" + port + "\r\n", 0, 403},
	} {
		send := func(base, host, method, path string, credentials string) int {
			return raw(t, base, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s%sContent-Length: %d\r\n\r\n%s",
				method, path, host, credentials, other.headers, len(question), question)).StatusCode
		}
		if other.public != 0 {
			for _, route := range changing(t, "routes-public.txt") {
				assert.Equal(t, other.public, send(s.URL, "localhost", route[0], route[1], ""), "public: %s: %v", other.name, route)
			}
		}
		for _, route := range changing(t, "routes-ui.txt") {
			assert.Equal(t, other.window, send(s.UI, page.Host, route[0], route[1], "Cookie: "+cookie+"\r\n"), "window: %s: %v", other.name, route)
		}
	}
	assert.Empty(t, s.requests())

	// A program has none of these headers, and curl -d calls what it sends a form.
	curl := "POST /api/chat HTTP/1.1\r\nHost: %s\r\nUser-Agent: curl/8.5\r\nContent-Type: application/x-www-form-urlencoded\r\n%sContent-Length: %d\r\n\r\n%s"
	assert.Equal(t, 200, raw(t, s.URL, fmt.Sprintf(curl, "127.0.0.1", "", len(question), question)).StatusCode)
	assert.Equal(t, 200, raw(t, s.UI, fmt.Sprintf(curl, page.Host, "Cookie: "+cookie+"\r\n", len(question), question)).StatusCode)
	assert.Equal(t, 403, raw(t, s.UI, fmt.Sprintf(curl, page.Host, "", len(question), question)).StatusCode, "without the session")
	assert.Len(t, s.requests(), 2)
}

// enter opens the page with its one-time code and returns the session's cookie.
func (s *Server) enter() string {
	s.t.Helper()
	u, err := url.Parse(s.Page)
	require.NoError(s.t, err)
	get := "GET " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\n\r\n"
	resp := raw(s.t, s.UI, get)
	require.Equal(s.t, 200, resp.StatusCode)
	require.Len(s.t, resp.Cookies(), 1)
	assert.Equal(s.t, 403, raw(s.t, s.UI, get).StatusCode, "a code works once")
	return resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
}
