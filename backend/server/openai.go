package server

import (
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"signalbox/backend/anthropic"
	"signalbox/backend/llm"
	"signalbox/backend/openai"
	"signalbox/backend/wire"
)

// openaiFrames are server-sent events.
type openaiFrames struct{ *openai.Completion }

func (f openaiFrames) header(h http.Header)       { eventStream(h) }
func (f openaiFrames) begin(llm.Record) []byte    { return events(f.Begin()) }
func (f openaiFrames) piece(d llm.Delta) []byte   { return events(f.Piece(d)...) }
func (f openaiFrames) wait() []byte               { return []byte(": ping\n\n") }
func (f openaiFrames) failed(e *llm.Error) []byte { return events(openai.ErrorBody(e)) }
func (f openaiFrames) done(rec llm.Record, stats llm.Stats) []byte {
	return events(append(f.Done(rec, stats), terminator)...)
}
func (f openaiFrames) whole(answer *wire.Parts, rec llm.Record, stats llm.Stats) []byte {
	return f.Whole(answer, rec, stats)
}

// textFrames are those of the older completions.
type textFrames struct {
	*openai.TextCompletion
	prompt string
}

func (f textFrames) header(h http.Header)       { eventStream(h) }
func (f textFrames) wait() []byte               { return []byte(": ping\n\n") }
func (f textFrames) failed(e *llm.Error) []byte { return events(openai.ErrorBody(e)) }
func (f textFrames) begin(llm.Record) []byte {
	if first := f.Begin(); first != nil {
		return events(first)
	}
	return nil
}
func (f textFrames) piece(d llm.Delta) []byte {
	if d.Text == "" && d.Thinking == "" && len(d.Logprobs) == 0 {
		return nil
	}
	return events(f.Piece(d))
}
func (f textFrames) done(rec llm.Record, stats llm.Stats) []byte {
	return events(append(f.Done(rec, stats), terminator)...)
}
func (f textFrames) whole(answer *wire.Parts, rec llm.Record, stats llm.Stats) []byte {
	return f.Whole([]openai.TextAnswer{{Prompt: f.prompt, Parts: answer, Stats: stats, Record: rec}})
}

// responseFrames are the events of /v1/responses.
type responseFrames struct{ *openai.Response }

func (f responseFrames) header(h http.Header)                        { eventStream(h) }
func (f responseFrames) begin(llm.Record) []byte                     { return f.Begin() }
func (f responseFrames) piece(d llm.Delta) []byte                    { return f.Piece(d) }
func (f responseFrames) wait() []byte                                { return f.Wait() }
func (f responseFrames) failed(e *llm.Error) []byte                  { return f.Failed(e) }
func (f responseFrames) done(rec llm.Record, stats llm.Stats) []byte { return f.Done(rec, stats) }
func (f responseFrames) whole(answer *wire.Parts, rec llm.Record, stats llm.Stats) []byte {
	return f.Whole(answer, rec, stats)
}

var terminator = []byte("[DONE]")

// events are server-sent events without a name.
func events(objects ...[]byte) []byte {
	var out []byte
	for _, object := range objects {
		out = append(out, wire.Event("", object)...)
	}
	return out
}

func (s *Server) openaiChat(w *response, r *http.Request) error {
	req, err := parseBody(w, r, openai.ParseChat)
	if err != nil {
		return err
	}
	if err := pinDevice(r, &req.LLM); err != nil {
		return err
	}
	return named(s.generate(w, r, req.LLM, req.Stream, openaiFrames{&openai.Completion{
		ID: "chatcmpl-" + w.trace, Created: w.arrived.Unix(), Model: req.Model,
		IncludeUsage: req.IncludeUsage, Logprobs: req.LLM.Logprobs,
	}}), req.Model)
}

func (s *Server) openaiCompletions(w *response, r *http.Request) error {
	req, err := parseBody(w, r, openai.ParseCompletions)
	if err != nil {
		return err
	}
	if err := s.able(req.LLM, req.Model); err != nil {
		return named(err, req.Model)
	}
	if err := pinDevice(r, &req.LLM); err != nil {
		return err
	}
	f := textFrames{TextCompletion: &openai.TextCompletion{
		ID: "cmpl-" + w.trace, Created: w.arrived.Unix(), Model: req.Model, IncludeUsage: req.IncludeUsage, Logprobs: req.LLM.Logprobs,
	}}
	if req.Echo {
		f.Echo, f.prompt = req.Prompts[0], req.Prompts[0]
	}
	if len(req.Prompts) > 1 {
		return named(s.completeAll(w, r, req, f), req.Model)
	}
	return named(s.generate(w, r, req.LLM, req.Stream, f), req.Model)
}

// completeAll answers several prompts, one after the other. Each is a request of its own in the journal, the first with the
// answer's id, and each choice has its own record. The headers tell of all together.
func (s *Server) completeAll(w *response, r *http.Request, req openai.Text, f textFrames) error {
	var answers []openai.TextAnswer
	var records []llm.Record
	for i, prompt := range req.Prompts {
		call := s.call(w, r, req.Request(i))
		if i > 0 {
			call.TraceID, call.Arrived = newTrace(), time.Now()
		}
		answer, rec, stats, err := s.collect(r, call)
		if err != nil {
			return err
		}
		a := openai.TextAnswer{Parts: answer, Stats: stats, Record: rec}
		if req.Echo {
			a.Prompt = prompt
		}
		answers, records = append(answers, a), append(records, rec)
	}
	setRecordHeaders(w.Header(), records...)
	return w.json(http.StatusOK, f.Whole(answers))
}

func (s *Server) openaiResponses(w *response, r *http.Request) error {
	req, err := parseBody(w, r, openai.ParseResponses)
	if err != nil {
		return err
	}
	if err := pinDevice(r, &req.LLM); err != nil {
		return err
	}
	return named(s.generate(w, r, req.LLM, req.Stream, responseFrames{&openai.Response{
		ID: "resp_" + w.trace, Created: w.arrived.Unix(), Model: req.Model, Echo: req.Echo, Logprobs: req.LLM.Logprobs,
	}}), req.Model)
}

func (s *Server) openaiEmbeddings(w *response, r *http.Request) error {
	req, err := parseBody(w, r, openai.ParseEmbeddings)
	if err != nil {
		return err
	}
	rec, out, err := s.embed(w, r, req.LLM, req.Embed)
	if err != nil {
		return named(err, req.Model)
	}
	return w.json(http.StatusOK, openai.EmbeddingsBody(req, rec, out))
}

// v1Models answers a route that OpenAI and Anthropic both have.
func (s *Server) v1Models(w *response, r *http.Request) error {
	list, err := s.deps.Models.List()
	if err != nil {
		return err
	}
	if isAnthropic(r) {
		return w.json(http.StatusOK, anthropic.ModelsBody(list))
	}
	return w.json(http.StatusOK, openai.ModelsBody(list))
}

func (s *Server) v1Model(w *response, r *http.Request) error {
	id := mux.Vars(r)["model"]
	name, _ := wire.SplitDevice(id)
	m, err := s.deps.Models.Find(name)
	if err != nil {
		if e, ok := notFound(err); ok {
			return named(e, id)
		}
		return named(llm.Errorf(llm.CodeModelNotFound, "%w", err), id)
	}
	if isAnthropic(r) {
		return w.json(http.StatusOK, anthropic.ModelBody(id, m))
	}
	return w.json(http.StatusOK, openai.ModelBody(id, m))
}
