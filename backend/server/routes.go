package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"signalbox/backend/llm"
	"signalbox/internal/brief"
)

// handler answers one route. An error before the first byte becomes the dialect's body.
type handler func(w *response, r *http.Request) error

// route is one line of the list. Every route there is stands in apiRoutes, publicRoutes or uiRoutes.
type route struct {
	method  string
	path    string
	dialect dialect
	handler handler
	changes bool // of models: not for web pages, unless their origin stands in the settings
}

// apiRoutes is the API: public, and on the window's listener too. GET and HEAD change nothing.
func (s *Server) apiRoutes() []route {
	o, ai := ollamaDialect, openaiDialect
	return append(s.modelRoutes(), []route{
		{"GET", "/", o, s.ollamaRoot, false},
		{"HEAD", "/", o, s.ollamaRoot, false},
		{"GET", "/api/version", o, s.ollamaVersion, false},
		{"HEAD", "/api/version", o, s.ollamaVersion, false},
		{"GET", "/api/tags", o, s.ollamaTags, false},
		{"HEAD", "/api/tags", o, s.ollamaTags, false},
		{"GET", "/api/ps", o, s.ollamaPs, false},
		{"POST", "/api/show", o, s.ollamaShow, false},
		{"POST", "/api/chat", o, s.ollamaChat, false},
		{"POST", "/api/generate", o, s.ollamaGenerate, false},
		{"POST", "/api/embed", o, s.ollamaEmbed, false},
		{"POST", "/api/embeddings", o, s.ollamaEmbeddings, false},

		{"GET", "/health", o, s.health, false},
		{"GET", "/health/liveness", o, s.liveness, false},
		{"GET", "/health/readiness", o, s.readiness, false},
		{"GET", "/health/devices", o, s.healthDevices, false},

		{"POST", "/api/route/explain", o, s.explainRoute, false},
		{"GET", "/api/status", o, s.ollamaStatus, false},
		{"POST", "/api/me", o, noAccount, false},
		{"POST", "/api/signout", o, noAccount, false},
		{"DELETE", "/api/user/keys/{key}", o, noAccount, false},
		{"POST", "/api/experimental/web_search", o, noAccount, false},
		{"POST", "/api/experimental/web_fetch", o, noAccount, false},

		{"POST", "/v1/chat/completions", ai, s.openaiChat, false},
		{"POST", "/v1/completions", ai, s.openaiCompletions, false},
		{"POST", "/v1/responses", ai, s.openaiResponses, false},
		{"POST", "/v1/embeddings", ai, s.openaiEmbeddings, false},
		{"GET", "/v1/models", ai, s.v1Models, false},
		{"GET", "/v1/models/{model:.+}", ai, s.v1Model, false},

		{"POST", "/v1/messages", anthropicDialect, s.anthropicMessages, false},
		{"POST", "/v1/messages/count_tokens", anthropicDialect, s.anthropicCount, false},
	}...)
}

// publicRoutes is what the public port serves.
func (s *Server) publicRoutes() []route {
	return append(s.apiRoutes(),
		route{"GET", "/metrics", ollamaDialect, s.metricsPublic, false},
		route{"GET", "/openapi.json", ollamaDialect, openapi, false})
}

// notBuilt is the answer of routes that clients know and this version has not.
func notBuilt(_ *response, r *http.Request) error {
	return withStatus(http.StatusNotImplemented, llm.Errorf(llm.CodeUnsupported, "%s %s is not supported by this version of Signalbox yet", r.Method, r.URL.Path))
}

// router makes the handler of a list of routes. Paths are taken as they are: cleaning them would answer a POST with a redirect,
// which clients follow with a GET.
func (s *Server) router(routes []route) http.Handler {
	m := mux.NewRouter().SkipClean(true)
	for _, rt := range routes {
		m.Handle(rt.path, s.handle(rt)).Methods(rt.method)
	}
	m.NotFoundHandler = s.notFound(routes)
	m.MethodNotAllowedHandler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*response)
		w.Header().Set("Allow", strings.Join(methodsOf(routes, r.URL.Path), ", "))
		if isV1(r) {
			s.fail(w, r, dialectOf(r), withStatus(http.StatusMethodNotAllowed, llm.Errorf(llm.CodeInvalid, "%s %s: method not allowed", r.Method, r.URL.Path)))
			return
		}
		_ = w.send(http.StatusMethodNotAllowed, plainType, []byte("405 method not allowed"))
	})
	return m
}

