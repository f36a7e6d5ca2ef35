package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/server"
	"signalbox/backend/server/wiretest"
)

// raw sends bytes as they are and reads one answer.
func raw(t *testing.T, ts *httptest.Server, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", ts.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(t, err, "%q", request)
	return resp
}

const chatBody = `{"model":"smollm2:135m","prompt":"hi","stream":false}`

func TestA01HostilesHostsAreRefusedBeforeAnyHandler(t *testing.T) {
	r := newRig(t)
	for name, ts := range map[string]*httptest.Server{"public": r.public, "ui": r.ui} {
		for _, host := range wiretest.HostileHosts {
			for _, method := range []string{"GET", "POST", "OPTIONS", "HEAD", "DELETE"} {
				for _, path := range []string{"/api/generate", "/ui/status"} {
					resp := raw(t, ts, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
						method, path, host, token, len(chatBody), chatBody))
					// What net/http itself calls malformed is 400.
					assert.Contains(t, []int{403, 400}, resp.StatusCode, "%s %s %s Host %q", name, method, path, host)
					assert.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
				}
			}
		}
		resp := raw(t, ts, "GET /api/tags HTTP/1.0\r\n\r\n")
		assert.Equal(t, 403, resp.StatusCode, "%s without a Host", name)
		resp = raw(t, ts, "GET http://evil.example/api/tags HTTP/1.1\r\nHost: localhost\r\n\r\n")
		assert.Equal(t, 403, resp.StatusCode, "%s: the URL's host wins over the header", name)
	}
	assert.Zero(t, r.count(), "a handler was entered")
	assert.Empty(t, r.journal.Active())
}

