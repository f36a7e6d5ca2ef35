package journal_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

func open(t *testing.T, path string, options ...journal.Options) *journal.Journal {
	t.Helper()
	options = append(options, journal.Options{})
	j, err := journal.OpenWith(path, options[0])
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "journal.db") }

func entry(id string, at time.Time, change ...func(*journal.Entry)) journal.Entry {
	prompt, completion, seconds := 12, 34, 0.5
	e := journal.Entry{
		Record: llm.Record{
			TraceID: id, ModelUsed: "smollm2:135m", ExecutionDevice: "NPU", EndpointID: "npu:0", Outcome: llm.OutcomeCompleted,
			PromptTokens: &prompt, CompletionTokens: &completion, CostEstimate: llm.Cost{Currency: "EUR", DeviceSeconds: &seconds},
		},
		Client: "curl", UserAgent: "curl/8.5.0", Route: "/api/chat", ModelAsked: "smollm2", StartedAt: at,
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

// record puts a finished entry into the journal.
func record(j *journal.Journal, e journal.Entry) { j.Begin(e).End(nil) }

func ids(entries []journal.Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.TraceID)
	}
	return strings.Join(all, " ")
}

func list(t *testing.T, j *journal.Journal, q journal.Query) string {
	t.Helper()
	entries, _, err := j.List(q)
	require.NoError(t, err)
	return ids(entries)
}

func TestEntrySurvivesARestartWhole(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	live := j.Begin(entry("one", noon))
	live.Update(func(e *journal.Entry) { e.State, e.Phase = journal.StateLoading, "compiling for NPU" })
	live.End(func(e *journal.Entry) {
		e.Rejected = []llm.Rejection{{Device: "GPU", Rule: "absent", Reason: "There is no GPU here."}}
		e.TokensSoFar = 34
		e.EndedAt = noon.Add(2 * time.Second)
	})
	before, err := j.Get("one")
	require.NoError(t, err)
	require.NoError(t, j.Close())
	require.NoError(t, j.Close())

	after, err := open(t, path).Get("one")
	require.NoError(t, err)
	assert.Equal(t, before, after)
	assert.Equal(t, journal.StateDone, after.State)
	assert.Empty(t, after.Phase)
	assert.Equal(t, noon.Add(2*time.Second), after.EndedAt)
	assert.Equal(t, 34, *after.CompletionTokens)
	assert.Nil(t, after.TTFTMS, "unknown stays unknown")

	_, err = j.Get("two")
	assert.ErrorIs(t, err, journal.ErrNotFound)
}

func TestEntryIsOneFlatObjectOnTheWire(t *testing.T) {
	text, err := json.Marshal(entry("one", noon))
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(text, &keys))
	for _, key := range []string{"trace_id", "route_reason", "state", "client", "started_at", "tokens_so_far", "ttft_ms"} {
		assert.Contains(t, keys, key)
	}
	assert.NotContains(t, keys, "ended_at", "it has not ended")
}

func TestListNarrowsDownAndPages(t *testing.T) {
	j := open(t, newPath(t))
	for i := range 5 {
		record(j, entry(fmt.Sprint(i), noon.Add(time.Duration(i)*time.Second)))
	}
	record(j, entry("zed", noon.Add(time.Hour), func(e *journal.Entry) { e.Client = "Zed" }))
	record(j, entry("cpu", noon.Add(2*time.Hour), func(e *journal.Entry) { e.ExecutionDevice, e.EndpointID = "CPU", "cpu:0" }))
	record(j, entry("mini", noon.Add(3*time.Hour), func(e *journal.Entry) { e.ModelAsked, e.ModelUsed = "MiniLM", "all-minilm" }))
	record(j, entry("gone", noon.Add(4*time.Hour), func(e *journal.Entry) { e.Outcome = llm.OutcomeCancelled }))
	check := func(t *testing.T) {
		for want, q := range map[string]journal.Query{
			"gone mini cpu zed 4 3 2 1 0": {},
			"zed":                         {Client: "Zed"},
			"cpu":                         {Device: "CPU"},
			"gone mini zed 4 3 2 1 0":     {Device: "npu:0"},
			"mini":                        {Model: "all-minilm"},
			"gone":                        {Outcome: llm.OutcomeCancelled},
			"1 0":                         {Before: noon.Add(2 * time.Second)},
			"":                            {Client: "Zed", Device: "CPU"},
		} {
			assert.Equal(t, want, list(t, j, q), "%+v", q)
		}
		entries, more, err := j.List(journal.Query{Limit: 4})
		require.NoError(t, err)
		assert.Equal(t, "gone mini cpu zed", ids(entries))
		assert.True(t, more)
		entries, more, err = j.List(journal.Query{Limit: 5, Before: entries[3].StartedAt})
		require.NoError(t, err)
		assert.Equal(t, "4 3 2 1 0", ids(entries))
		assert.False(t, more)
	}
	t.Run("perhaps in memory", check)
	live := j.Begin(entry("live", noon.Add(5*time.Hour)))
	assert.Equal(t, "live gone", list(t, j, journal.Query{Limit: 2}))
	assert.Equal(t, "live", ids(j.Active()))
	live.End(nil)
	assert.Empty(t, j.Active())
}

