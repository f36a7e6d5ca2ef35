package server

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"signalbox/backend/llm"
	"signalbox/internal/brief"
)

// publicGuard protects the API server from web pages. It asks for no key: every program of this machine may use it.
type publicGuard struct {
	origins func() []string // allowed beside the usual ones
}

func (g publicGuard) check(w *response, r *http.Request) (visitor, bool, *llm.Error) {
	w.Header().Add("Vary", "Origin")
	if !loopbackHost(r.Host) {
		// A name can be made to point here by whoever owns it (DNS rebinding); localhost and literals cannot.
		return visitor{}, false, forbidden("the Host header %q is not this machine: use http://127.0.0.1 or http://localhost", brief.Text(r.Host))
	}
	if err := refuseUpgrade(r); err != nil {
		return visitor{}, false, err
	}
	origin, err := originOf(r)
	if err != nil {
		return visitor{}, false, err
	}
	if origin == "" {
		if !ownFetch(r) { // also of the same site: every port of localhost is one
			return visitor{}, false, forbidden("this request comes from another web page (Sec-Fetch-Site: %s)", brief.Text(r.Header.Get("Sec-Fetch-Site")))
		}
		return visitor{}, !answerOptions(w, r), nil
	}
	allowed, exact := originAllowed(origin, g.origins())
	if !allowed {
		return visitor{}, false, forbidden("the origin %q may not use this server: add it under origins in the settings if you trust it", brief.Text(origin))
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
	return visitor{origin: origin, exact: exact}, !answerOptions(w, r), nil
}

func forbidden(format string, args ...any) *llm.Error {
	return llm.Errorf(llm.CodeForbidden, format, args...)
}

// loopbackHost accepts localhost and loopback or unspecified addresses, with a numeric port or none. Nothing else: "*.local"
// and "*.localhost" are names that others can answer for.
func loopbackHost(host string) bool {
	name, ok := splitPort(host)
	if !ok {
		return false
	}
	if literal, bracketed := strings.CutPrefix(name, "["); bracketed {
		addr, err := netip.ParseAddr(strings.TrimSuffix(literal, "]"))
		return err == nil && addr.Is6() && addr.Zone() == "" && (addr.IsLoopback() || addr.IsUnspecified())
	}
	if strings.ToLower(name) == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Is4() && (addr.IsLoopback() || addr.IsUnspecified())
}

// splitPort takes a port off, which must be a number. The name keeps its brackets.
func splitPort(host string) (name string, ok bool) {
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return "", false
		}
		rest := host[end+1:]
		return host[:end+1], rest == "" || (rest[0] == ':' && isPort(rest[1:]))
	}
	name, port, found := strings.Cut(host, ":")
	return name, name != "" && (!found || isPort(port))
}

func isPort(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// refuseUpgrade refuses WebSockets, which no CORS rule protects. Other upgrades (Java's client offers h2c with every
// request) are offers that a server may leave unanswered, and we do.
func refuseUpgrade(r *http.Request) *llm.Error {
	for _, v := range r.Header.Values("Upgrade") {
		if strings.Contains(strings.ToLower(v), "websocket") {
			return llm.Errorf(llm.CodeInvalid, "there are no WebSockets here")
		}
	}
	return nil
}

// originOf is the Origin header; more than one is no browser's doing.
func originOf(r *http.Request) (string, *llm.Error) {
	values := r.Header.Values("Origin")
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || values[0] == "":
		return "", forbidden("the Origin header must be there once or not at all")
	}
	return values[0], nil
}

// Schemes whose pages are programs on this machine: what comes after does not matter.
var localSchemes = []string{
	"app", "tauri", "vscode-webview", "vscode-file",
	"chrome-extension", "moz-extension", "safari-extension", "safari-web-extension", "ms-browser-extension",
}

// originAllowed compares scheme and host whole. exact tells that more lists the origin letter by letter: such an origin was
// trusted by name, and may change models too.
func originAllowed(origin string, more []string) (allowed, exact bool) {
	if slices.Contains(more, origin) {
		return true, true
	}
	if origin == "file://" { // never "null", which every sandboxed frame has
		return true, false
	}
	u, ok := parseOrigin(origin)
	if !ok {
		return false, false
	}
	switch u.Scheme {
	case "http", "https":
		if slices.Contains([]string{"localhost", "127.0.0.1", "0.0.0.0", "::1"}, u.Hostname()) {
			return true, false
		}
	default:
		if slices.Contains(localSchemes, u.Scheme) {
			return true, false
		}
	}
	return slices.ContainsFunc(more, func(pattern string) bool { return originMatches(pattern, u) }), false
}

// parseOrigin reads scheme://host[:port] and nothing more.
func parseOrigin(origin string) (*url.URL, bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" ||
		u.ForceQuery || strings.HasSuffix(origin, "#") || strings.HasSuffix(u.Host, ":") {
		return nil, false
	}
	return u, true
}

// originMatches compares with a pattern from the settings or OLLAMA_ORIGINS: "*", "https://app.example",
// "http://box:3000", "http://box:*", "https://*.example", "myapp://*".
func originMatches(pattern string, u *url.URL) bool {
	if pattern == "*" {
		return true
	}
	scheme, host, ok := strings.Cut(strings.ToLower(strings.TrimSpace(pattern)), "://")
	if !ok || scheme != u.Scheme {
		return false
	}
	if host == "*" {
		return true
	}
	have := strings.ToLower(u.Host)
	if base, anyPort := strings.CutSuffix(host, ":*"); anyPort {
		host, have = base, strings.TrimSuffix(have, ":"+u.Port())
	}
	if domain, below := strings.CutPrefix(host, "*."); below {
		return strings.HasSuffix(have, "."+domain)
	}
	return have == host
}

const exposedHeaders = "X-Request-ID, X-NPU-Proxy-Device, X-NPU-Proxy-Routed-Device, X-NPU-Proxy-Execution-Device, " +
	"X-NPU-Proxy-Fallback-Reason, X-NPU-Proxy-Route-Reason, X-NPU-Proxy-Token-Count"

// allowedHeaders are Ollama's, and those without which Anthropic's browser clients fail.
const allowedHeaders = "Authorization, Content-Type, User-Agent, Accept, X-Requested-With, OpenAI-Beta, " +
	"x-stainless-arch, x-stainless-async, x-stainless-custom-poll-interval, x-stainless-helper-method, x-stainless-lang, " +
	"x-stainless-os, x-stainless-package-version, x-stainless-poll-helper, x-stainless-retry-count, x-stainless-runtime, " +
	"x-stainless-runtime-version, x-stainless-timeout, x-api-key, anthropic-version, anthropic-beta, " +
	"anthropic-dangerous-direct-browser-access, X-Request-ID, X-Signalbox-Device"

// answerOptions answers OPTIONS for all routes, preflight or not, and reports whether it did. Access-Control-Allow-Private-Network is
// never sent: a page that needs it is not one of ours.
func answerOptions(w *response, r *http.Request) bool {
	if r.Method != http.MethodOptions {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS")
	h.Set("Access-Control-Allow-Headers", allowedHeaders)
	h.Set("Access-Control-Max-Age", "43200")
	w.WriteHeader(http.StatusNoContent)
	return true
}
