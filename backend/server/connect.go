package server

import (
	"fmt"
	"net/http"
	"time"

	"signalbox/backend/connect"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/models"
)

// seen is a client with the last time it asked for something.
type seen struct {
	connect.Client
	LastSeen *time.Time `json:"last_seen"` // null: never, as far as the journal goes back
}

// uiConnect tells how to connect each client, with the port and the model that are really there.
func (s *Server) uiConnect(w *response, r *http.Request) error {
	target, err := s.target(r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	list := []seen{}
	for _, c := range connect.Clients(target) {
		last, err := s.lastSeen(c.Name)
		if err != nil {
			return err
		}
		list = append(list, seen{c, last})
	}
	return w.jsonOf(http.StatusOK, struct {
		URL     string `json:"url"`
		Running bool   `json:"running"`
		Model   string `json:"model"`
		Clients []seen `json:"clients"`
	}{target.URL, s.deps.Status().Server.State == "running", target.Model, list})
}

// target is where clients are to be pointed at: a model by its name, or else the one for new chats.
func (s *Server) target(name string) (connect.Target, error) {
	settings, st := s.deps.Settings(), s.deps.Status()
	t := connect.Target{URL: st.Server.URL}
	if t.URL == "" { // it is stopped: this is where it will be
		t.URL = fmt.Sprintf("http://127.0.0.1:%d", settings.Port)
	}
	list, err := s.deps.Models.List()
	if err != nil {
		return t, err
	}
	if name == "" {
		name = settings.DefaultModel
	}
	for _, m := range list {
		if m.Kind == models.KindEmbedding && t.Embed == "" {
			t.Embed = m.Name
		}
		if m.Kind == models.KindChat && t.Model == "" && name == "" {
			t.Model, t.Context = m.Name, m.ContextLength
		}
	}
	if name == "" {
		return t, nil
	}
	m, err := s.deps.Models.Find(name)
	if err != nil {
		return t, named(err, name)
	}
	if m.Kind != models.KindChat {
		return t, llm.Errorf(llm.CodeUnsupported, "%q does not support chat", name)
	}
	t.Model, t.Context = m.Name, m.ContextLength
	return t, nil
}

func (s *Server) lastSeen(client string) (*time.Time, error) {
	entries, _, err := s.deps.Journal.List(journal.Query{Client: client, Limit: 1})
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	return &entries[0].StartedAt, nil
}
