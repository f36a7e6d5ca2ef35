package server

import (
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/gorilla/mux"
)

const htmlType = "text/html; charset=utf-8"

// types are set here and not asked of the system: on Windows the registry may say that .js is text.
var types = map[string]string{
	".html": htmlType, ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".json": jsonType, ".map": jsonType, ".svg": "image/svg+xml", ".png": "image/png",
	".ico": "image/x-icon", ".webp": "image/webp", ".woff2": "font/woff2", ".woff": "font/woff", ".txt": textType,
	".webmanifest": "application/manifest+json", ".wasm": "application/wasm",
}

// page serves the window's files, and index.html for every address that the page makes up itself.
func (s *Server) page(access *Access) handler {
	return func(w *response, r *http.Request) error {
		if code := r.URL.Query().Get("code"); code != "" {
			return enter(w, r, access, code)
		}
		name := mux.Vars(r)["file"]
		if file, err := s.file(name); err == nil {
			return w.send(http.StatusOK, typeOf(name), file)
		}
		if path.Ext(name) != "" && name != "index.html" {
			return w.send(http.StatusNotFound, textType, []byte("404 page not found"))
		}
		index, err := s.file("index.html")
		if err != nil {
			return w.send(http.StatusOK, htmlType, []byte(notBuiltPage))
		}
		return w.send(http.StatusOK, htmlType, index)
	}
}

func (s *Server) file(name string) ([]byte, error) {
	if s.deps.Frontend == nil || !fs.ValidPath(name) {
		return nil, fs.ErrNotExist
	}
	return fs.ReadFile(s.deps.Frontend, name)
}

func typeOf(name string) string {
	if t, known := types[strings.ToLower(path.Ext(name))]; known {
		return t
	}
	return "application/octet-stream"
}

// enter turns a one-time code into the session's cookie. It answers with a page that goes on to /ui/ by itself, not with a
// redirect: browsers hold a SameSite=Strict cookie back on a redirect that began on another site, such as the file or the
// window that opened this address.
func enter(w *response, r *http.Request, access *Access, code string) error {
	if !access.redeem(code) && !access.hasSession(r) {
		return w.send(http.StatusForbidden, textType, []byte("This link was used already or is too old. Open the window from the tray, or run: signalbox open"))
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: access.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	return w.send(http.StatusOK, htmlType, []byte(enterPage))
}

const enterPage = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Signalbox</title>
<meta http-equiv="refresh" content="0;url=/ui/"><p><a href="/ui/">Signalbox</a></p></html>`

const notBuiltPage = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Signalbox</title>
<h1>Signalbox runs, but its page was not built</h1>
<p>This program was built without the frontend. Run <code>make build</code>, which builds it first. The API works all the same.</p></html>`
