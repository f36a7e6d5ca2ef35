//go:build linux

package desktop

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shim lets WebKitWebDriver drive an unmodified release binary: Wails never allows automation itself.
//
//go:embed shim/wkauto.c
var shim string

// Page drives what a window shows, by the W3C WebDriver protocol.
type Page struct {
	session string // address of the session
	client  *http.Client
	desk    *Desktop
	native  bool // in a window of its own: pictures are taken from the display
}

// Wails starts a Wails program with its window under WebKitWebDriver. The program ends with the test, or with the driver's
// session, whichever is first.
func (d *Desktop) Wails(t testing.TB, bin string, args ...string) *Page {
	t.Helper()
	source := d.copyTo(t, "wkauto.c", 0o600, shim)
	library := strings.TrimSuffix(source, ".c") + ".so"
	flags, err := exec.Command("pkg-config", "--cflags", "--libs", "webkit2gtk-4.1").Output()
	require.NoError(t, err, "libwebkit2gtk-4.1-dev is needed")
	out, err := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-O1", "-o", library, source}, strings.Fields(string(flags))...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	log := library + ".log"
	wrapper := d.copyTo(t, "drive.sh", 0o700, fmt.Sprintf("#!/bin/sh\nexec env LD_PRELOAD='%s' '%s' \"$@\" >>'%s' 2>&1\n", library, bin, log))
	t.Cleanup(func() {
		if text, _ := os.ReadFile(log); t.Failed() {
			t.Logf("the driven program said:\n%s", text)
		}
	})
	p := d.drive(t, "WebKitWebDriver", map[string]any{
		"webkitgtk:browserOptions": map[string]any{"binary": wrapper, "args": append([]string{}, args...)},
	})
	p.native = true
	return p
}

// Chromium opens an address in a headless Chromium: the nearest thing to WebView2 that runs here.
func (d *Desktop) Chromium(t testing.TB, address string) *Page {
	t.Helper()
	p := d.drive(t, "chromedriver", map[string]any{
		"goog:chromeOptions": map[string]any{"binary": "/usr/bin/chromium", "args": []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1100,760"}},
	})
	p.Go(t, address)
	return p
}

func (d *Desktop) drive(t testing.TB, driver string, capabilities map[string]any) *Page {
	t.Helper()
	port := freePort(t)
	d.background(t, driver, "--port="+port)
	base := "http://127.0.0.1:" + port
	client := &http.Client{Timeout: 2 * Patience}
	require.Eventually(t, func() bool {
		resp, err := client.Get(base + "/status")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	}, Patience, 20*time.Millisecond, "%s does not answer", driver)
	p := &Page{session: base, client: client, desk: d}
	var session struct {
		ID string `json:"sessionId"`
	}
	require.NoError(t, p.do(http.MethodPost, "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": capabilities}}, &session))
	p.session = base + "/session/" + session.ID
	t.Cleanup(func() { _ = p.do(http.MethodDelete, "", nil, nil) }) // the window may be gone already
	return p
}

func freePort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// do calls the driver and stores the answer's value in out, unless that is nil.
func (p *Page) do(method, path string, body, out any) error {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, p.session+path, payload)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, data)
	}
	if out == nil {
		return nil
	}
	answer := struct {
		Value any `json:"value"`
	}{out}
	return json.Unmarshal(data, &answer)
}

// Go opens an address.
func (p *Page) Go(t testing.TB, address string) {
	t.Helper()
	require.NoError(t, p.do(http.MethodPost, "/url", map[string]any{"url": address}, nil))
}

// URL is the address that is shown.
func (p *Page) URL(t testing.TB) string {
	t.Helper()
	var address string
	require.NoError(t, p.do(http.MethodGet, "/url", nil, &address))
	return address
}

// Eval runs a function body in the page and returns what it returns; args are in arguments.
func (p *Page) Eval(t testing.TB, script string, args ...any) any {
	t.Helper()
	value, err := p.TryEval(script, args...)
	require.NoError(t, err)
	return value
}

// TryEval is Eval for pages that may be loading.
func (p *Page) TryEval(script string, args ...any) (any, error) {
	var value any
	err := p.do(http.MethodPost, "/execute/sync", map[string]any{"script": script, "args": append([]any{}, args...)}, &value)
	return value, err
}

// Until waits until a function body returns something true.
func (p *Page) Until(t testing.TB, script string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool {
		value, err := p.TryEval(script, args...)
		return err == nil && value != nil && value != false && value != "" && value != 0.0
	}, Patience, 50*time.Millisecond, "never true: %s", script)
}

// Click clicks the first element that a CSS selector finds, once it is there.
func (p *Page) Click(t testing.TB, selector string) {
	t.Helper()
	require.NoError(t, p.do(http.MethodPost, "/element/"+p.find(t, selector)+"/click", map[string]any{}, nil))
}

// Type sends keys to an element, as the keyboard does. "\ue007" is Enter.
func (p *Page) Type(t testing.TB, selector, text string) {
	t.Helper()
	require.NoError(t, p.do(http.MethodPost, "/element/"+p.find(t, selector)+"/value", map[string]any{"text": text}, nil))
}

// Text is what an element shows.
func (p *Page) Text(t testing.TB, selector string) string {
	t.Helper()
	var text string
	require.NoError(t, p.do(http.MethodGet, "/element/"+p.find(t, selector)+"/text", nil, &text))
	return text
}

func (p *Page) find(t testing.TB, selector string) string {
	t.Helper()
	var element map[string]string
	var last atomic.Value // why it was not found
	require.Eventually(t, func() bool {
		err := p.do(http.MethodPost, "/element", map[string]any{"using": "css selector", "value": selector}, &element)
		if err != nil {
			last.Store(err.Error())
		}
		return err == nil
	}, Patience, 50*time.Millisecond, "no element %q: %v", selector, &last)
	for _, id := range element {
		return id
	}
	return ""
}

// Screenshot writes a PNG of the page, or of the display with the window that shows it: WebKit's driver waits for the next change of
// the page before it takes a picture, and a page that has settled has none.
func (p *Page) Screenshot(t testing.TB, path string) {
	t.Helper()
	if p.native {
		p.desk.Screenshot(t, path)
		return
	}
	var encoded string
	require.NoError(t, p.do(http.MethodGet, "/screenshot", nil, &encoded))
	data, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o644))
}
