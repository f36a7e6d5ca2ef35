package journal_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
)

// quick lets the writer try again soon.
var quick = journal.Options{Retry: 5 * time.Millisecond}

func eventually(t *testing.T, holds func() bool, what string) {
	t.Helper()
	require.Eventually(t, holds, time.Minute, time.Millisecond, what)
}

func TestRefusedWritesFailNoRequestAndAreTriedAgain(t *testing.T) {
	for name, c := range map[string]struct{ breaks, heals, problem string }{
		"full":      {`PRAGMA max_page_count = 1`, `PRAGMA max_page_count = 1000000`, "The disk is full: the journal"},
		"read-only": {`PRAGMA query_only = 1`, `PRAGMA query_only = 0`, "is write-protected."},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			told := make(chan struct{}, 100)
			j := open(t, path, journal.Options{Retry: quick.Retry, Changed: func() { told <- struct{}{} }})
			record(j, entry("before", noon))
			eventually(t, func() bool { return stored(t, path) == 1 }, "the first is stored")
			require.NoError(t, j.Exec(c.breaks))

			for i := range 60 {
				record(j, entry(fmt.Sprint(i), noon.Add(time.Duration(i+1)*time.Second)))
			}
			eventually(t, func() bool { return strings.Contains(j.Problem(), c.problem) }, j.Problem())
			assert.Regexp(t, `\d+ requests are kept in memory and tried again\.$`, j.Problem()) // a full file has room for a few
			entries, _, err := j.List(journal.Query{Limit: 100})
			require.NoError(t, err)
			assert.Len(t, entries, 61, "what is not stored is shown all the same")
			assert.NotEmpty(t, told)

			err = j.SaveChat(journal.Chat{ID: "a", Messages: []journal.Message{{Content: strings.Repeat("x", 100_000)}}})
			assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
			assert.ErrorContains(t, err, "the chat is not saved: ")
			assert.ErrorContains(t, err, c.problem)

			require.NoError(t, j.Exec(c.heals))
			eventually(t, func() bool { return j.Problem() == "" }, "it writes again")
			require.NoError(t, j.Close())
			assert.Equal(t, 61, stored(t, path))
		})
	}
}

func TestRingKeepsTheLastThousand(t *testing.T) {
	path := newPath(t)
	j := open(t, path, journal.Options{Retry: time.Hour})
	require.NoError(t, j.Exec(`PRAGMA query_only = 1`))
	for i := range 1500 {
		record(j, entry(fmt.Sprint(i), noon.Add(time.Duration(i)*time.Second)))
	}
	eventually(t, func() bool { return j.Problem() != "" }, "it is said")
	assert.Contains(t, j.Problem(), "The last 1000 requests are kept in memory, 500 older ones are lost.")
	require.NoError(t, j.Exec(`PRAGMA query_only = 0`))
	require.NoError(t, j.Close())
	assert.Equal(t, 1000, stored(t, path))
	assert.Equal(t, "1499 1498", list(t, open(t, path), journal.Query{Limit: 2}))
}

func TestDamagedFileIsPutAsideNeverDeleted(t *testing.T) {
	for name, content := range map[string][]byte{
		"no database": []byte(strings.Repeat("this is no database\n", 500)),
		"torn header": append([]byte("SQLite format 3\x00"), make([]byte, 4096)...),
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			require.NoError(t, os.WriteFile(path, content, 0o600))
			j := open(t, path)
			assert.Contains(t, j.Problem(), "The journal was damaged. It was put aside as "+path+".damaged-")
			record(j, entry("one", noon))
			require.NoError(t, j.Close())
			assert.Equal(t, 1, stored(t, path))
			aside, err := filepath.Glob(path + ".damaged-*")
			require.NoError(t, err)
			require.Len(t, aside, 1)
			kept, err := os.ReadFile(aside[0])
			require.NoError(t, err)
			assert.Equal(t, content, kept)
		})
	}
}

