package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"signalbox/backend/dispatch"
	"signalbox/backend/llm"
	"signalbox/backend/ollama"
	"signalbox/backend/wire"
	"signalbox/internal/brief"
)

// parseBody reads a request's body and hands it to its dialect.
func parseBody[T any](w *response, r *http.Request, parse func([]byte) (T, error)) (T, error) {
	body, err := readBody(w, r)
	if err != nil {
		var none T
		return none, err
	}
	return parse(body)
}

// pinDevice takes the device from a header, for clients that can set nothing else. The body's own word comes first.
func pinDevice(r *http.Request, req *llm.Request) error {
	if req.Device != "" {
		return nil
	}
	for _, asked := range r.Header.Values("X-Signalbox-Device") {
		if asked == "" {
			continue
		}
		id, ok := wire.Device(asked)
		if !ok {
			return llm.Errorf(llm.CodeInvalid, "the header X-Signalbox-Device must be npu, gpu or cpu, with a number behind it (gpu:1) where there are several, not %q", brief.Text(asked))
		}
		if req.Device != "" && req.Device != id {
			return llm.Errorf(llm.CodeInvalid, "the header X-Signalbox-Device names %s and %s: send it once", req.Device, id)
		}
		req.Device = id
	}
	return nil
}

// able refuses what a model cannot do, in Ollama's words: to think when it was asked for, and to fill in the middle. In the other
// dialects a wish to think is only noted: their clients send it with every request.
func (s *Server) able(req llm.Request, asked string) error {
	think := req.Think != nil && req.Think.Enabled
	if !think && req.Suffix == "" {
		return nil
	}
	m, err := s.deps.Models.Find(req.Model)
	switch {
	case err != nil:
		return err
	case req.Suffix != "" && !slices.Contains(m.Capabilities, "insert"):
		return llm.Errorf(llm.CodeUnsupported, "%q does not support insert", asked)
	case think && !slices.Contains(m.Capabilities, "thinking"):
		return llm.Errorf(llm.CodeUnsupported, "%q does not support thinking", asked)
	}
	return nil
}

// call describes a request to the dispatcher.
func (s *Server) call(w *response, r *http.Request, req llm.Request) dispatch.Call {
	req.Owner = owner(r)
	s.logTools(w, req)
	return dispatch.Call{
		Request: req, TraceID: w.trace, Route: r.URL.Path, Client: clientName(r), UserAgent: userAgent(r), Arrived: w.arrived,
	}
}

// owner tells whose prompts may go on from each other: the window's, and those of callers with the same key. Any key is taken and
// proves nothing, but who does not know another's cannot ask through prefix slots what the other has said. It is not the key itself,
// which nobody needs to see.
func owner(r *http.Request) string {
	key := r.Header.Get("X-Api-Key")
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(token) != "" {
		key = "bearer " + strings.TrimSpace(token)
	}
	switch {
	case visitorOf(r).ui:
		return "window"
	case key == "":
		return "api"
	}
	sum := sha256.Sum256([]byte("signalbox owner\x00" + key))
	return "api " + hex.EncodeToString(sum[:16])
}

// logTools names the tools that a model will not get: an agent that misses one may behave oddly.
func (s *Server) logTools(w *response, req llm.Request) {
	var left []string
	for _, path := range req.Ignored {
		if strings.HasPrefix(path, "tools[") {
			left = append(left, path)
		}
	}
	if left != nil {
		s.log.Info("tools of types that are not functions are left out", "tools", left, "trace", w.trace)
	}
}

// named makes "not found" speak of the model as the caller wrote it, in the words that clients know; what to do about it
// stays behind it.
func named(err error, model string) error {
	if e, ok := notFound(err); ok {
		return &llm.Error{Code: e.Code, Message: ollama.ModelNotFound(model), Hint: e.Hint, Param: "model", Cause: e}
	}
	return err
}

func notFound(err error) (*llm.Error, bool) {
	e, ok := errors.AsType[*llm.Error](err)
	return e, ok && e.Code == llm.CodeModelNotFound
}
