package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// migrations bring the file from each version to the next; version n is len(migrations[:n]). Never change one that was
// released: add one. testdata has a file of every version, and a test opens each.
var migrations = []string{
	`CREATE TABLE requests (
		id INTEGER PRIMARY KEY,
		trace_id TEXT NOT NULL,
		started_at INTEGER NOT NULL, -- Unix nanoseconds, as every time here
		client TEXT NOT NULL,
		model_asked TEXT NOT NULL,
		model_used TEXT NOT NULL,
		device TEXT NOT NULL,
		endpoint_id TEXT NOT NULL,
		outcome TEXT NOT NULL,
		prompt_tokens INTEGER,
		completion_tokens INTEGER,
		device_seconds REAL,
		entry TEXT NOT NULL -- the whole Entry as JSON
	);
	CREATE INDEX requests_started_at ON requests (started_at);
	CREATE INDEX requests_trace_id ON requests (trace_id);
	CREATE TABLE chats (
		id TEXT PRIMARY KEY,
		title TEXT NOT NULL,
		model TEXT NOT NULL,
		created_at INTEGER NOT NULL,
		updated_at INTEGER NOT NULL
	);
	CREATE TABLE messages (
		chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
		number INTEGER NOT NULL,
		role TEXT NOT NULL,
		content TEXT NOT NULL,
		message TEXT NOT NULL, -- the rest of the Message as JSON
		PRIMARY KEY (chat_id, number)
	);
	CREATE TABLE clock (start TEXT PRIMARY KEY, at INTEGER NOT NULL); -- see retention.go`,

	`ALTER TABLE requests ADD COLUMN rule TEXT NOT NULL DEFAULT '';
	ALTER TABLE requests ADD COLUMN fallback TEXT NOT NULL DEFAULT '';
	ALTER TABLE requests ADD COLUMN search TEXT NOT NULL DEFAULT ''; -- Entry.search
	UPDATE requests SET rule = coalesce(json_extract(entry, '$.route_rule'), ''),
		fallback = coalesce(json_extract(entry, '$.fallback_reason'), ''),
		search = lower(trace_id || char(10) || client || char(10) || coalesce(json_extract(entry, '$.user_agent'), '') || char(10)
			|| coalesce(json_extract(entry, '$.route'), '') || char(10) || model_asked || char(10) || model_used || char(10) || device || char(10)
			|| coalesce(json_extract(entry, '$.route_reason'), '') || char(10) || coalesce(json_extract(entry, '$.error'), ''));
	CREATE TABLE active ( -- requests that had not ended when they were last looked at; see interrupted.go
		trace_id TEXT NOT NULL,
		started_at INTEGER NOT NULL,
		entry TEXT NOT NULL,
		PRIMARY KEY (trace_id, started_at)
	);
	CREATE TABLE bodies ( -- empty unless the user wants them kept; see bodies.go
		trace_id TEXT NOT NULL,
		started_at INTEGER NOT NULL,
		request TEXT NOT NULL,
		answer TEXT NOT NULL,
		PRIMARY KEY (trace_id, started_at)
	);`,
}

// errNewer is for a file that a newer Signalbox has migrated.
var errNewer = errors.New("written by a newer Signalbox")

// store is an open file.
type store struct {
	db      *sql.DB     // one connection: SQLite has one writer
	reads   *sql.DB     // a few that cannot write
	newer   bool        // nothing may be written
	file    os.FileInfo // the file as it was opened; nil where that could not be told
	pruning sync.Mutex
	passed  time.Time // see retention.go; guarded by pruning
}

// openStore opens or makes the file. The notice says what happened to a damaged one.
func openStore(path string, now time.Time) (s *store, notice string, err error) {
	if err := private(path); err != nil {
		return nil, "", err
	}
	s, err = connect(path)
	if !damaged(err) {
		return s, "", err
	}
	aside, err := putAside(path, now)
	if err != nil {
		return nil, "", err
	}
	if err := private(path); err != nil {
		return nil, "", err
	}
	s, err = connect(path)
	return s, putAsideNotice(aside), err
}

const goneNotice = "The journal's file was deleted or replaced while Signalbox ran. What was in it is no longer shown; new requests are written down as usual."

