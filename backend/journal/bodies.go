package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"signalbox/backend/llm"
)

const (
	largestRequest = 4 << 20 // a request with more JSON than that is not kept
	longestAnswer  = 1 << 20 // bytes of an answer
	bodiesWaiting  = 100     // that many entries in the ring wait with their bodies, while they cannot be stored
)

// SetBodies says whether prompts and answers are kept from now on, and how long; 0: they are not, and those that are there are
// deleted.
func (j *Journal) SetBodies(keep time.Duration) {
	j.mu.Lock()
	j.bodies = keep
	j.mu.Unlock()
	signal(j.prune)
}

// Asked gives the request for keeping. It does nothing while bodies are not kept.
func (l *Live) Asked(req llm.Request) {
	l.journal.mu.Lock()
	keep := l.journal.bodies > 0
	l.journal.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !keep || l.ended || l.body != nil {
		return
	}
	l.body = &Body{Request: req}
}

// Answered gives a piece of the answer for keeping. It does nothing where Asked did nothing.
func (l *Live) Answered(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.body != nil && len(l.body.Answer)+len(text) <= longestAnswer {
		l.body.Answer += text
	}
}

// Unanswered takes back what Answered gave: the answer is made again.
func (l *Live) Unanswered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.body != nil {
		l.body.Answer = ""
	}
}

func (e Entry) keepBody(ctx context.Context, tx *sql.Tx) error {
	if e.body == nil {
		return nil
	}
	text, err := json.Marshal(e.body.Request)
	if err != nil || len(text) > largestRequest {
		return nil
	}
	_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO bodies VALUES (?, ?, ?, ?)`, e.TraceID, e.StartedAt.UnixNano(), string(text), e.body.Answer)
	return err
}

// Body is what the newest request of that id asked and was answered; ErrNotFound where that was not kept, or the request is
// still active.
func (j *Journal) Body(traceID string) (Body, error) {
	j.mu.Lock()
	for i := len(j.ring) - 1; i >= 0; i-- {
		if e := j.ring[i]; e.TraceID == traceID && e.body != nil {
			j.mu.Unlock()
			return *e.body, nil
		}
	}
	s := j.store
	j.mu.Unlock()
	if s == nil {
		return Body{}, ErrNotFound
	}
	var b Body
	var request string
	err := s.reads.QueryRowContext(context.Background(), `SELECT request, answer FROM bodies WHERE trace_id = ?
		ORDER BY started_at DESC LIMIT 1`, traceID).Scan(&request, &b.Answer)
	if errors.Is(err, sql.ErrNoRows) || code(err) == noSuchTable && s.newer {
		return Body{}, ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal([]byte(request), &b.Request)
	}
	if err != nil {
		return Body{}, fmt.Errorf("read the journal %s: %w", j.path, err)
	}
	return b, nil
}

const noSuchTable = 1 // SQLITE_ERROR

// pruneBodies deletes bodies that are too old, or all of them when they are not to be kept, and those whose request is gone.
func (s *store) pruneBodies(ctx context.Context, sure time.Time, keep time.Duration) error {
	before := sure.Add(-keep)
	if keep <= 0 {
		before = time.Unix(0, 1<<62)
	}
	_, err := s.db.ExecContext(ctx, `DELETE FROM bodies WHERE started_at < ? OR NOT EXISTS
		(SELECT 1 FROM requests WHERE requests.trace_id = bodies.trace_id)`, before.UnixNano())
	return err
}
