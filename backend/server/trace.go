package server

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

var (
	validTrace  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}`)
)

// claimTrace gives a request its id. It is the key of the record, so it is unique: the caller's X-Request-ID or traceparent
// is taken only while no other request has it or had it. release gives it back.
func (s *Server) claimTrace(r *http.Request) (id string, release func()) {
	id = inboundTrace(r.Header)
	if id == "" || !s.claim(id) {
		return newTrace(), func() {}
	}
	return id, func() { s.unclaim(id) }
}

func (s *Server) claim(id string) bool {
	s.mu.Lock()
	if _, taken := s.traces[id]; taken {
		s.mu.Unlock()
		return false
	}
	s.traces[id] = struct{}{}
	s.mu.Unlock()
	if _, err := s.deps.Journal.Get(id); err == nil { // it belongs to an earlier request
		s.unclaim(id)
		return false
	}
	return true
}

func (s *Server) unclaim(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.traces, id)
}

func inboundTrace(h http.Header) string {
	if id := h.Get("X-Request-ID"); validTrace.MatchString(id) {
		return id
	}
	if m := traceparent.FindStringSubmatch(h.Get("traceparent")); m != nil && strings.Trim(m[1], "0") != "" {
		return m[1]
	}
	return ""
}

func newTrace() string {
	if id, err := uuid.NewV7(); err == nil {
		return id.String()
	}
	return uuid.NewString() // the clock cannot be read; being unique is what matters
}
