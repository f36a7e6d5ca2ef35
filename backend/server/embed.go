package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"signalbox/backend/llm"
)

// embed turns inputs into vectors. Nothing to embed needs no model to run, only one that is there.
func (s *Server) embed(w *response, r *http.Request, req llm.Request, embed llm.EmbedRequest) (llm.Record, llm.Embedded, error) {
	pinDevice(r, &req)
	call := s.call(w, r, req)
	if len(embed.Inputs) == 0 {
		rec, err := s.deps.Dispatch.Load(r.Context(), call)
		return rec, llm.Embedded{}, err
	}
	embed.Model.Name = req.Model
	rec, out, err := s.deps.Dispatch.Embed(r.Context(), call, embed)
	if err != nil {
		return rec, out, err
	}
	rec.Clamped = slices.Clip(rec.Clamped) // the record is shared: add to a copy
	for _, i := range out.Truncated {      // a vector of half a text must not pass for one of the whole
		rec.Clamped = append(rec.Clamped, fmt.Sprintf("input[%d]", i))
	}
	setRecordHeaders(w.Header(), rec)
	return rec, out, nil
}

func notFound(err error) (*llm.Error, bool) {
	e, ok := errors.AsType[*llm.Error](err)
	return e, ok && e.Code == llm.CodeModelNotFound
}
