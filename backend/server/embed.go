package server

import (
	"fmt"
	"net/http"
	"slices"

	"signalbox/backend/llm"
)

// embed turns inputs into vectors. Nothing to embed needs no model to run, only one that is there.
func (s *Server) embed(w *response, r *http.Request, req llm.Request, embed llm.EmbedRequest) (llm.Record, llm.Embedded, error) {
	if err := pinDevice(r, &req); err != nil {
		return llm.Record{}, llm.Embedded{}, err
	}
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
