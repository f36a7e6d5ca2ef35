package server

import (
	"net/http"

	"github.com/gorilla/mux"

	"signalbox/backend/llm"
	"signalbox/backend/openai"
	"signalbox/backend/wire"
)

// openaiFrames are server-sent events.
type openaiFrames struct{ openai.Completion }

func (f openaiFrames) header(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("Connection", "keep-alive")
}
func (f openaiFrames) begin() []byte              { return event(f.Begin()) }
func (f openaiFrames) piece(d llm.Delta) []byte   { return event(f.Piece(d)) }
func (f openaiFrames) wait() []byte               { return []byte(": ping\n\n") }
func (f openaiFrames) failed(e *llm.Error) []byte { return event(openai.ErrorBody(e)) }
func (f openaiFrames) done(rec llm.Record, stats llm.Stats) [][]byte {
	var out [][]byte
	for _, object := range f.Done(rec, stats) {
		out = append(out, event(object))
	}
	return append(out, event([]byte("[DONE]")))
}
func (f openaiFrames) whole(text string, probs []llm.TokenLogprob, rec llm.Record, stats llm.Stats) []byte {
	return f.Whole(text, probs, rec, stats)
}

// event is one server-sent event.
func event(data []byte) []byte {
	out := make([]byte, 0, len(data)+8)
	out = append(out, "data: "...)
	out = append(out, data...)
	return append(out, "\n\n"...)
}

func (s *Server) openaiChat(w *response, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	req, err := openai.ParseChat(body)
	if err != nil {
		return err
	}
	pinDevice(r, &req.LLM)
	return named(s.generate(w, r, req.LLM, req.Stream, openaiFrames{openai.Completion{
		ID: "chatcmpl-" + w.trace, Created: w.arrived.Unix(), Model: req.Model,
		IncludeUsage: req.IncludeUsage, Logprobs: req.LLM.Logprobs,
	}}), req.Model)
}

func (s *Server) openaiEmbeddings(w *response, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	req, err := openai.ParseEmbeddings(body)
	if err != nil {
		return err
	}
	rec, out, err := s.embed(w, r, req.LLM, req.Embed)
	if err != nil {
		return named(err, req.Model)
	}
	return w.json(http.StatusOK, openai.EmbeddingsBody(req, rec, out))
}

func (s *Server) openaiModels(w *response, _ *http.Request) error {
	list, err := s.deps.Models.List()
	if err != nil {
		return err
	}
	return w.json(http.StatusOK, openai.ModelsBody(list))
}

func (s *Server) openaiModel(w *response, r *http.Request) error {
	id := mux.Vars(r)["model"]
	name, _ := wire.SplitDevice(id)
	m, err := s.deps.Models.Find(name)
	if err != nil {
		if e, ok := notFound(err); ok {
			return named(e, id)
		}
		return named(llm.Errorf(llm.CodeModelNotFound, "%w", err), id)
	}
	return w.json(http.StatusOK, openai.ModelBody(id, m))
}
