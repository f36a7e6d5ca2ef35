package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/wire"
	"signalbox/internal/config"
)

// uiRoutes is what the window's listener has beside the API.
func (s *Server) uiRoutes(access *Access) []route {
	o := ollamaDialect
	return append(slices.Concat(s.journalRoutes(), s.routingRoutes(), s.shopRoutes()), []route{
		{"GET", "/ui/status", o, s.uiStatus, false},
		{"GET", "/ui/events", o, s.uiEvents, false},
		{"POST", "/ui/link", o, s.uiLink(access), false},
		{"GET", "/ui/connect", o, s.uiConnect, false},
		{"GET", "/metrics", o, s.metricsWindow, false},
		{"GET", "/ui/requests", o, s.uiRequests, false},
		{"GET", "/ui/requests/{trace}", o, s.uiRequest, false},
		{"POST", "/ui/requests/{trace}/cancel", o, s.uiCancel, false},
		{"POST", "/ui/server", o, s.uiServer, false},
		{"GET", "/ui/settings", o, s.uiSettings, false},
		{"PUT", "/ui/settings", o, s.uiSaveSettings, false},
		{"GET", "/ui/chats", o, s.uiChats, false},
		{"GET", "/ui/chats/{id}", o, s.uiChat, false},
		{"PUT", "/ui/chats/{id}", o, s.uiSaveChat, false},
		{"DELETE", "/ui/chats/{id}", o, s.uiDeleteChat, false},
		{"POST", "/desktop/open", o, s.desktopOpen, false},
		{"POST", "/desktop/show", o, s.desktopShow, false},
		{"POST", "/desktop/folder", o, s.desktopFolder, false},
		{"POST", "/desktop/dropped", o, s.desktopDropped, false},
		{"POST", "/desktop/quit", o, s.desktopQuit, false},
		{"GET", "/ui/{file:.*}", o, s.page(access), false},
		{"HEAD", "/ui/{file:.*}", o, s.page(access), false},
	}...)
}

func (w *response) jsonOf(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.json(status, body)
}

// uiLink gives a fresh address of the page, for `signalbox open`: those that the page itself had have ended.
func (s *Server) uiLink(access *Access) handler {
	return func(w *response, _ *http.Request) error {
		return w.jsonOf(http.StatusOK, map[string]string{"url": access.URL()})
	}
}

func (s *Server) uiStatus(w *response, _ *http.Request) error {
	return w.jsonOf(http.StatusOK, s.status())
}

func (s *Server) uiServer(w *response, r *http.Request) error {
	var want struct {
		Running *bool `json:"running"`
	}
	if err := decode(w, r, &want); err != nil {
		return err
	}
	if want.Running == nil {
		return llm.Errorf(llm.CodeInvalid, "running is required: true starts the server, false stops it")
	}
	if err := s.deps.Run(r.Context(), *want.Running); err != nil {
		return err
	}
	return s.uiStatus(w, r)
}

func (s *Server) uiRequests(w *response, r *http.Request) error {
	q, err := requestQuery(r)
	if err != nil {
		return err
	}
	entries, more, err := s.deps.Journal.List(q)
	if err != nil {
		return err
	}
	if entries == nil {
		entries = []journal.Entry{}
	}
	return w.jsonOf(http.StatusOK, struct {
		Requests []journal.Entry `json:"requests"`
		More     bool            `json:"more"`
	}{entries, more})
}

func requestQuery(r *http.Request) (journal.Query, error) {
	q := journal.Query{Limit: 50}
	if err := narrow(&q, r); err != nil {
		return q, err
	}
	if limit := r.URL.Query().Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > 1000 {
			return q, llm.Errorf(llm.CodeInvalid, "limit must be a number from 1 to 1000")
		}
		q.Limit = n
	}
	return q, nil
}

func (s *Server) uiRequest(w *response, r *http.Request) error {
	entry, err := s.deps.Journal.Get(mux.Vars(r)["trace"])
	if err != nil {
		return missing(err, "there is no request with this id")
	}
	return w.jsonOf(http.StatusOK, entry)
}