// gone tells whether the open file is no longer the one at its path.
func (s *store) gone(path string) bool {
	if s.file == nil {
		return false
	}
	info, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(s.file, info)
}

func putAsideNotice(aside string) string {
	return fmt.Sprintf("The journal was damaged. It was put aside as %s, and a new one was begun.", aside)
}

// private makes the file before SQLite does, which would leave its mode to the umask. SQLite gives the files beside it the
// same mode.
func private(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if info, err := os.Stat(path + suffix); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			if err := os.Chmod(path+suffix, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// connect opens the file and brings it to this version.
func connect(path string) (*store, error) {
	s := &store{}
	var err error
	if s.db, err = sql.Open("sqlite", dsn(path, "immediate", "busy_timeout(5000)", "auto_vacuum(2)", "journal_mode(WAL)",
		"synchronous(1)", "foreign_keys(1)", "secure_delete(1)", "journal_size_limit(16777216)")); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(1)
	if s.reads, err = sql.Open("sqlite", dsn(path, "deferred", "busy_timeout(5000)", "query_only(1)")); err != nil {
		s.close()
		return nil, err
	}
	s.reads.SetMaxOpenConns(4)
	err = s.migrate(context.Background())
	if info, unknown := os.Stat(path); unknown == nil {
		s.file = info
	}
	if errors.Is(err, errNewer) {
		s.newer = true
		return s, nil
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// dsn writes the path as a URI: it may hold a question mark, a percent sign or anything else. A transaction that begins
// immediate waits for another program's; one that has read before it writes would fail at once.
func dsn(path, begin string, pragmas ...string) string {
	slashed := filepath.ToSlash(path)
	if runtime.GOOS == "windows" {
		slashed = "/" + slashed
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: url.Values{"_pragma": pragmas, "_txlock": {begin}}.Encode()}
	return u.String()
}

// migrate runs the migrations that the file has not seen, each in its own transaction.
func (s *store) migrate(ctx context.Context) error {
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("%w: it has version %d, this one knows %d", errNewer, version, len(migrations))
	}
	for ; version < len(migrations); version++ {
		err := s.inTx(ctx, func(tx *sql.Tx) error {
			if version == 0 {
				if _, err := tx.ExecContext(ctx, `CREATE TABLE schema_version (version INTEGER NOT NULL, applied_at INTEGER NOT NULL)`); err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(ctx, migrations[version]); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO schema_version VALUES (?, ?)`, version+1, time.Now().UnixNano())
			return err
		})
		if err != nil {
			return fmt.Errorf("bring the journal to version %d: %w", version+1, err)
		}
	}
	return nil
}

// version is the file's version, 0 for a new one.
func (s *store) version(ctx context.Context) (version int, err error) {
	var tables int
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'schema_version'`).Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	err = s.db.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&version)
	return version, err
}

func (s *store) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *store) close() error {
	var errs []error
	if s.reads != nil {
		errs = append(errs, s.reads.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close()) // the last to close, so that it can checkpoint
	}
	return errors.Join(errs...)
}

// putAside renames the file and those beside it, and returns the new name.
func putAside(path string, now time.Time) (string, error) {
	aside := path + now.UTC().Format(".damaged-20060102-150405")
	for n := 2; exists(aside); n++ {
		aside = fmt.Sprintf("%s.damaged-%s-%d", path, now.UTC().Format("20060102-150405"), n)
	}
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// code is SQLite's primary result code of err; 0 when it has none.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

func damaged(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_NOTADB || c == sqlite3.SQLITE_CORRUPT
}

// trouble says for people why the file was not written.
func trouble(path string, err error) string {
	switch code(err) {
	case sqlite3.SQLITE_FULL:
		return fmt.Sprintf("The disk is full: the journal %s cannot grow.", path)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return fmt.Sprintf("The journal %s is write-protected.", path)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Sprintf("Another program holds the journal %s.", path)
	case sqlite3.SQLITE_IOERR:
		return fmt.Sprintf("The disk refused to write the journal %s.", path)
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return fmt.Sprintf("The journal %s is damaged.", path)
	}
	if errors.Is(err, errNewer) {
		return fmt.Sprintf("The journal %s was written by a newer Signalbox: it is shown, but nothing is added to it.", path)
	}
	return fmt.Sprintf("The journal %s cannot be written: %v.", path, err)
}
