package server

import (
	"net/http"

	"signalbox/backend/anthropic"
	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

// anthropicFrames are the events of /v1/messages.
type anthropicFrames struct {
	*anthropic.Message
	trace string
}

func (f anthropicFrames) header(h http.Header)        { eventStream(h) }
func (f anthropicFrames) begin(rec llm.Record) []byte { return f.Begin(rec) }
func (f anthropicFrames) piece(d llm.Delta) []byte    { return f.Piece(d) }
func (f anthropicFrames) wait() []byte                { return f.Wait() }
func (f anthropicFrames) failed(e *llm.Error) []byte  { return anthropic.ErrorEvent(e, f.trace) }
func (f anthropicFrames) done(rec llm.Record, stats llm.Stats) []byte {
	return f.Done(rec, stats)
}
func (f anthropicFrames) whole(answer *wire.Parts, rec llm.Record, stats llm.Stats) []byte {
	return f.Whole(answer, rec, stats)
}

func (s *Server) anthropicMessages(w *response, r *http.Request) error {
	setRequestID(w)
	req, err := parseBody(w, r, anthropic.ParseMessages)
	if err != nil {
		return err
	}
	if err := pinDevice(r, &req.LLM); err != nil {
		return err
	}
	return named(s.generate(w, r, req.LLM, req.Stream, anthropicFrames{&anthropic.Message{
		ID: "msg_" + w.trace, Model: req.Model, Stops: req.LLM.Stop,
	}, w.trace}), req.Model)
}

func (s *Server) anthropicCount(w *response, r *http.Request) error {
	setRequestID(w)
	req, err := parseBody(w, r, anthropic.ParseCount)
	if err != nil {
		return err
	}
	tokens, err := s.deps.Dispatch.Count(r.Context(), s.call(w, r, req.LLM))
	if err != nil {
		return named(err, req.Model)
	}
	return w.json(http.StatusOK, anthropic.CountBody(tokens))
}

// setRequestID gives the id where Anthropic's libraries look for it.
func setRequestID(w *response) { w.Header().Set("request-id", anthropic.RequestID(w.trace)) }
