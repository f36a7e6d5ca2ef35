package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"slices"
	"time"
)

// lookAgain is how often an idle journal looks whether its file is still there.
const lookAgain = time.Minute

// work is the writer: it stores what has ended, tries again after a failure, and deletes what is too old.
func (j *Journal) work() {
	pruning := time.NewTicker(time.Hour)
	defer pruning.Stop()
	looking := time.NewTicker(lookAgain)
	defer looking.Stop()
	retry := time.NewTimer(j.options.Retry)
	retry.Stop()
	defer retry.Stop()
	failing := !j.usable()
	if failing {
		retry.Reset(j.options.Retry)
	} else {
		j.tidy()
	}
	for {
		select {
		case <-j.wake:
			if failing {
				continue // the retry takes it along
			}
		case <-looking.C:
			if failing {
				continue
			}
		case done := <-j.looks:
			if failing = !j.flush(); failing {
				retry.Reset(j.options.Retry)
			}
			close(done)
			continue
		case <-retry.C:
		case <-pruning.C:
			j.tidy()
			continue
		case <-j.prune:
			j.tidy()
			continue
		case <-j.closing:
			j.flush()
			return
		}
		if failing = !j.flush(); failing {
			retry.Reset(j.options.Retry)
		}
	}
}

// usable tells whether the file is open.
func (j *Journal) usable() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.store != nil
}

// connect opens the file; after a failure, again.
func (j *Journal) connect() {
	s, notice, err := openStore(j.path, j.options.Now())
	if err != nil {
		j.fail(err)
		return
	}
	if s.newer {
		notice = trouble(j.path, errNewer)
	}
	if notice != "" {
		j.options.Log.Warn("journal", slog.String("notice", notice))
	}
	if !s.newer {
		if err := s.interrupted(context.Background()); err != nil {
			j.options.Log.Warn("journal", slog.String("problem", "requests that were interrupted are not marked"), slog.Any("error", err))
		}
	}
	j.mu.Lock()
	j.store = s
	if notice != "" {
		j.notice = notice
	}
	j.mu.Unlock()
	j.changed()
}

// flush stores all that has ended. It tells whether that went well.
func (j *Journal) flush() bool {
	j.lookAtFile()
	if !j.usable() {
		j.connect()
	}
	for {
		j.mu.Lock()
		s, batch := j.store, slices.Clone(j.ring[:min(len(j.ring), 256)])
		lost := j.dropped
		j.mu.Unlock()
		if s == nil {
			return false
		}
		if s.newer {
			return true // they stay in memory
		}
		if err := j.note(s); err != nil {
			j.refused(s, err)
			return false
		}
		if len(batch) == 0 {
			j.fail(nil)
			return true
		}
		if err := j.move(s, batch, lost); err != nil {
			j.refused(s, err)
			return false
		}
	}
}

// move stores a batch and takes it out of the ring.
func (j *Journal) move(s *store, batch []Entry, lost int) error {
	j.storing.Lock()
	defer j.storing.Unlock()
	if err := s.insert(context.Background(), batch, j.options.Log); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	stored := max(0, len(batch)-(j.dropped-lost)) // the ring may have dropped some of them meanwhile
	j.ring = j.ring[stored:]
	return nil
}

// fail notes why a write was refused; nil: it was not.
func (j *Journal) fail(err error) {
	text := ""
	if err != nil {
		text = trouble(j.path, err)
	}
	j.mu.Lock()
	before := j.failure
	j.failure = text
	if text == "" {
		j.dropped = 0
	}
	j.mu.Unlock()
	if before == text {
		return
	}
	if err != nil {
		j.options.Log.Warn("journal", slog.String("problem", text), slog.Any("error", err))
	}
	j.changed()
}

func (j *Journal) changed() {
	if j.options.Changed != nil {
		j.options.Changed()
	}
}

// refused notes why a write was refused, and begins a new file where that was because of damage.
func (j *Journal) refused(s *store, err error) {
	j.fail(err)
	if damaged(err) {
		j.replace(s)
	}
}

// replace puts a file aside that turned out damaged while it was in use, and begins a new one.
func (j *Journal) replace(s *store) {
	j.mu.Lock()
	j.store = nil
	live := slices.Clone(j.live)
	j.mu.Unlock()
	for _, l := range live {
		l.noted = nil // not in the new file
	}
	s.close()
	aside, err := putAside(j.path, j.options.Now())
	if err != nil {
		j.fail(err)
		return
	}
	j.connect()
	j.mu.Lock()
	j.notice = putAsideNotice(aside)
	j.mu.Unlock()
	j.changed()
}

// lookAtFile lets go of a file that is no longer the one at the path: it was deleted, or another one was put in its place. What
// is written to it would be gone with it.
func (j *Journal) lookAtFile() {
	j.mu.Lock()
	s, live := j.store, slices.Clone(j.live)
	j.mu.Unlock()
	if s == nil || !s.gone(j.path) {
		return
	}
	j.mu.Lock()
	j.store = nil
	j.notice = goneNotice
	j.mu.Unlock()
	for _, l := range live {
		l.noted = nil // not in the new file
	}
	s.close()
	j.options.Log.Warn("journal", slog.String("notice", goneNotice), slog.String("path", j.path))
	j.changed()
}

// insert stores entries, all or none, but for those that are no JSON.
func (s *store) insert(ctx context.Context, entries []Entry, log *slog.Logger) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		stmt, err := tx.PrepareContext(ctx, `INSERT INTO requests (trace_id, started_at, client, model_asked, model_used, device,
			endpoint_id, outcome, prompt_tokens, completion_tokens, device_seconds, entry, rule, fallback, search)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
		if err != nil {
			return err
		}
		defer stmt.Close()
		for _, e := range entries {
			text, err := json.Marshal(e)
			if err != nil { // a number that is none; it must not hold up the others
				log.Warn("journal", slog.String("problem", "an entry cannot be stored"), slog.String("trace_id", e.TraceID), slog.Any("error", err))
				continue
			}
			if _, err := stmt.ExecContext(ctx, e.TraceID, e.StartedAt.UnixNano(), e.Client, e.ModelAsked, e.ModelUsed, e.ExecutionDevice,
				e.EndpointID, string(e.Outcome), e.PromptTokens, e.CompletionTokens, e.CostEstimate.DeviceSeconds, string(text),
				e.RouteRule, e.FallbackReason, e.search()); err != nil {
				return err
			}
			if err := e.settle(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}
