package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"slices"

	"signalbox/backend/llm"
)

// Entries live in memory until they end. So that a kill or a power cut does not swallow those that were active, the writer
// notes each in the file when it begins and when its device is decided, and takes it out again when it ends. What the
// next start finds there was interrupted.

// note writes down the live entries that the file does not have as they are.
func (j *Journal) note(s *store) error {
	j.mu.Lock()
	live := slices.Clone(j.live)
	j.mu.Unlock()
	var owed []*Live
	var entries []Entry
	for _, l := range live {
		e := l.Entry()
		if e.State != StateDone && (l.noted == nil || *l.noted != e.ExecutionDevice) {
			owed, entries = append(owed, l), append(entries, e)
		}
	}
	if len(owed) == 0 {
		return nil
	}
	if err := s.noteActive(context.Background(), entries); err != nil {
		return err
	}
	for i, l := range owed {
		l.noted = &entries[i].ExecutionDevice
	}
	return nil
}

func (s *store) noteActive(ctx context.Context, entries []Entry) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		for _, e := range entries {
			text, err := json.Marshal(e)
			if err != nil {
				continue // the end will say so
			}
			if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO active VALUES (?, ?, ?)`, e.TraceID, e.StartedAt.UnixNano(), string(text)); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle takes an entry that has ended off the active ones, and stores its body.
func (e Entry) settle(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM active WHERE trace_id = ? AND started_at = ?`, e.TraceID, e.StartedAt.UnixNano()); err != nil {
		return err
	}
	return e.keepBody(ctx, tx)
}

// interrupted ends the entries that an earlier process left active. How many tokens they came to is not known, so it stays null.
func (s *store) interrupted(ctx context.Context) error {
	left, err := s.entries(ctx, `SELECT entry FROM active ORDER BY started_at`)
	if err != nil || len(left) == 0 {
		return err
	}
	for i := range left {
		e := &left[i]
		e.State, e.Position, e.Phase = StateDone, 0, ""
		e.Outcome, e.Interrupted = llm.OutcomeError, true
		e.Error = "Signalbox was ended while this request ran"
	}
	return s.insert(ctx, left, slog.New(slog.DiscardHandler)) // they came from JSON
}