func TestFileDamagedWhileInUseIsPutAsideAndWritingGoesOn(t *testing.T) {
	path := newPath(t)
	j := open(t, path, quick)
	for i := range 400 {
		record(j, entry(fmt.Sprint(i), noon))
	}
	eventually(t, func() bool { return stored(t, path) == 400 }, "all are stored")
	require.NoError(t, j.Close())
	overwritePages(t, path)

	j = open(t, path, quick)
	record(j, entry("after", noon))
	eventually(t, func() bool {
		e, err := j.Get("after")
		return err == nil && e.TraceID == "after" && strings.Contains(j.Problem(), "put aside")
	}, "the damage was noticed")
	require.NoError(t, j.Close())
	assert.Equal(t, "after", list(t, open(t, path), journal.Query{}))
	aside, _ := filepath.Glob(path + ".damaged-*")
	assert.NotEmpty(t, aside)
}

func TestActiveRequestsAreInTheFileThatReplacesADamagedOne(t *testing.T) {
	path := newPath(t)
	j := open(t, path, quick)
	for i := range 400 {
		record(j, entry(fmt.Sprint(i), noon))
	}
	j.Begin(entry("going", noon))
	eventually(t, func() bool { return stored(t, path) == 400 && active(t, path) == 1 }, "all are stored")
	require.NoError(t, j.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`))
	require.NoError(t, j.Exec(`PRAGMA shrink_memory`)) // nothing is answered from memory
	overwritePages(t, path)

	j.Begin(entry("second", noon)) // its note alone finds the damage
	eventually(t, func() bool { return strings.Contains(j.Problem(), "put aside") }, "the damage was noticed")
	eventually(t, func() bool { return active(t, path) == 2 }, "both are noted in the new file")
}

// active counts the requests that the file holds as going on; -1 while it cannot be read.
func active(t *testing.T, path string) int { return count(t, path, "active") }

// overwritePages writes noise over all but the first page, as a failing disk does.
func overwritePages(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 4096; i < len(content); i++ {
		content[i] = 0xa5
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

func TestUnusablePathWorksFromMemoryAndHeals(t *testing.T) {
	dir := t.TempDir()
	inTheWay := filepath.Join(dir, "data")
	require.NoError(t, os.WriteFile(inTheWay, nil, 0o600)) // a file where the folder should be
	path := filepath.Join(inTheWay, "journal.db")
	j := open(t, path, quick)
	assert.Contains(t, j.Problem(), "cannot be written")
	record(j, entry("one", noon))
	assert.Equal(t, "one", list(t, j, journal.Query{}))
	totals, err := j.Totals(time.Time{})
	require.NoError(t, err)
	assert.Equal(t, 1, totals.Requests)
	chats, err := j.ListChats()
	require.NoError(t, err)
	assert.Empty(t, chats)
	assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(j.SaveChat(journal.Chat{ID: "a"})))

	require.NoError(t, os.Remove(inTheWay))
	eventually(t, func() bool { return j.Problem() == "" }, "it opens later")
	require.NoError(t, j.SaveChat(journal.Chat{ID: "a"}))
	require.NoError(t, j.Close())
	assert.Equal(t, 1, stored(t, path))
}

func TestNewerFileIsReadAndNeverWritten(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	record(j, entry("old", noon))
	require.NoError(t, j.SaveChat(journal.Chat{ID: "a", Title: "kept"}))
	require.NoError(t, j.Close())
	raw(t, path, `INSERT INTO schema_version VALUES (99, 0)`)

	j = open(t, path)
	assert.Contains(t, j.Problem(), "was written by a newer Signalbox: it is shown, but nothing is added to it.")
	record(j, entry("new", noon.Add(time.Second)))
	assert.Equal(t, "new old", list(t, j, journal.Query{}))
	c, err := j.GetChat("a")
	require.NoError(t, err)
	assert.Equal(t, "kept", c.Title)
	assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(j.SaveChat(journal.Chat{ID: "a"})))
	assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(j.DeleteChat("a")))
	j.Tidy()
	require.NoError(t, j.Close())
	assert.Equal(t, 1, stored(t, path))
}

func TestEveryReleasedVersionOpens(t *testing.T) {
	dumps, err := filepath.Glob(filepath.Join("testdata", "v*.sql"))
	require.NoError(t, err)
	require.NotEmpty(t, dumps)
	for _, dump := range dumps {
		t.Run(filepath.Base(dump), func(t *testing.T) {
			text, err := os.ReadFile(dump)
			require.NoError(t, err)
			path := newPath(t)
			raw(t, path, string(text))
			j := open(t, path)
			require.Empty(t, j.Problem())
			e, err := j.Get("0192f0c1-2d3e-7000-8000-000000000001")
			require.NoError(t, err)
			assert.Equal(t, "NPU", e.ExecutionDevice)
			assert.Equal(t, llm.OutcomeCancelled, e.Outcome)
			assert.Equal(t, 5, *e.CompletionTokens)
			c, err := j.GetChat("chat1")
			require.NoError(t, err)
			require.Len(t, c.Messages, 2)
			assert.Equal(t, "Hello!", c.Messages[1].Content)
			assert.True(t, c.Messages[1].Stopped)
			narrowed, _, err := j.List(journal.Query{Reason: "already_loaded", Text: "THE NPU'S 1,024"})
			require.NoError(t, err)
			assert.Len(t, narrowed, 1, "old rows can be searched")
			before := stored(t, path)
			record(j, entry("new", time.Now()))
			require.NoError(t, j.Close())
			assert.Equal(t, before+1, stored(t, path))
		})
	}
}

// raw runs SQL on the file as another program would.
func raw(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(statements)
	require.NoError(t, err)
}

// stored counts the requests in the file; -1 while it cannot be read.
func stored(t *testing.T, path string) int { return count(t, path, "requests") }

func count(t *testing.T, path, table string) int {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=query_only(1)&_pragma=busy_timeout(1000)")
	require.NoError(t, err)
	defer db.Close()
	n := -1
	if err := db.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
		return -1
	}
	return n
}

func TestAFileThatIsDeletedWhileInUseIsNoticedSaidAndBegunAnew(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, path string){
		"deleted": func(t *testing.T, path string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				require.NoError(t, os.Remove(path+suffix))
			}
		},
		"with its folder": func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(filepath.Dir(path))) },
		"replaced by an older copy": func(t *testing.T, path string) {
			other := newPath(t)
			j := open(t, other)
			record(j, entry("of the copy", noon.Add(-time.Hour)))
			require.NoError(t, j.Close())
			for _, suffix := range []string{"-wal", "-shm"} {
				require.NoError(t, os.Remove(path+suffix))
			}
			require.NoError(t, os.Rename(other, path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			told := make(chan struct{}, 100)
			j := open(t, path, journal.Options{Changed: func() { told <- struct{}{} }})
			record(j, entry("before", noon))
			eventually(t, func() bool { return stored(t, path) == 1 }, "the first is stored")
			going := j.Begin(entry("going", noon.Add(time.Second)))
			eventually(t, func() bool { return active(t, path) == 1 }, "it is noted")
			remove(t, path)

			record(j, entry("after", noon.Add(2*time.Second)))
			eventually(t, func() bool { return strings.Contains(j.Problem(), "deleted or replaced while Signalbox ran") }, "it is said")
			eventually(t, func() bool { return active(t, path) == 1 }, "what goes on is noted in the new file")
			assert.NotEmpty(t, told)
			require.NoError(t, j.SaveChat(journal.Chat{ID: "a", Title: "kept"}))
			going.End(nil)
			eventually(t, func() bool { return active(t, path) == 0 }, "and ends there")
			want := map[string]string{"replaced by an older copy": "after going of the copy"}[name]
			if want == "" {
				want = "after going"
			}
			require.NoError(t, j.Close())
			again := open(t, path)
			assert.Equal(t, want, list(t, again, journal.Query{}))
			_, err := again.GetChat("a")
			assert.NoError(t, err)
		})
	}
}

func TestAChatIsNeverSavedToADeletedFile(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	require.NoError(t, j.SaveChat(journal.Chat{ID: "a", Title: "kept"}))
	assert.Contains(t, j.Problem(), "deleted or replaced")
	require.NoError(t, j.Close())
	_, err := open(t, path).GetChat("a")
	assert.NoError(t, err)
}