func TestA01OwnHostsAreServed(t *testing.T) {
	r := newRig(t)
	for _, host := range []string{
		"localhost", "LOCALHOST:11434", "127.0.0.1", "127.0.0.1:11434", "127.8.9.1", "0.0.0.0:11434", "[::1]", "[::1]:11434", "[::]:80",
		"[::ffff:127.0.0.1]:11434",
	} {
		resp := raw(t, r.public, "GET /api/tags HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		assert.Equal(t, 200, resp.StatusCode, host)
	}
}

func TestA01TheWindowsListenerAnswersToItsNameAlone(t *testing.T) {
	r := newRig(t)
	port := r.ui.Listener.Addr().(*net.TCPAddr).Port
	get := func(host, headers string) int {
		return raw(t, r.ui, "GET /ui/status HTTP/1.1\r\nHost: "+host+"\r\n"+headers+"\r\n").StatusCode
	}
	bearer := "Authorization: Bearer " + token + "\r\n"
	cookie := "Cookie: " + enter(t, r) + "\r\n"
	assert.Equal(t, 200, get(r.access.Host(), cookie))
	assert.Equal(t, 200, get(r.access.Host(), bearer))
	assert.Equal(t, 200, get(fmt.Sprintf("127.0.0.1:%d", port), bearer))
	assert.Equal(t, 200, get(fmt.Sprintf("[::1]:%d", port), bearer))

	assert.Equal(t, 403, get(fmt.Sprintf("127.0.0.1:%d", port), cookie), "a cookie does not work under an address: cookies ignore ports")
	assert.Equal(t, 403, get(fmt.Sprintf("127.0.0.1:%d", port), ""))
	assert.Equal(t, 403, get(fmt.Sprintf("127.0.0.1:%d", port), "Authorization: Bearer wrong\r\n"))
	assert.Equal(t, 403, get(fmt.Sprintf("localhost:%d", port), bearer))
	assert.Equal(t, 403, get(fmt.Sprintf("127.0.0.1:%d", port+1), bearer))
	assert.Equal(t, 403, get(strings.Split(r.access.Host(), ":")[0], cookie), "without its port")
	assert.Equal(t, 403, get(r.access.Host(), ""))
	assert.Equal(t, 403, get(r.access.Host(), "Cookie: signalbox_session=\r\n"))
}

// enter opens the page with a one-time code and returns the session's cookie.
func enter(t *testing.T, r *rig) string {
	t.Helper()
	u, err := url.Parse(r.access.URL())
	require.NoError(t, err)
	resp := raw(t, r.ui, "GET "+u.RequestURI()+" HTTP/1.1\r\nHost: "+u.Host+"\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\r\n")
	require.Equal(t, 200, resp.StatusCode)
	require.Len(t, resp.Cookies(), 1)
	c := resp.Cookies()[0]
	assert.True(t, c.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, c.SameSite)
	assert.Empty(t, c.Domain)
	assert.Equal(t, "/", c.Path)
	return c.Name + "=" + c.Value
}

func TestA07CodesWorkOnce(t *testing.T) {
	r := newRig(t)
	u, err := url.Parse(r.access.URL())
	require.NoError(t, err)
	open := func(uri string) *http.Response {
		return raw(t, r.ui, "GET "+uri+" HTTP/1.1\r\nHost: "+u.Host+"\r\n\r\n")
	}
	first := open(u.RequestURI())
	assert.Equal(t, 200, first.StatusCode)
	assert.Equal(t, "no-referrer", first.Header.Get("Referrer-Policy"))
	assert.Equal(t, "no-store", first.Header.Get("Cache-Control"))
	replay := open(u.RequestURI())
	assert.Equal(t, 403, replay.StatusCode)
	assert.Empty(t, replay.Cookies())
	assert.Equal(t, 403, open("/ui/?code=0123").StatusCode)
}

func TestA07PagesCannotReachOtherHosts(t *testing.T) {
	r := newRig(t)
	resp := raw(t, r.ui, "GET /ui/ HTTP/1.1\r\nHost: "+r.access.Host()+"\r\nCookie: "+enter(t, r)+"\r\n\r\n")
	csp := resp.Header.Get("Content-Security-Policy")
	for _, rule := range []string{"default-src 'none'", "img-src 'self' data: blob:", "connect-src 'self'", "frame-ancestors 'none'",
		"form-action 'none'", "base-uri 'none'", "script-src 'self';"} {
		assert.Contains(t, csp, rule)
	}
}

func TestA02OtherPagesAreRefusedAndCurlIsNot(t *testing.T) {
	r := newRig(t)
	cookie := "Cookie: " + enter(t, r) + "\r\n"
	port := r.ui.Listener.Addr().(*net.TCPAddr).Port
	for _, tt := range []struct {
		name    string
		headers string
		public  int
		ui      int
	}{
		{"no-cors text/plain", "Origin: https://evil.example\r\nContent-Type: text/plain\r\n", 403, 403},
		{"beacon without a type", "Origin: https://evil.example\r\n", 403, 403},
		{"form", "Origin: https://evil.example\r\nContent-Type: application/x-www-form-urlencoded\r\n", 403, 403},
		{"cross-site alone", "Sec-Fetch-Site: cross-site\r\n", 403, 403},
		{"cross-site navigation", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 403, 403},
		{"same-site alone", "Sec-Fetch-Site: same-site\r\n", 403, 403},
		{"null origin", "Origin: null\r\n", 403, 403},
		{"null origin, same-origin", "Origin: null\r\nSec-Fetch-Site: same-origin\r\n", 403, 403},
		{"two origins", "Origin: http://localhost\r\nOrigin: https://evil.example\r\n", 403, 403},
		{"local page", "Origin: http://localhost:3000\r\nSec-Fetch-Site: same-site\r\n", 200, 403},
		{"the other name of the window", fmt.Sprintf("Origin: http://127.0.0.1:%d\r\n", port), 200, 403},
		{"the window's own page", "Origin: http://" + r.access.Host() + "\r\nSec-Fetch-Site: same-origin\r\n", 403, 200},
		{"webview", "Origin: vscode-webview://1a2b\r\nSec-Fetch-Site: cross-site\r\n", 200, 403},
		{"curl -d", "Content-Type: application/x-www-form-urlencoded\r\nUser-Agent: curl/8.5\r\n", 200, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			post := func(ts *httptest.Server, host, more string) *http.Response {
				return raw(t, ts, fmt.Sprintf("POST /api/generate HTTP/1.1\r\nHost: %s\r\n%s%sContent-Length: %d\r\n\r\n%s",
					host, tt.headers, more, len(chatBody), chatBody))
			}
			before := r.count()
			resp := post(r.public, "localhost:11434", "")
			assert.Equal(t, tt.public, resp.StatusCode, "public")
			assert.Contains(t, resp.Header.Values("Vary"), "Origin")
			if tt.public == 403 {
				assert.Equal(t, before, r.count(), "a handler was entered")
				assert.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
			}
			assert.Equal(t, tt.ui, post(r.ui, r.access.Host(), cookie).StatusCode, "ui")
		})
	}
}

