package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/server"
	"signalbox/internal/config"
)

// ui calls the window's listener as the command line does.
func (r *rig) call(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	resp, text := do(t, method, r.ui.URL+path, body, "Authorization", "Bearer "+token)
	return resp.StatusCode, text
}

func TestStatusHasListsWhereThePageExpectsThem(t *testing.T) {
	r := newRig(t)
	status, text := r.call(t, "GET", "/ui/status", "")
	assert.Equal(t, 200, status)
	o := object(t, text)
	for _, list := range []string{"devices", "active", "notices"} {
		assert.Equal(t, []any{}, o[list], list)
	}
	assert.Equal(t, "running", o["server"].(map[string]any)["state"])
}

func TestRequestsCanBeListedReadAndCancelled(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody, "X-Request-ID", fmt.Sprintf("r%d", i), "User-Agent", "curl/8")
	}
	_, text := r.call(t, "GET", "/ui/requests?limit=2", "")
	var list struct {
		Requests []journal.Entry
		More     bool
	}
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Len(t, list.Requests, 2)
	assert.True(t, list.More)
	assert.Equal(t, "r2", list.Requests[0].TraceID)
	assert.Equal(t, "curl", list.Requests[0].Client)
	before := list.Requests[1].StartedAt.Format(time.RFC3339Nano)
	_, text = r.call(t, "GET", "/ui/requests?before="+strings.ReplaceAll(before, "+", "%2B"), "")
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Len(t, list.Requests, 1)
	assert.Equal(t, "r0", list.Requests[0].TraceID)

	for path, want := range map[string]int{
		"/ui/requests/r0": 200, "/ui/requests/none": 404, "/ui/requests?limit=0": 400, "/ui/requests?before=yesterday": 400,
	} {
		status, _ := r.call(t, "GET", path, "")
		assert.Equal(t, want, status, path)
	}
	status, _ := r.call(t, "POST", "/ui/requests/none/cancel", "")
	assert.Equal(t, 404, status)
}

func TestTheWindowSwitchesTheServer(t *testing.T) {
	var wishes []bool
	r := newRig(t, func(d *server.Deps) {
		d.Run = func(_ context.Context, running bool) error {
			wishes = append(wishes, running)
			if running {
				return llm.Errorf(llm.CodeUnavailable, "port 11434 is taken by another program").WithHint("choose another in the settings")
			}
			return nil
		}
	})
	status, text := r.call(t, "POST", "/ui/server", `{"running":false}`)
	assert.Equal(t, 200, status)
	assert.Contains(t, text, `"server":`)
	status, text = r.call(t, "POST", "/ui/server", `{"running":true}`)
	assert.Equal(t, 503, status)
	assert.Contains(t, text, "port 11434 is taken")
	status, _ = r.call(t, "POST", "/ui/server", `{}`)
	assert.Equal(t, 400, status)
	assert.Equal(t, []bool{false, true}, wishes)
}

func TestSettingsChangeByNameAndAreChecked(t *testing.T) {
	r := newRig(t)
	status, text := r.call(t, "PUT", "/ui/settings", `{"theme":"dark"}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, "dark", object(t, text)["theme"])
	assert.Equal(t, 11434.0, object(t, text)["port"], "what is not named stays")
	for _, bad := range []string{`{"theme":"pink"}`, `{"port":-1}`, `{"prot":1}`, `{"keep_alive":"soon"}`, `{"stream":true}`, `x`} {
		status, text := r.call(t, "PUT", "/ui/settings", bad)
		assert.Equal(t, 400, status, bad)
		assert.NotEmpty(t, object(t, text)["error"])
	}
	inForce := r.deps.Settings().Preference
	status, _ = r.call(t, "PUT", "/ui/settings", `{"preference":["CPU"],"theme":"pink"}`)
	assert.Equal(t, 400, status)
	assert.Equal(t, []string{"NPU", "GPU", "CPU"}, inForce, "a refused change must not touch what is in force")
	_, text = r.call(t, "GET", "/ui/settings", "")
	assert.Equal(t, "dark", object(t, text)["theme"])

	status, text = r.call(t, "PUT", "/ui/settings", `{"pins":[{"model":"m","device":"npu"}]}`)
	require.Equal(t, 200, status, text)
	status, text = r.call(t, "PUT", "/ui/settings", `{"pins":[{"client":"Zed","device":"cpu"}]}`)
	require.Equal(t, 200, status, text)
	assert.Equal(t, []config.Pin{{Client: "Zed", Device: "cpu"}}, r.deps.Settings().Pins, "a list is replaced, not mixed")
}

func TestChatsAreKept(t *testing.T) {
	r := newRig(t)
	status, text := r.call(t, "GET", "/ui/chats", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"chats":[]}`, text)
	body := `{"title":"Trains","model":"smollm2:135m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho","stopped":true}]}`
	status, text = r.call(t, "PUT", "/ui/chats/abc-1", body)
	require.Equal(t, 200, status, text)
	created := object(t, text)["created_at"]
	status, text = r.call(t, "PUT", "/ui/chats/abc-1", strings.Replace(body, "Trains", "Signals", 1))
	require.Equal(t, 200, status, text)
	status, text = r.call(t, "GET", "/ui/chats/abc-1", "")
	assert.Equal(t, 200, status)
	o := object(t, text)
	assert.Equal(t, "Signals", o["title"])
	assert.Equal(t, "abc-1", o["id"])
	assert.Equal(t, created, o["created_at"])
	assert.Len(t, o["messages"], 2)
	status, _ = r.call(t, "DELETE", "/ui/chats/abc-1", "")
	assert.Equal(t, 204, status)
	status, _ = r.call(t, "GET", "/ui/chats/abc-1", "")
	assert.Equal(t, 404, status)
	status, _ = r.call(t, "PUT", "/ui/chats/a%20b", body)
	assert.Equal(t, 400, status)
}