func TestTotalsCountWhatCancelledRequestsUsed(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	record(j, entry("old", noon.Add(-time.Hour)))
	record(j, entry("done", noon))
	record(j, entry("length", noon, func(e *journal.Entry) { e.Outcome = llm.OutcomeLength }))
	record(j, entry("gone", noon, func(e *journal.Entry) { e.Outcome = llm.OutcomeCancelled }))
	record(j, entry("refused", noon, func(e *journal.Entry) { // nothing ran
		e.Outcome, e.PromptTokens, e.CompletionTokens, e.CostEstimate.DeviceSeconds = llm.OutcomeRejected, nil, nil, nil
	}))
	live := j.Begin(entry("live", noon.Add(-time.Minute)))
	want := journal.Totals{Requests: 4, Completed: 2, Cancelled: 1, Failed: 1, PromptTokens: 36, CompletionTokens: 102, DeviceSeconds: 1.5}
	got, err := j.Totals(noon)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	live.End(nil)
	require.NoError(t, j.Close())
	j = open(t, path)
	got, err = j.Totals(noon)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	got, err = j.Totals(time.Time{})
	require.NoError(t, err)
	assert.Equal(t, 6, got.Requests)
}

func TestSameIDTwiceGivesTwoRecords(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	a, b := j.Begin(entry("same", noon)), j.Begin(entry("same", noon.Add(time.Second)))
	a.End(nil)
	assert.Equal(t, "same", ids(j.Active()), "the other goes on")
	b.End(nil)
	require.NoError(t, j.Close())
	assert.Equal(t, "same same", list(t, open(t, path), journal.Query{}))
}

func TestEndedEntryDoesNotChange(t *testing.T) {
	j := open(t, newPath(t))
	l := j.Begin(entry("one", noon))
	l.End(func(e *journal.Entry) { e.Error = "first" })
	l.End(func(e *journal.Entry) { e.Error = "second" })
	l.Update(func(e *journal.Entry) { e.Error = "third" })
	assert.Equal(t, "first", l.Entry().Error)
	require.NoError(t, j.Close())
	record(j, entry("late", noon)) // after Close: no panic, no block
}

func TestDurationIgnoresTheWallClock(t *testing.T) {
	var wall atomic.Int64
	wall.Store(noon.UnixNano())
	j := open(t, newPath(t), journal.Options{Now: func() time.Time { return time.Unix(0, wall.Load()) }})
	l := j.Begin(journal.Entry{})
	wall.Add(-int64(time.Hour)) // set back, and without a monotonic reading that would help
	l.End(nil)
	assert.Equal(t, l.Entry().StartedAt.UnixNano(), l.Entry().EndedAt.UnixNano(), "never negative")
}

func TestHostileStringsAreBoundAndKept(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	hostile := "\x1b]52;c;evil\a\n=cmd()'\"--\x00\xff" + strings.Repeat("x", 10_000)
	record(j, entry("one", noon, func(e *journal.Entry) { e.UserAgent, e.ModelAsked, e.Error = hostile, hostile, hostile }))
	require.NoError(t, j.Close())
	e, err := open(t, path).Get("one")
	require.NoError(t, err)
	assert.LessOrEqual(t, len(e.UserAgent), 256)
	assert.LessOrEqual(t, len(e.Error), 4096)
	assert.True(t, strings.HasPrefix(e.ModelAsked, "\x1b]52;c;evil\a\n=cmd()'\"--\x00x"))
}

func TestANumberThatIsNoneHoldsUpNobody(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	nan := math.NaN()
	record(j, entry("nan", noon, func(e *journal.Entry) { e.TokensPerSecond = &nan }))
	record(j, entry("one", noon))
	require.NoError(t, j.Close())
	assert.Equal(t, "one", list(t, open(t, path), journal.Query{}))
}

func TestFilesAreThisUsersAlone(t *testing.T) {
	if os.PathSeparator == '\\' {
		t.Skip("Windows has no modes")
	}
	defer umask(umask(0))
	dir := filepath.Join(t.TempDir(), "made", "too")
	j := open(t, filepath.Join(dir, "journal.db"))
	record(j, entry("one", noon))
	require.NoError(t, j.SaveChat(journal.Chat{ID: "a"}))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 3, "file, log and its index: %v", files)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		assert.Zero(t, info.Mode().Perm()&0o077, "%s has mode %v", f.Name(), info.Mode())
	}
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.NoError(t, j.Close())
	path := filepath.Join(dir, "journal.db")
	require.NoError(t, os.Chmod(path, 0o644)) // as an older program would have left it
	open(t, path)
	info, err = os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestPathMayHoldAnything(t *testing.T) {
	for _, name := range []string{"王 小明 Žofie 山田　", "a%20b", "a#b", "a?mode=memory&b", "file:x", "'quoted\""} {
		if os.PathSeparator == '\\' && strings.ContainsAny(name, `?:"`) {
			continue
		}
		path := filepath.Join(t.TempDir(), name, "journal.db")
		j := open(t, path)
		assert.Empty(t, j.Problem(), name)
		record(j, entry("one", noon))
		require.NoError(t, j.Close())
		assert.FileExists(t, path)
		assert.Equal(t, "one", list(t, open(t, path), journal.Query{}), name)
	}
}

func TestManyRequestsAtOnceAreAllStored(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 50 {
				l := j.Begin(entry(fmt.Sprintf("%d-%d", worker, i), noon.Add(time.Duration(i)*time.Millisecond)))
				for token := range 5 {
					l.Update(func(e *journal.Entry) { e.TokensSoFar = token })
				}
				l.End(nil)
			}
		})
	}
	all.Wait()
	require.NoError(t, j.Close())
	totals, err := open(t, path).Totals(time.Time{})
	require.NoError(t, err)
	assert.Equal(t, 400, totals.Requests)
}

func TestNothingASchemaCouldHoldABodyIn(t *testing.T) {
	text, err := json.Marshal(journal.Entry{})
	require.NoError(t, err)
	for _, key := range []string{"messages", "prompt\"", "content", "response", "body"} {
		assert.NotContains(t, string(text), key)
	}
}
