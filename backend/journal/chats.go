package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"signalbox/backend/llm"
)

// chatID is what a chat may be called. The window makes 128 random bits.
var chatID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// writable is the file for writing; the error says why there is none.
func (j *Journal) writable() (*store, error) {
	if s := j.reader(); s != nil && s.gone(j.path) {
		done := make(chan struct{})
		select {
		case j.looks <- done:
			<-done
		case <-j.closing:
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.store == nil && j.failure != "":
		return nil, llm.Errorf(llm.CodeUnavailable, "the chat is not saved").WithHint("%s", j.failure)
	case j.store == nil:
		return nil, llm.Errorf(llm.CodeUnavailable, "the chat is not saved: the journal is closed")
	case j.store.newer:
		return nil, llm.Errorf(llm.CodeUnavailable, "the chat is not saved").WithHint("%s", trouble(j.path, errNewer))
	}
	return j.store, nil
}

// SaveChat stores a chat with its messages in place of what was there. It returns when they are on disk; an error is a
// *llm.Error that says why they are not. Zero times are set: UpdatedAt to now, CreatedAt to what it was, or now.
func (j *Journal) SaveChat(c Chat) error {
	if !chatID.MatchString(c.ID) {
		return llm.Errorf(llm.CodeInvalid, "a chat's id is 1 to 64 letters, digits, - and _")
	}
	s, err := j.writable()
	if err != nil {
		return err
	}
	now := j.options.Now()
	if c.UpdatedAt.IsZero() {
		c.UpdatedAt = now
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = now
	}
	if err := s.saveChat(context.Background(), c); err != nil {
		return j.notSaved(err)
	}
	return nil
}

func (j *Journal) notSaved(err error) error {
	e := llm.Errorf(llm.CodeUnavailable, "the chat is not saved").WithHint("%s", trouble(j.path, err))
	e.Cause = err
	return e
}

func (s *store) saveChat(ctx context.Context, c Chat) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO chats VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
			SET title = excluded.title, model = excluded.model, updated_at = excluded.updated_at`,
			c.ID, c.Title, c.Model, c.CreatedAt.UnixNano(), c.UpdatedAt.UnixNano()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM messages WHERE chat_id = ?`, c.ID); err != nil {
			return err
		}
		for i, m := range c.Messages {
			rest := m
			rest.Role, rest.Content = "", ""
			text, err := json.Marshal(rest)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO messages VALUES (?, ?, ?, ?, ?)`, c.ID, i, m.Role, m.Content, string(text)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ListChats lists the chats without their messages, newest first.
func (j *Journal) ListChats() ([]Chat, error) {
	return j.findChats(`SELECT id, title, model, created_at, updated_at FROM chats ORDER BY updated_at DESC, id`)
}

// SearchChats lists the chats whose title or messages hold the text, newest first, without case in ASCII.
func (j *Journal) SearchChats(text string) ([]Chat, error) {
	like := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
	return j.findChats(`SELECT id, title, model, created_at, updated_at FROM chats
		WHERE title LIKE ?1 ESCAPE '\' OR id IN (SELECT chat_id FROM messages WHERE content LIKE ?1 ESCAPE '\')
		ORDER BY updated_at DESC, id`, like)
}

func (j *Journal) findChats(query string, args ...any) ([]Chat, error) {
	s := j.reader()
	if s == nil {
		return nil, nil
	}
	rows, err := s.reads.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("read the chats in %s: %w", j.path, err)
	}
	defer rows.Close()
	var chats []Chat
	for rows.Next() {
		c, err := scanChat(rows)
		if err != nil {
			return nil, fmt.Errorf("read the chats in %s: %w", j.path, err)
		}
		chats = append(chats, c)
	}
	return chats, rows.Err()
}

func scanChat(row interface{ Scan(...any) error }) (c Chat, err error) {
	var created, updated int64
	err = row.Scan(&c.ID, &c.Title, &c.Model, &created, &updated)
	c.CreatedAt, c.UpdatedAt = time.Unix(0, created).UTC(), time.Unix(0, updated).UTC()
	return c, err
}

// GetChat returns a chat with its messages; ErrNotFound when there is none of that id.
func (j *Journal) GetChat(id string) (Chat, error) {
	s := j.reader()
	if s == nil {
		return Chat{}, ErrNotFound
	}
	c, err := s.chat(context.Background(), id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Chat{}, ErrNotFound
	case err != nil:
		return Chat{}, fmt.Errorf("read the chat %s: %w", id, err)
	}
	return c, nil
}

// chat reads the chat and its messages as of one moment.
func (s *store) chat(ctx context.Context, id string) (Chat, error) {
	tx, err := s.reads.BeginTx(ctx, nil)
	if err != nil {
		return Chat{}, err
	}
	defer tx.Rollback()
	c, err := scanChat(tx.QueryRowContext(ctx, `SELECT id, title, model, created_at, updated_at FROM chats WHERE id = ?`, id))
	if err != nil {
		return Chat{}, err
	}
	rows, err := tx.QueryContext(ctx, `SELECT role, content, message FROM messages WHERE chat_id = ? ORDER BY number`, id)
	if err != nil {
		return Chat{}, err
	}
	defer rows.Close()
	for rows.Next() {
		var role, content, rest string
		if err := rows.Scan(&role, &content, &rest); err != nil {
			return Chat{}, err
		}
		var m Message
		if err := json.Unmarshal([]byte(rest), &m); err != nil {
			return Chat{}, err
		}
		m.Role, m.Content = role, content
		c.Messages = append(c.Messages, m)
	}
	return c, rows.Err()
}

// DeleteChat removes a chat, also from the free parts of the file. Removing what is not there is no error.
func (j *Journal) DeleteChat(id string) error {
	s, err := j.writable()
	if err != nil {
		return err
	}
	if _, err := s.db.Exec(`DELETE FROM chats WHERE id = ?`, id); err != nil {
		return j.notSaved(err)
	}
	// The log still holds the text. When a reader keeps it from being emptied now, the hourly checkpoint does it.
	s.db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	return nil
}