func (s *Server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*response)
		err := mayChange(rt, visitorOf(r))
		if err == nil {
			err = rt.handler(w, r)
		}
		if err != nil {
			d := rt.dialect
			if isAnthropic(r) {
				d = anthropicDialect
			}
			s.fail(w, r, d, err)
		}
	})
}

// isV1 tells whether a request is for a dialect whose every error is JSON.
func isV1(r *http.Request) bool { return r.URL.Path == "/v1" || strings.HasPrefix(r.URL.Path, "/v1/") }

// mayChange keeps models from web pages: a page at http://localhost:3000 may chat, and its XSS may not delete.
func mayChange(rt route, who visitor) error {
	if rt.changes && who.origin != "" && !who.exact {
		return forbidden("the origin %q may use models but not change them: add it under origins in the settings, letter by letter, if it should", brief.Text(who.origin))
	}
	return nil
}

func methodsOf(routes []route, path string) []string {
	var methods []string
	for _, rt := range routes {
		if matches(rt.path, path) {
			methods = append(methods, rt.method)
		}
	}
	return methods
}

// matches is mux's matching for the few patterns that are used here.
func matches(pattern, path string) bool {
	prefix, variable, found := strings.Cut(pattern, "{")
	if !found {
		return pattern == path
	}
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok || (rest == "" && !strings.Contains(variable, ":.*")) {
		return false
	}
	_, tail, _ := strings.Cut(variable, "}")
	if strings.Contains(variable, ":.") {
		return strings.HasSuffix(rest, tail)
	}
	name, ok := strings.CutSuffix(rest, tail)
	return ok && name != "" && !strings.Contains(name, "/")
}

// notFound answers what no route takes. A wrong base URL is the commonest mistake there is, so a path that ends like one of
// ours is told the right one.
func (s *Server) notFound(routes []route) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*response)
		meant, ok := nearest(routes, r.URL.Path)
		if !ok && isV1(r) {
			s.fail(w, r, dialectOf(r), withStatus(http.StatusNotFound, llm.Errorf(llm.CodeInvalid, "unknown request URL: %s %s", r.Method, brief.Text(r.URL.Path))))
			return
		}
		if !ok {
			_ = w.send(http.StatusNotFound, plainType, []byte("404 page not found"))
			return
		}
		s.fail(w, r, meant.dialect, withStatus(http.StatusNotFound, llm.Errorf(llm.CodeInvalid,
			"%s %s is not here: the URL is http://%s%s (%s)", r.Method, brief.Text(r.URL.Path), r.Host, brief.Text(meant.url), baseURL(r.Host, meant.url))))
	})
}

// baseURL names what people have to type into a client.
func baseURL(host, path string) string {
	switch {
	case strings.HasPrefix(path, "/v1/messages"):
		return fmt.Sprintf("the base URL of Anthropic clients is http://%s, without /v1", host)
	case strings.HasPrefix(path, "/v1/"):
		return fmt.Sprintf("the base URL of OpenAI clients is http://%s/v1", host)
	}
	return fmt.Sprintf("the base URL of Ollama clients is http://%s, without a path", host)
}

type guess struct {
	url     string
	dialect dialect
}

// nearest finds the route that a path was meant for: the same last parts, with whatever in front, or without our /v1 or /api.
func nearest(routes []route, path string) (guess, bool) {
	parts := slices.DeleteFunc(strings.Split(strings.ToLower(path), "/"), func(p string) bool { return p == "" || p == "." || p == ".." })
	for i := range parts {
		tail := strings.Join(parts[i:], "/")
		for _, prefix := range []string{"/", "/v1/", "/api/"} {
			for _, rt := range routes {
				if rt.path != "/" && !strings.HasPrefix(rt.path, "/ui/") && matches(rt.path, prefix+tail) {
					return guess{prefix + tail, rt.dialect}, true
				}
			}
		}
	}
	return guess{}, false
}
