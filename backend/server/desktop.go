package server

import (
	"net/http"
	"net/url"
	"strings"

	"signalbox/backend/llm"
)

// desktopOpen opens a link from the page outside of it. Only schemes that cannot start a program with arguments.
func (s *Server) desktopOpen(w *response, r *http.Request) error {
	var want struct {
		URL string `json:"url"`
	}
	if err := decode(w, r, &want); err != nil {
		return err
	}
	if !harmless(want.URL) {
		return llm.Errorf(llm.CodeInvalid, "only http, https and mailto links can be opened")
	}
	if s.deps.Desktop == nil {
		return noDesktop()
	}
	if err := s.deps.Desktop.Open(want.URL); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) desktopShow(w *response, _ *http.Request) error {
	if s.deps.Desktop == nil {
		return noDesktop()
	}
	if err := s.deps.Desktop.Show(); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// desktopQuit ends Signalbox: the only way out where there is neither a tray nor a window to close.
func (s *Server) desktopQuit(w *response, _ *http.Request) error {
	if s.deps.Desktop == nil {
		return noDesktop()
	}
	w.WriteHeader(http.StatusNoContent)
	return s.deps.Desktop.Quit()
}

// ErrNoDialog is for desktops without a window to show a dialog in.
var ErrNoDialog = withStatus(http.StatusNotFound, llm.Errorf(llm.CodeUnsupported, "this desktop has no window to choose a folder in"))

// desktopFolder lets the user choose a folder, which takes as long as it takes.
func (s *Server) desktopFolder(w *response, r *http.Request) error {
	var want struct {
		Title string `json:"title"`
	}
	if err := decode(w, r, &want); err != nil {
		return err
	}
	if s.deps.Desktop == nil {
		return noDesktop()
	}
	path, err := s.deps.Desktop.Folder(want.Title)
	if err != nil {
		return err
	}
	return w.jsonOf(http.StatusOK, onePath{path})
}

type onePath struct {
	Path string `json:"path"`
}

// desktopDropped tells the page what was dropped on it.
func (s *Server) desktopDropped(w *response, _ *http.Request) error {
	if s.deps.Desktop == nil {
		return noDesktop()
	}
	return w.jsonOf(http.StatusOK, onePath{s.deps.Desktop.Dropped()})
}

func noDesktop() error {
	return withStatus(http.StatusNotFound, llm.Errorf(llm.CodeUnsupported, "Signalbox runs without a desktop here"))
}

func harmless(link string) bool {
	if strings.ContainsFunc(link, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return false
	}
	u, err := url.Parse(link)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Host != ""
	case "mailto":
		return true
	}
	return false
}
