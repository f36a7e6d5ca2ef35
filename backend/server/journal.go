package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"signalbox/backend/dispatch"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/wire"
	"signalbox/internal/brief"
)

// archive is the part of a journal that exports and replays need. *journal.Journal is one.
type archive interface {
	ExportJSON(ctx context.Context, q journal.Query, w io.Writer) error
	ExportCSV(ctx context.Context, q journal.Query, w io.Writer) error
	Body(traceID string) (journal.Body, error)
	Totals(since time.Time) (journal.Totals, error)
}

// journalRoutes is what the window's listener has for the journal beside the list. They come before /ui/requests/{trace}.
func (s *Server) journalRoutes() []route {
	o := ollamaDialect
	return []route{
		{"GET", "/ui/requests/export", o, s.uiExport, false},
		{"GET", "/ui/requests/totals", o, s.uiTotals, false},
		{"GET", "/ui/requests/{trace}/body", o, s.uiBody, false},
		{"POST", "/ui/requests/{trace}/replay", o, s.uiReplay, false},
	}
}

// narrow adds the filters that the list and the exports share to a query.
func narrow(q *journal.Query, r *http.Request) error {
	values := r.URL.Query()
	q.Client, q.Model, q.Device = values.Get("client"), values.Get("model"), values.Get("device")
	q.Outcome, q.Reason, q.Text = llm.Outcome(values.Get("outcome")), values.Get("reason"), values.Get("q")
	for _, bound := range []struct {
		name string
		at   *time.Time
	}{{"before", &q.Before}, {"since", &q.Since}} {
		text := values.Get(bound.name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return llm.Errorf(llm.CodeInvalid, "%s must be a time as in started_at", bound.name)
		}
		*bound.at = at
	}
	return nil
}

func (s *Server) archive() (archive, error) {
	if a, ok := s.deps.Journal.(archive); ok {
		return a, nil
	}
	return nil, withStatus(http.StatusNotImplemented, llm.Errorf(llm.CodeUnsupported, "this journal keeps no archive"))
}

// uiExport writes all entries that the filters want, as JSON Lines or, with format=csv, as a table.
func (s *Server) uiExport(w *response, r *http.Request) error {
	a, err := s.archive()
	if err != nil {
		return err
	}
	var q journal.Query
	if err := narrow(&q, r); err != nil {
		return err
	}
	export, kind, ending := a.ExportJSON, "application/x-ndjson", "jsonl"
	switch format := r.URL.Query().Get("format"); format {
	case "", "jsonl":
	case "csv":
		export, kind, ending = a.ExportCSV, "text/csv; charset=utf-8", "csv"
	default:
		return llm.Errorf(llm.CodeInvalid, "format must be jsonl or csv, not %q", brief.Text(format))
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="signalbox-requests-`+time.Now().Format("2006-01-02")+"."+ending+`"`)
	w.WriteHeader(http.StatusOK)
	if err := export(r.Context(), q, &exported{w: w, limit: s.deps.WriteLimit}); err != nil {
		// The head is out: only a connection that breaks off says that this is not all.
		s.log.Warn("export the journal", "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// exported gives each write its own time: an export may be long, a reader that has stopped must not hold it.
type exported struct {
	w     *response
	limit time.Duration
}

func (e *exported) Write(p []byte) (int, error) {
	_ = e.w.ctl.SetWriteDeadline(time.Now().Add(e.limit)) // not every ResponseWriter has deadlines
	return e.w.Write(p)
}

func (s *Server) uiTotals(w *response, r *http.Request) error {
	a, err := s.archive()
	if err != nil {
		return err
	}
	var q journal.Query
	if err := narrow(&q, r); err != nil {
		return err
	}
	totals, err := a.Totals(q.Since)
	if err != nil {
		return err
	}
	return w.jsonOf(http.StatusOK, totals)
}

func (s *Server) uiBody(w *response, r *http.Request) error {
	a, err := s.archive()
	if err != nil {
		return err
	}
	body, err := a.Body(mux.Vars(r)["trace"])
	if err != nil {
		return missing(err, "the prompt of this request was not kept")
	}
	return w.jsonOf(http.StatusOK, body)
}

// run is one side of a replay.
type run struct {
	Record llm.Record `json:"record"`
	Text   string     `json:"text"`
	Error  string     `json:"error,omitempty"`
}

// uiReplay runs a request again, on the device that the body names, and answers in lines: "original", which was kept, then a "text"
// for each piece of the new answer, at last "replay" with the whole of it.
func (s *Server) uiReplay(w *response, r *http.Request) error {
	var want struct {
		Device string `json:"device"`
	}
	if err := decode(w, r, &want); err != nil {
		return err
	}
	device, ok := wire.Device(want.Device)
	if !ok {
		return llm.Errorf(llm.CodeInvalid, "device is required: npu, gpu, gpu:1 or cpu")
	}
	a, err := s.archive()
	if err != nil {
		return err
	}
	trace := mux.Vars(r)["trace"]
	entry, err := s.deps.Journal.Get(trace)
	if err != nil {
		return missing(err, "there is no request with this id")
	}
	body, err := a.Body(trace)
	if err != nil {
		return missing(err, "the prompt of this request was not kept: switch keep_bodies on in the settings, and send the request again")
	}
	req := body.Request
	req.Device = device
	out := &lineStream{w: w}
	say := func(name string, what any) error {
		line, err := json.Marshal(map[string]any{name: what})
		if err != nil {
			return err
		}
		return out.send(line)
	}
	if err := say("original", run{Record: entry.Record, Text: body.Answer, Error: entry.Error}); err != nil {
		return out.end(r.Context(), err)
	}
	var text strings.Builder
	record, _, err := s.deps.Dispatch.Generate(r.Context(), s.call(w, r, req), dispatch.Answer{
		Delta: func(d llm.Delta) error {
			if d.Text == "" {
				return nil
			}
			text.WriteString(d.Text)
			return say("text", d.Text)
		},
	})
	again := run{Record: record, Text: text.String()}
	if err != nil {
		again.Error = err.Error()
	}
	return out.end(r.Context(), say("replay", again))
}