func (s *Server) uiCancel(w *response, r *http.Request) error {
	if !s.deps.Dispatch.Cancel(mux.Vars(r)["trace"]) {
		return withStatus(http.StatusNotFound, llm.Errorf(llm.CodeInvalid, "no request with this id is running"))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) uiSettings(w *response, _ *http.Request) error {
	settings := s.deps.Settings()
	if settings.Origins == nil { // as an older file has it: the page expects lists
		settings.Origins = []string{}
	}
	if settings.Pins == nil {
		settings.Pins = []config.Pin{}
	}
	return w.jsonOf(http.StatusOK, settings)
}

// uiSaveSettings changes what the body names and leaves the rest as it is.
func (s *Server) uiSaveSettings(w *response, r *http.Request) error {
	body, err := readBody(w, r) // before the settings are held: it may come slowly
	if err != nil {
		return err
	}
	err = s.deps.ChangeSettings(func(settings *config.Settings) error {
		was := *settings
		if err := mergeSettings(settings, body); err != nil {
			return err
		}
		if err := settings.CheckChange(was); err != nil {
			return llm.Errorf(llm.CodeInvalid, "%w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.uiSettings(w, r)
}

// mergeSettings puts what body names in place of what is there. Lists begin empty: decoded over an old entry, a new one would
// keep the fields that it does not name.
func mergeSettings(settings *config.Settings, body []byte) error {
	was := *settings
	settings.Preference, settings.Origins, settings.Pins = nil, nil, nil
	if err := decodeStrictly(body, settings); err != nil {
		return err
	}
	if settings.Preference == nil {
		settings.Preference = was.Preference
	}
	if settings.Origins == nil {
		settings.Origins = was.Origins
	}
	if settings.Pins == nil {
		settings.Pins = was.Pins
	}
	return nil
}

func (s *Server) uiChats(w *response, _ *http.Request) error {
	chats, err := s.deps.Journal.ListChats()
	if err != nil {
		return err
	}
	if chats == nil {
		chats = []journal.Chat{}
	}
	return w.jsonOf(http.StatusOK, struct {
		Chats []journal.Chat `json:"chats"`
	}{chats})
}

func (s *Server) uiChat(w *response, r *http.Request) error {
	chat, err := s.deps.Journal.GetChat(mux.Vars(r)["id"])
	if err != nil {
		return missing(err, "there is no chat with this id")
	}
	if chat.Messages == nil {
		chat.Messages = []journal.Message{}
	}
	return w.jsonOf(http.StatusOK, chat)
}

// chatID is what the page may call a chat.
var chatID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (s *Server) uiSaveChat(w *response, r *http.Request) error {
	id := mux.Vars(r)["id"]
	if !chatID.MatchString(id) {
		return llm.Errorf(llm.CodeInvalid, "a chat's id is up to 64 letters, digits, - and _")
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	var chat journal.Chat
	if err := json.Unmarshal(body, &chat); err != nil { // unknown fields are dropped: a chat must not be lost over one
		return wire.BadJSON(err)
	}
	chat.ID, chat.UpdatedAt = id, time.Now().UTC()
	if chat.CreatedAt.IsZero() {
		chat.CreatedAt = chat.UpdatedAt
		if old, err := s.deps.Journal.GetChat(id); err == nil {
			chat.CreatedAt = old.CreatedAt
		}
	}
	if err := s.deps.Journal.SaveChat(chat); err != nil {
		return err
	}
	return w.jsonOf(http.StatusOK, chat)
}

func (s *Server) uiDeleteChat(w *response, r *http.Request) error {
	if err := s.deps.Journal.DeleteChat(mux.Vars(r)["id"]); err != nil {
		return missing(err, "there is no chat with this id")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func missing(err error, sentence string) error {
	if errors.Is(err, journal.ErrNotFound) {
		return withStatus(http.StatusNotFound, llm.Errorf(llm.CodeInvalid, "%s", sentence))
	}
	return err
}

// decode reads the body of our own endpoints. A field that is not known is a mistake, and "stream" is one that must not be
// answered by a single frame (L23).
func decode(w *response, r *http.Request, v any) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	return decodeStrictly(body, v)
}

func decodeStrictly(body []byte, v any) error {
	if string(bytes.TrimSpace(body)) == "null" { // the decoder takes it for nothing to do
		return llm.Errorf(llm.CodeInvalid, "the request body must be an object, not null")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return wire.BadJSON(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return llm.Errorf(llm.CodeInvalid, "the request body goes on after its JSON object")
	}
	return nil
}
