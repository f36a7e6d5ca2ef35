package server

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/brief"
)

const (
	sessionCookie = "signalbox_session"
	codeLife      = 30 * time.Second
)

// Access says who may use the window's listener: the window or browser that came with a one-time code, and programs that
// know the instance's token.
//
// The page lives under a random name below localhost, because cookies ignore ports: under 127.0.0.1 every other server on
// this machine would get the session's cookie with one <img>.
type Access struct {
	host    string // "<32 hex>.localhost:PORT"
	port    string
	token   string
	session string

	mu    sync.Mutex
	codes map[string]time.Time // one-time codes and when they end; guarded by mu
}

// NewAccess makes the secrets for a listener on port. token is the instance's own, for the command line.
func NewAccess(port int, token string) *Access {
	return &Access{
		host: secret(16) + ".localhost:" + strconv.Itoa(port), port: strconv.Itoa(port), token: token, session: secret(32),
		codes: map[string]time.Time{},
	}
}

func secret(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// Host is the only name under which the page answers.
func (a *Access) Host() string { return a.host }

// URL is the page's address with a new one-time code: open it within 30 s.
func (a *Access) URL() string {
	code := secret(16)
	a.mu.Lock()
	defer a.mu.Unlock()
	for old, end := range a.codes {
		if time.Now().After(end) {
			delete(a.codes, old)
		}
	}
	a.codes[code] = time.Now().Add(codeLife)
	return "http://" + a.host + "/ui/?code=" + code
}

// redeem uses a code up.
func (a *Access) redeem(code string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	end, known := a.codes[code]
	delete(a.codes, code)
	return known && time.Now().Before(end)
}

func (a *Access) hasSession(r *http.Request) bool {
	for _, c := range r.CookiesNamed(sessionCookie) {
		if equal(c.Value, a.session) {
			return true
		}
	}
	return false
}

func (a *Access) hasToken(r *http.Request) bool {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return bearer && a.token != "" && equal(token, a.token)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// uiGuard protects the window's listener.
type uiGuard struct{ access *Access }

func (g uiGuard) check(w *response, r *http.Request) (visitor, bool, *llm.Error) {
	setPageHeaders(w.Header())
	a := g.access
	program := a.hasToken(r)
	switch {
	case strings.EqualFold(r.Host, a.host):
	case program && a.isLoopback(r.Host):
	default:
		return visitor{}, false, forbidden("this is the Signalbox window's own address: open the window from the tray, or run signalbox")
	}
	if err := refuseUpgrade(r); err != nil {
		return visitor{}, false, err
	}
	origin, err := originOf(r)
	if err != nil {
		return visitor{}, false, err
	}
	if origin != "" && origin != "http://"+a.host {
		return visitor{}, false, forbidden("the origin %q may not use the Signalbox window", brief.Text(origin))
	}
	entry := isEntry(r)
	if !entry && !ownFetch(r) {
		return visitor{}, false, forbidden("this request comes from another web page (Sec-Fetch-Site: %s)", brief.Text(r.Header.Get("Sec-Fetch-Site")))
	}
	window := a.hasSession(r)
	if !window && !program && !entry {
		return visitor{}, false, forbidden("the session has ended or never was: open the window from the tray, or run signalbox open")
	}
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, DELETE")
		w.WriteHeader(http.StatusNoContent)
		return visitor{}, false, nil
	}
	return visitor{window: window && !program, ui: true, origin: origin, exact: true}, true, nil
}

// isLoopback accepts this listener by address, for programs that cannot resolve names below localhost.
func (a *Access) isLoopback(host string) bool {
	return host == net.JoinHostPort("127.0.0.1", a.port) || host == net.JoinHostPort("::1", a.port)
}

// isEntry is the first page load with a one-time code, which comes from the tray, a file or another window.
func isEntry(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/ui/" && r.URL.Query().Get("code") != ""
}

// ownFetch refuses what a browser says another page wants, on the same machine too.
func ownFetch(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return false
}

// setPageHeaders keeps the page to itself: no other host can be reached from it, whatever a model writes into it.
func setPageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; "+
		"img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
}
