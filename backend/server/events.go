package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"signalbox/backend/journal"
)

const (
	entryEvery  = 250 * time.Millisecond // a request that only counts tokens is told this often
	statusEvery = 100 * time.Millisecond
	statusAgain = 5 * time.Second // what changes with time alone, such as how long a process is silent, wakes nobody
)

// uiEvents streams the status and the requests to the window, at once and on each change, until the page goes away.
func (s *Server) uiEvents(w *response, r *http.Request) error {
	entries, end := s.deps.Journal.Subscribe()
	defer end()
	changed, endWatch := s.watch()
	defer endWatch()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	out := &eventWriter{w: w, pace: pacer{sent: map[string]sent{}, held: map[string]journal.Entry{}}}
	out.status(s.status())

	tick := time.NewTicker(entryEvery)
	defer tick.Stop()
	ping := time.NewTicker(s.deps.PingEvery)
	defer ping.Stop()
	again := time.NewTicker(statusAgain)
	defer again.Stop()
	var nextStatus <-chan time.Time // set while a change waits to be told
	for out.err == nil {
		select {
		case <-r.Context().Done():
			return nil
		case e, open := <-entries:
			if !open {
				return nil
			}
			out.entry(e)
		case <-changed:
			if nextStatus == nil {
				nextStatus = time.After(statusEvery)
			}
		case <-nextStatus:
			nextStatus = nil
			out.status(s.status())
		case <-again.C:
			if st := s.status(); !out.knows(st) {
				out.status(st)
			}
		case now := <-tick.C:
			for _, e := range out.pace.due(now) {
				out.write("request", e)
			}
		case <-ping.C:
			out.raw([]byte(": ping\n\n"))
		}
	}
	return nil // the page has gone
}

func (s *Server) watch() (<-chan struct{}, func()) {
	if s.deps.Watch == nil {
		return nil, func() {}
	}
	return s.deps.Watch()
}

// eventWriter writes server-sent events until the first failure.
type eventWriter struct {
	w    *response
	pace pacer
	told []byte // the last status
	err  error
}

// status tells a status.
func (o *eventWriter) status(st Status) {
	o.told, _ = json.Marshal(st) // write meets the same error
	o.write("status", st)
}

// knows tells whether a status is the last one that was told.
func (o *eventWriter) knows(st Status) bool {
	data, err := json.Marshal(st)
	return err == nil && bytes.Equal(data, o.told)
}

func (o *eventWriter) entry(e journal.Entry) {
	if o.pace.offer(e, time.Now()) {
		o.write("request", e)
	}
}

func (o *eventWriter) write(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		o.err = err
		return
	}
	o.raw([]byte("event: " + name + "\ndata: " + string(data) + "\n\n"))
}

func (o *eventWriter) raw(frame []byte) {
	if o.err != nil {
		return
	}
	if _, o.err = o.w.Write(frame); o.err == nil {
		o.err = o.w.flush()
	}
}

// pacer holds back changes of a request that are only more tokens.
type pacer struct {
	sent map[string]sent
	held map[string]journal.Entry // the newest of each
}

type sent struct {
	what string // all that people must see at once
	at   time.Time
}

// offer tells whether to send an entry now; otherwise it is kept until due.
func (p *pacer) offer(e journal.Entry, now time.Time) bool {
	what := e.State + "\x00" + e.Phase + "\x00" + e.ExecutionDevice + "\x00" + string(e.Outcome) + "\x00" + e.Error
	last, known := p.sent[e.TraceID]
	if known && last.what == what && now.Sub(last.at) < entryEvery {
		p.held[e.TraceID] = e
		return false
	}
	delete(p.held, e.TraceID)
	p.sent[e.TraceID] = sent{what, now}
	if e.State == journal.StateDone {
		delete(p.sent, e.TraceID)
	}
	return true
}

// due are the entries that have waited long enough.
func (p *pacer) due(now time.Time) []journal.Entry {
	var list []journal.Entry
	for id, e := range p.held {
		if last := p.sent[id]; now.Sub(last.at) >= entryEvery {
			p.sent[id] = sent{last.what, now}
			delete(p.held, id)
			list = append(list, e)
		}
	}
	return list
}
