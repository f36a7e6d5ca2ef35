package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/backend/llm"
)

const (
	usualLimit = 50
	mostLimit  = 1000
)

// memory is what is not in the file: live entries, and ended ones that wait for the writer. Newest first.
func (j *Journal) memory() []Entry {
	j.mu.Lock()
	ended := slices.Clone(j.ring)
	live := slices.Clone(j.live)
	j.mu.Unlock()
	for _, l := range live {
		ended = append(ended, l.Entry())
	}
	sortNewestFirst(ended)
	return ended
}

func sortNewestFirst(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Compare(b.StartedAt.UnixNano(), a.StartedAt.UnixNano())
	})
}

// reader is the file for reading; nil while it cannot be opened.
func (j *Journal) reader() *store {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.store
}

// List returns active and ended entries, newest first, and whether there are more before them. While the file cannot be
// opened these are the ones in memory; the error is for a file that fails while it is read.
func (j *Journal) List(q Query) (entries []Entry, more bool, err error) {
	if q.Limit <= 0 {
		q.Limit = usualLimit
	}
	q.Limit = min(q.Limit, mostLimit)
	// Memory first: an entry that is stored in between is then in both, not in neither.
	seen := map[string]bool{}
	for _, e := range j.memory() {
		if q.matches(e) {
			entries = append(entries, e)
			seen[e.key()] = true
		}
	}
	if s := j.reader(); s != nil {
		stored, err := s.list(context.Background(), q)
		if err != nil {
			return nil, false, fmt.Errorf("read the journal %s: %w", j.path, err)
		}
		for _, e := range stored {
			if !seen[e.key()] {
				entries = append(entries, e)
			}
		}
	}
	sortNewestFirst(entries)
	if len(entries) > q.Limit {
		return entries[:q.Limit], true, nil
	}
	return entries, false, nil
}

func (e Entry) key() string { return fmt.Sprint(e.TraceID, e.StartedAt.UnixNano()) }

// list reads one entry more than the limit, to know whether there are more.
func (s *store) list(ctx context.Context, q Query) ([]Entry, error) {
	where, args := q.where()
	return s.entries(ctx, "SELECT entry FROM requests WHERE "+where+" ORDER BY started_at DESC, id DESC LIMIT ?", append(args, q.Limit+1)...)
}

// where is the query in SQL.
func (q Query) where() (where string, args []any) {
	where = "1"
	and := func(condition string, values ...any) {
		where += " AND " + condition
		args = append(args, values...)
	}
	if !q.Before.IsZero() {
		and("started_at < ?", q.Before.UnixNano())
	}
	if q.Client != "" {
		and("client = ?", q.Client)
	}
	if q.Model != "" {
		and("(model_used = ? OR model_asked = ?)", q.Model, q.Model)
	}
	if q.Device != "" {
		and("(device = ? OR endpoint_id = ?)", q.Device, q.Device)
	}
	if q.Outcome != "" {
		and("outcome = ?", string(q.Outcome))
	}
	if q.Reason != "" {
		and("(rule = ? OR fallback = ?)", q.Reason, q.Reason)
	}
	if !q.Since.IsZero() {
		and("started_at >= ?", q.Since.UnixNano())
	}
	if q.Text != "" {
		and("instr(search, ?) > 0", strings.ToLower(q.Text))
	}
	return where, args
}

func (s *store) entries(ctx context.Context, query string, args ...any) ([]Entry, error) {
	rows, err := s.reads.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var entries []Entry
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		var e Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// Get returns the newest entry of that id, active or ended; ErrNotFound when there is none.
func (j *Journal) Get(traceID string) (Entry, error) {
	for _, e := range j.memory() {
		if e.TraceID == traceID {
			return e, nil
		}
	}
	s := j.reader()
	if s == nil {
		return Entry{}, ErrNotFound
	}
	entries, err := s.entries(context.Background(), `SELECT entry FROM requests WHERE trace_id = ? ORDER BY started_at DESC, id DESC LIMIT 1`, traceID)
	if err != nil {
		return Entry{}, fmt.Errorf("read the journal %s: %w", j.path, err)
	}
	if len(entries) == 0 {
		return Entry{}, ErrNotFound
	}
	return entries[0], nil
}

// Totals sums up the requests that started at or after since and have ended; the zero time for all. What a cancelled
// request has used counts; it is not counted as completed.
func (j *Journal) Totals(since time.Time) (Totals, error) {
	var t Totals
	j.storing.RLock() // each entry is either in the ring or in the file
	defer j.storing.RUnlock()
	j.mu.Lock()
	waiting, s := slices.Clone(j.ring), j.store
	j.mu.Unlock()
	for _, e := range waiting {
		if !e.StartedAt.Before(since) {
			t.add(e)
		}
	}
	if s == nil {
		return t, nil
	}
	stored, err := s.totals(context.Background(), since)
	if err != nil {
		return t, fmt.Errorf("read the journal %s: %w", j.path, err)
	}
	return t.plus(stored), nil
}

func (s *store) totals(ctx context.Context, since time.Time) (t Totals, err error) {
	from := int64(0)
	if !since.IsZero() {
		from = since.UnixNano()
	}
	err = s.reads.QueryRowContext(ctx, `SELECT count(*),
		coalesce(sum(outcome IN (?, ?)), 0), coalesce(sum(outcome = ?), 0),
		coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0), coalesce(sum(device_seconds), 0.0)
		FROM requests WHERE started_at >= ?`,
		string(llm.OutcomeCompleted), string(llm.OutcomeLength), string(llm.OutcomeCancelled), from,
	).Scan(&t.Requests, &t.Completed, &t.Cancelled, &t.PromptTokens, &t.CompletionTokens, &t.DeviceSeconds)
	t.Failed = t.Requests - t.Completed - t.Cancelled
	return t, err
}

func (t Totals) plus(o Totals) Totals {
	t.Requests += o.Requests
	t.Completed += o.Completed
	t.Cancelled += o.Cancelled
	t.Failed += o.Failed
	t.PromptTokens += o.PromptTokens
	t.CompletionTokens += o.CompletionTokens
	t.DeviceSeconds += o.DeviceSeconds
	return t
}