func TestA03OriginsAreComparedWhole(t *testing.T) {
	r := newRig(t, func(d *server.Deps) {
		d.Origins = func() []string { return []string{"https://chat.example", "http://box:*", "https://*.corp.example"} }
	})
	for origin, allowed := range map[string]bool{
		"http://localhost": true, "https://localhost:8443": true, "http://127.0.0.1:3000": true, "http://0.0.0.0": true, "http://[::1]:3000": true,
		"app://obsidian.md": true, "tauri://localhost": true, "vscode-webview://abc": true, "vscode-file://vscode-app": true, "file://": true,
		"chrome-extension://abcdef": true, "moz-extension://1-2-3": true, "safari-web-extension://x": true,
		"https://chat.example": true, "http://box:3000": true, "http://box": true, "https://a.corp.example": true,

		"null": false, "": false, "*": false, "http://localhost.evil.com": false, "http://127.0.0.1.evil.com": false,
		"https://vscode-webview.evil.com": false, "http://localhost@evil.com": false, "http://localhost:3000/path": false, "http://localhost#": false,
		"http://localhost:": false, "ftp://localhost": false, "https://evil.example": false, "http://evil.localhost": false, "file:///etc/passwd": false,
		"http://chat.example": false, "https://chat.example:444": false, "https://corp.example": false, "https://xcorp.example": false,
		"http://box.evil.com": false, "localhost": false, "javascript://localhost": false, "http://192.168.1.2": false,
	} {
		for _, request := range []string{
			"OPTIONS /api/chat HTTP/1.1\r\nHost: localhost\r\nOrigin: %s\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n\r\n",
			"GET /api/tags HTTP/1.1\r\nHost: localhost\r\nOrigin: %s\r\n\r\n",
		} {
			resp := raw(t, r.public, fmt.Sprintf(request, origin))
			assert.Contains(t, resp.Header.Values("Vary"), "Origin")
			assert.Empty(t, resp.Header.Get("Access-Control-Allow-Private-Network"), "A5")
			if allowed {
				assert.Less(t, resp.StatusCode, 300, origin)
				assert.Equal(t, origin, resp.Header.Get("Access-Control-Allow-Origin"))
			} else {
				assert.Equal(t, 403, resp.StatusCode, origin)
				assert.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"), origin)
			}
		}
	}
}

func TestPreflightAllowsWhatSDKsSend(t *testing.T) {
	r := newRig(t)
	resp := raw(t, r.public, "OPTIONS /v1/messages HTTP/1.1\r\nHost: localhost:11434\r\nOrigin: app://obsidian.md\r\nAccess-Control-Request-Method: POST\r\n"+
		"Access-Control-Request-Headers: x-api-key,anthropic-version,content-type\r\n\r\n")
	assert.Equal(t, 204, resp.StatusCode)
	headers := strings.ToLower(resp.Header.Get("Access-Control-Allow-Headers"))
	for _, h := range []string{"authorization", "content-type", "openai-beta", "x-stainless-os", "x-stainless-timeout", "x-api-key", "anthropic-version", "anthropic-beta"} {
		assert.Contains(t, headers, h)
	}
	assert.Contains(t, resp.Header.Get("Access-Control-Allow-Methods"), "POST")
	assert.Empty(t, resp.Header.Get("Access-Control-Allow-Credentials"))
}

func TestA04NothingUpgrades(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/api/chat", "/v1/chat/completions", "/ui/events", "/nowhere"} {
		resp := raw(t, r.public, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		assert.Equal(t, 400, resp.StatusCode, path)
	}
	resp := raw(t, r.public, "GET /api/version HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n")
	assert.Equal(t, 200, resp.StatusCode, "Java's client offers h2c with every request and must get an answer")
}

func TestA04ThePublicListenerHasNothingOfTheWindow(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/ui/", "/ui/status", "/ui/events", "/ui/requests", "/ui/chats", "/ui/settings", "/desktop/show", "/debug/pprof/"} {
		for _, method := range []string{"GET", "POST"} {
			resp := raw(t, r.public, method+" "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nAuthorization: Bearer "+token+"\r\n\r\n")
			assert.Equal(t, 404, resp.StatusCode, "%s %s", method, path)
		}
	}
}

func TestA04AnswersDeclareThemselves(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/api/tags", "/nowhere", "/api/chat"} {
		resp := raw(t, r.public, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		assert.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"), path)
		assert.Equal(t, "same-origin", resp.Header.Get("Cross-Origin-Resource-Policy"), path)
		assert.NotEmpty(t, resp.Header.Get("X-Request-ID"), path)
		assert.NotEmpty(t, resp.Header.Get("Content-Type"), path)
	}
}

func TestA06WebPagesMayUseModelsAndNotChangeThem(t *testing.T) {
	r := newRig(t, func(d *server.Deps) { d.Origins = func() []string { return []string{"http://localhost:5000", "*"} } })
	remove := func(headers string) int {
		return raw(t, r.public, "DELETE /api/delete HTTP/1.1\r\nHost: localhost\r\n"+headers+"Content-Length: 2\r\n\r\n{}").StatusCode
	}
	assert.Equal(t, 403, remove("Origin: http://localhost:3000\r\n"))
	assert.Equal(t, 403, remove("Origin: chrome-extension://abc\r\n"))
	assert.Equal(t, 403, remove("Origin: https://any.example\r\n"), "a star is not a name")
	assert.Equal(t, 501, remove(""), "a program may (the route is not built yet)")
	assert.Equal(t, 501, remove("Origin: http://localhost:5000\r\n"), "named in the settings")

	unload := `{"model":"smollm2:135m","keep_alive":0}`
	resp := raw(t, r.public, fmt.Sprintf("POST /api/generate HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\nContent-Length: %d\r\n\r\n%s", len(unload), unload))
	assert.Equal(t, 200, resp.StatusCode, "loading and unloading is using")
}
