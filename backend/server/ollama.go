package server

import (
	"net/http"
	"strings"
	"time"

	"signalbox/backend/cards"
	"signalbox/backend/llm"
	"signalbox/backend/ollama"
	"signalbox/backend/wire"
)

// ollamaFrames are lines of JSON.
type ollamaFrames struct {
	*ollama.Lines
	arrived time.Time
}

func (f ollamaFrames) header(h http.Header) {
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-cache, no-transform")
}
func (f ollamaFrames) begin(llm.Record) []byte    { return nil }
func (f ollamaFrames) piece(d llm.Delta) []byte   { return lines(f.Piece(d)...) }
func (f ollamaFrames) wait() []byte               { return lines(f.Wait()) }
func (f ollamaFrames) failed(e *llm.Error) []byte { return lines(ollama.ErrorBody(e)) }
func (f ollamaFrames) done(rec llm.Record, stats llm.Stats) []byte {
	return lines(f.Done(time.Since(f.arrived), rec, stats)...)
}
func (f ollamaFrames) whole(answer *wire.Parts, rec llm.Record, stats llm.Stats) []byte {
	return f.Whole(answer, time.Since(f.arrived), rec, stats)
}

func lines(objects ...[]byte) []byte {
	var out []byte
	for _, object := range objects {
		out = append(append(out, object...), '\n')
	}
	return out
}

func (s *Server) ollamaRoot(w *response, _ *http.Request) error {
	return w.send(http.StatusOK, textType, []byte("Ollama is running"))
}

func (s *Server) ollamaVersion(w *response, _ *http.Request) error {
	return w.json(http.StatusOK, ollama.VersionBody(s.deps.Version))
}

func (s *Server) ollamaChat(w *response, r *http.Request) error {
	return s.ollamaAnswer(w, r, ollama.ParseChat, false)
}

func (s *Server) ollamaGenerate(w *response, r *http.Request) error {
	return s.ollamaAnswer(w, r, ollama.ParseGenerate, true)
}

func (s *Server) ollamaAnswer(w *response, r *http.Request, parse func([]byte) (ollama.Generation, error), generate bool) error {
	req, err := parseBody(w, r, parse)
	if err != nil {
		return err
	}
	if err := s.able(req.LLM, req.Model); err != nil {
		return named(err, req.Model)
	}
	if err := pinDevice(r, &req.LLM); err != nil {
		return err
	}
	f := ollamaFrames{Lines: &ollama.Lines{Model: req.Model, Generate: generate}, arrived: w.arrived}
	switch {
	case req.Unload():
		if err := s.deps.Dispatch.Unload(r.Context(), req.LLM.Model); err != nil {
			return named(err, req.Model)
		}
		return w.json(http.StatusOK, f.Unloaded())
	case req.Empty:
		rec, err := s.deps.Dispatch.Load(r.Context(), s.call(w, r, req.LLM))
		if err != nil {
			return named(err, req.Model)
		}
		setRecordHeaders(w.Header(), rec)
		return w.json(http.StatusOK, f.Loaded(time.Since(w.arrived), rec))
	}
	return named(s.generate(w, r, req.LLM, req.Stream, f), req.Model)
}

func (s *Server) ollamaEmbed(w *response, r *http.Request) error {
	req, rec, out, err := s.ollamaVectors(w, r, ollama.ParseEmbed)
	if err != nil {
		return err
	}
	return w.json(http.StatusOK, ollama.EmbedBody(req.Model, time.Since(w.arrived), rec, out))
}

func (s *Server) ollamaEmbeddings(w *response, r *http.Request) error {
	_, rec, out, err := s.ollamaVectors(w, r, ollama.ParseEmbeddings)
	if err != nil {
		return err
	}
	return w.json(http.StatusOK, ollama.EmbeddingsBody(rec, out))
}

func (s *Server) ollamaVectors(w *response, r *http.Request, parse func([]byte) (ollama.Embedding, error)) (ollama.Embedding, llm.Record, llm.Embedded, error) {
	req, err := parseBody(w, r, parse)
	if err != nil {
		return req, llm.Record{}, llm.Embedded{}, err
	}
	rec, out, err := s.embed(w, r, req.LLM, req.Embed)
	return req, rec, out, named(err, req.Model)
}

func (s *Server) ollamaStatus(w *response, _ *http.Request) error {
	return w.json(http.StatusOK, ollama.StatusBody())
}

// noAccount answers routes of Ollama's cloud: nothing leaves this machine.
func noAccount(_ *response, r *http.Request) error {
	return withStatus(http.StatusNotImplemented, llm.Errorf(llm.CodeUnsupported, "%s is a route of Ollama's cloud: Signalbox has no accounts and sends nothing anywhere", r.URL.Path))
}

func (s *Server) ollamaTags(w *response, _ *http.Request) error {
	list, err := s.deps.Models.List()
	if err != nil {
		return err
	}
	return w.json(http.StatusOK, ollama.TagsBody(list))
}

func (s *Server) ollamaPs(w *response, r *http.Request) error {
	loaded, err := s.deps.Loaded(r.Context())
	if err != nil {
		return err
	}
	return w.json(http.StatusOK, ollama.PsBody(loaded))
}

func (s *Server) ollamaShow(w *response, r *http.Request) error {
	req, err := parseBody(w, r, ollama.ParseShow)
	if err != nil {
		return err
	}
	name, _ := wire.SplitDevice(req.Model)
	m, err := s.deps.Models.Find(name)
	if err != nil {
		return named(err, req.Model)
	}
	var devices []ollama.OnDevice
	if s.deps.Routing != nil {
		devices = onDevices(s.deps.Routing.CardsOf(m))
		m.ContextLength = s.deps.Routing.ContextLength(m)
	}
	basename := ""
	if strings.HasPrefix(r.UserAgent(), "GitHubCopilotChat/") {
		basename = req.Model
	}
	return w.json(http.StatusOK, ollama.ShowBody(m, basename, devices))
}

func onDevices(list []cards.Card) (devices []ollama.OnDevice) {
	for _, c := range list {
		d := ollama.OnDevice{
			Device: c.Device, Label: c.Label, ContextLength: c.ContextLimit, PromptLimit: c.PromptLimit, TokensPerSecond: c.Decode, Measured: !c.Assumed,
		}
		switch {
		case c.Quarantined != "":
			d.Problem = "kept off it: " + c.Quarantined
		case c.LoadError != "":
			d.Problem = "does not run: " + c.LoadError
		case c.Wrongly() != "":
			d.Problem = "answers wrongly: " + c.Wrongly()
		}
		devices = append(devices, d)
	}
	return devices
}