type desktop struct{ opened []string }

func (d *desktop) Open(url string) error {
	d.opened = append(d.opened, url)
	return nil
}
func (d *desktop) Show() error     { return nil }
func (d *desktop) Quit() error     { return nil }
func (d *desktop) Dropped() string { return "/dropped" }
func (d *desktop) Folder(title string) (string, error) {
	if title == "" {
		return "", server.ErrNoDialog
	}
	return "/chosen", nil
}

func TestA38OnlyHarmlessLinksAreOpened(t *testing.T) {
	d := &desktop{}
	r := newRig(t, func(deps *server.Deps) { deps.Desktop = d })
	for link, want := range map[string]int{
		"https://example.org/a(b)": 204, "http://127.0.0.1:3000/": 204, "mailto:a@example.org": 204,
		"javascript:alert(1)": 400, "data:text/html,x": 400, "search-ms:x": 400, "vscode:x": 400, `\\\\evil\\s`: 400, "file:///etc/passwd": 400,
		"https:": 400, "": 400, "https://a b": 400, "HTTPS://example.org": 204, "--help": 400, `https://example.org/\n`: 400,
	} {
		status, _ := r.call(t, "POST", "/desktop/open", fmt.Sprintf(`{"url":"%s"}`, link))
		assert.Equal(t, want, status, link)
	}
	assert.Len(t, d.opened, 4)
	status, _ := r.call(t, "POST", "/desktop/show", "")
	assert.Equal(t, 204, status)
	status, text := r.call(t, "POST", "/desktop/folder", `{"title":"New folder"}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"path":"/chosen"}`, strings.TrimSpace(text))
	status, text = r.call(t, "POST", "/desktop/dropped", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"path":"/dropped"}`, strings.TrimSpace(text))
	status, _ = r.call(t, "POST", "/desktop/folder", `{}`)
	assert.Equal(t, 404, status, "no dialog: the page takes a path by hand")
}

func TestWithoutADesktopThereIsNothingToShow(t *testing.T) {
	r := newRig(t)
	status, _ := r.call(t, "POST", "/desktop/show", "")
	assert.Equal(t, 404, status)
	status, _ = r.call(t, "POST", "/desktop/open", `{"url":"https://example.org"}`)
	assert.Equal(t, 404, status)
}

func TestEventsTellStatusAndRequests(t *testing.T) {
	changed := make(chan struct{}, 1)
	r := newRig(t, func(d *server.Deps) { d.Watch = func() (<-chan struct{}, func()) { return changed, func() {} } })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", r.ui.URL+"/ui/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	in := bufio.NewReader(resp.Body)
	next := func() (name string, data map[string]any) {
		for {
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), "event: "); ok {
				line, err = in.ReadString('\n')
				require.NoError(t, err)
				return n, object(t, strings.TrimPrefix(line, "data: "))
			}
		}
	}
	name, _ := next()
	assert.Equal(t, "status", name, "the status comes at once")

	_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody, "X-Request-ID", "seen")
	for {
		name, data := next()
		assert.Equal(t, "request", name)
		assert.Equal(t, "seen", data["trace_id"])
		if data["state"] == "done" {
			assert.Equal(t, "completed", data["outcome"])
			break
		}
	}
	changed <- struct{}{}
	name, _ = next()
	assert.Equal(t, "status", name)
}

func TestEventsPaceTokenCounts(t *testing.T) {
	r := newRig(t)
	live := r.journal.Begin(journal.Entry{Record: llm.Record{TraceID: "busy"}, State: journal.StateDecoding, StartedAt: time.Now()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", r.ui.URL+"/ui/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	started := time.Now()
	go func() {
		for i := range 400 {
			live.Update(func(e *journal.Entry) { e.TokensSoFar = i })
			time.Sleep(time.Millisecond) // the pace of a fast model
		}
		live.End(func(e *journal.Entry) { e.State = journal.StateDone })
	}()
	seen := 0
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		if strings.Contains(line, `"trace_id":"busy"`) {
			seen++
			if strings.Contains(line, `"state":"done"`) {
				break
			}
		}
	}
	most := int(time.Since(started)/(250*time.Millisecond)) + 3
	assert.LessOrEqual(t, seen, most, "at most 4 a second, the first and the last")
}

func TestThePageIsServedWithAFallback(t *testing.T) {
	r := newRig(t, func(d *server.Deps) {
		d.Frontend = fstest.MapFS{
			"index.html":       {Data: []byte("<title>window</title>")},
			"assets/app-1.js":  {Data: []byte("let a")},
			"assets/app-1.css": {Data: []byte("a{}")},
		}
	})
	cookie := enter(t, r)
	get := func(path string) (*http.Response, string) {
		resp := raw(t, r.ui, "GET "+path+" HTTP/1.1\r\nHost: "+r.access.Host()+"\r\nCookie: "+cookie+"\r\nConnection: close\r\n\r\n")
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, string(body)
	}
	for path, want := range map[string][3]string{
		"/ui/":                 {"200", "text/html", "window"},
		"/ui/index.html":       {"200", "text/html", "window"},
		"/ui/chat/42":          {"200", "text/html", "window"},
		"/ui/assets/app-1.js":  {"200", "text/javascript", "let a"},
		"/ui/assets/app-1.css": {"200", "text/css", "a{}"},
		"/ui/assets/gone.js":   {"404", "text/plain", "404"},
		"/ui/../main.go":       {"404", "text/plain", "404"},
		"/ui/%2e%2e/main.go":   {"404", "text/plain", "404"},
		"/ui":                  {"404", "", ""},
	} {
		resp, body := get(path)
		assert.Equal(t, want[0], fmt.Sprint(resp.StatusCode), path)
		assert.Contains(t, resp.Header.Get("Content-Type"), want[1], path)
		assert.Contains(t, body, want[2], path)
		assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"), path)
		assert.NotEmpty(t, resp.Header.Get("Content-Security-Policy"), path)
	}
}

func TestWithoutAFrontendThePageSaysSo(t *testing.T) {
	r := newRig(t, func(d *server.Deps) { d.Frontend = fstest.MapFS{".gitkeep": {}} })
	status, text := r.call(t, "GET", "/ui/", "")
	assert.Equal(t, 200, status)
	assert.Contains(t, text, "was not built")
}

func TestThePageChatsThroughTheSameAPI(t *testing.T) {
	r := newRig(t)
	b := paths["/api/chat"]("hi", true)
	resp := raw(t, r.ui, fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nOrigin: http://%s\r\nSec-Fetch-Site: same-origin\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		r.access.Host(), enter(t, r), r.access.Host(), len(b), b))
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	assert.Contains(t, lines[len(lines)-1], `"llmeu":{"trace_id":"`+resp.Header.Get("X-Request-ID"))
}

func TestA08AddressesAreRandomAndCodesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := server.NewAccess(80, token)
		page := server.New(server.Deps{}).UI(access)
		open := func(link string) int {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest("GET", link, nil))
			return w.Code
		}
		first, late := access.URL(), access.URL()
		assert.Regexp(t, `^http://[0-9a-f]{32}\.localhost:80/ui/\?code=[0-9a-f]{32}$`, first)
		assert.NotEqual(t, first, late)
		time.Sleep(29 * time.Second)
		assert.Equal(t, 200, open(first))
		time.Sleep(2 * time.Second)
		assert.Equal(t, 403, open(late))
	})
}

func TestASavedChatKeepsItsToolCalls(t *testing.T) {
	r := newRig(t)
	status, text := r.call(t, "PUT", "/ui/chats/c1", `{"title":"t","messages":[{"role":"user","content":"weather?"},
		{"role":"assistant","content":"","tool_calls":[{"name":"get_weather","arguments":{"city":"Oslo","days":[1,2]}},{"name":"now"}]}]}`)
	require.Equal(t, 200, status, text)
	_, text = r.call(t, "GET", "/ui/chats/c1", "")
	assert.Contains(t, text, `"tool_calls":[{"name":"get_weather","arguments":{"city":"Oslo","days":[1,2]}},{"name":"now"}]`)
}
