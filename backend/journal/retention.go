package journal

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

// A clock that jumps years ahead must not empty the journal. So an entry's age is taken by a time that two starts of
// Signalbox, more than an hour apart, have both passed, plus the time this process has been running; and one pass deletes
// a tenth of the entries at most. Passes are an hour apart.

// tidy deletes the entries that are too old, and the oldest when all take too much space. Chats are kept until deleted.
func (j *Journal) tidy() {
	j.mu.Lock()
	s, retention, bodies := j.store, j.retention, j.bodies
	j.mu.Unlock()
	if s == nil || s.newer {
		return
	}
	ctx := context.Background()
	if err := s.prune(ctx, j.options.Now(), time.Since(j.began), retention, bodies, j.options.MaxBytes); err != nil {
		j.options.Log.Warn("journal", slog.String("problem", "old entries were not deleted"), slog.Any("error", err))
	}
}

func (s *store) prune(ctx context.Context, now time.Time, running, retention, bodies time.Duration, maxBytes int64) error {
	s.pruning.Lock()
	defer s.pruning.Unlock()
	if s.passed.IsZero() {
		if err := s.inTx(ctx, func(tx *sql.Tx) (err error) {
			s.passed, err = passed(ctx, tx, now)
			return err
		}); err != nil {
			return err
		}
	}
	sure := s.passed.Add(running)
	if now.Before(sure) {
		sure = now
	}
	var count, bytes int64
	if err := s.db.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(length(entry)), 0) FROM requests`).Scan(&count, &bytes); err != nil {
		return err
	}
	tenth := max(1, count/10)
	if retention >= 0 {
		if _, err := s.db.ExecContext(ctx, `DELETE FROM requests WHERE id IN
			(SELECT id FROM requests WHERE started_at < ? ORDER BY started_at LIMIT ?)`, sure.Add(-retention).UnixNano(), tenth); err != nil {
			return err
		}
	}
	if bytes > maxBytes {
		if _, err := s.db.ExecContext(ctx, `DELETE FROM requests WHERE id IN
			(SELECT id FROM requests ORDER BY started_at LIMIT ?)`, tenth); err != nil {
			return err
		}
	}
	if err := s.pruneBodies(ctx, sure, bodies); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, `PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(PASSIVE)`)
	return err
}

// passed notes this start's clock and returns the time that this start and one more than an hour earlier have both seen
// pass. The first start can only believe itself: its file is new.
func passed(ctx context.Context, tx *sql.Tx, now time.Time) (time.Time, error) {
	earlier, latest, err := clock(ctx, tx)
	if err != nil {
		return time.Time{}, err
	}
	switch {
	case latest.IsZero():
		earlier, latest = now, now
	case now.Before(latest): // the clock was ahead, or is behind now
		latest = now
		if now.Before(earlier) {
			earlier = now
		}
	case now.Sub(latest) > time.Hour:
		earlier, latest = latest, now
	}
	_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO clock VALUES ('earlier', ?), ('latest', ?)`, earlier.UnixNano(), latest.UnixNano())
	return earlier, err
}

func clock(ctx context.Context, tx *sql.Tx) (earlier, latest time.Time, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT start, at FROM clock`)
	if err != nil {
		return earlier, latest, err
	}
	defer rows.Close()
	for rows.Next() {
		var start string
		var at int64
		if err := rows.Scan(&start, &at); err != nil {
			return earlier, latest, err
		}
		if start == "latest" {
			latest = time.Unix(0, at)
		} else {
			earlier = time.Unix(0, at)
		}
	}
	return earlier, latest, rows.Err()
}
