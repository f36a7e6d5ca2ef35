package journal_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
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

func TestFiltersHoldInMemoryAndInTheFile(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	record(j, entry("1", noon, func(e *journal.Entry) {
		e.RouteRule, e.RouteReason = "prompt_limit", "The prompt is too long for the NPU."
	}))
	record(j, entry("2", noon.Add(time.Minute), func(e *journal.Entry) { e.RouteRule, e.FallbackReason = "busy", "busy" }))
	record(j, entry("3", noon.Add(2*time.Minute), func(e *journal.Entry) { e.RouteRule, e.Error = "busy", "Die Größe: 100 %_ 'quoted' \"x\"" }))
	check := func(where string) {
		for _, c := range []struct {
			q    journal.Query
			want string
		}{
			{journal.Query{Reason: "busy"}, "3 2"},
			{journal.Query{Reason: "prompt_limit"}, "1"},
			{journal.Query{Since: noon.Add(time.Minute)}, "3 2"},
			{journal.Query{Since: noon.Add(time.Minute), Before: noon.Add(2 * time.Minute)}, "2"},
			{journal.Query{Text: "TOO LONG"}, "1"},
			{journal.Query{Text: "GRÖSSE"}, ""},
			{journal.Query{Text: "größe: 100 %_ 'quoted'"}, "3"},
			{journal.Query{Text: "%"}, "3"},
			{journal.Query{Text: "NEAR("}, ""},
			{journal.Query{Text: "curl", Reason: "busy", Device: "NPU"}, "3 2"},
		} {
			assert.Equal(t, c.want, list(t, j, c.q), "%s: %+v", where, c.q)
		}
	}
	check("in memory or in the file")
	require.NoError(t, j.Close())
	j = open(t, path)
	check("in the file")
}

func TestRequestsActiveAtAKillAreMarkedAtTheNextStart(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	live := j.Begin(entry("killed", noon, func(e *journal.Entry) {
		e.ExecutionDevice, e.Outcome, e.PromptTokens, e.CompletionTokens, e.CostEstimate.DeviceSeconds = "", "", nil, nil, nil
	}))
	live.Update(func(e *journal.Entry) { e.ExecutionDevice, e.State = "NPU", journal.StateDecoding })
	record(j, entry("ended", noon.Add(time.Second)))
	copied := filepath.Join(t.TempDir(), "journal.db") // what a kill leaves: the file as it is, and nothing said goodbye
	assert.Eventually(t, func() bool {
		for _, suffix := range []string{"", "-wal"} {
			text, err := os.ReadFile(path + suffix)
			if err != nil || os.WriteFile(copied+suffix, text, 0o600) != nil {
				return false
			}
		}
		_ = os.Remove(copied + "-shm")
		after, err := journal.Open(copied)
		if err != nil {
			return false
		}
		defer after.Close()
		e, err := after.Get("killed")
		return err == nil && e.Interrupted && e.ExecutionDevice == "NPU"
	}, time.Minute, 20*time.Millisecond)
	after := open(t, copied)
	e, err := after.Get("killed")
	require.NoError(t, err)
	assert.Equal(t, llm.OutcomeError, e.Outcome)
	assert.Equal(t, journal.StateDone, e.State)
	assert.Contains(t, e.Error, "ended while this request ran")
	assert.Nil(t, e.CompletionTokens, "not known is not 0")
	assert.Empty(t, after.Active())
	require.NoError(t, after.Close())
	again := open(t, copied)
	totals, err := again.Totals(noon)
	require.NoError(t, err)
	assert.Equal(t, 1, totals.Failed, "once")
}

func TestRequestsThatEndedAreNotInterrupted(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	for range 50 {
		record(j, entry("x", time.Now()))
	}
	require.NoError(t, j.Close())
	entries, _, err := open(t, path).List(journal.Query{})
	require.NoError(t, err)
	require.Len(t, entries, 50)
	for _, e := range entries {
		assert.False(t, e.Interrupted)
	}
}

// ask records a request with its body.
func ask(j *journal.Journal, id string) {
	l := j.Begin(entry(id, time.Now()))
	l.Asked(llm.Request{Model: "m", Messages: []llm.Message{{Role: "user", Content: "secret " + id}}})
	l.Answered("an ")
	l.Answered("answer")
	l.End(nil)
}

func TestBodiesAreKeptOnlyWhenAsked(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	ask(j, "before")
	j.SetBodies(time.Hour)
	ask(j, "kept")
	body, err := j.Body("kept")
	require.NoError(t, err)
	assert.Equal(t, "secret kept", body.Request.Messages[0].Content)
	assert.Equal(t, "an answer", body.Answer)
	_, err = j.Body("before")
	assert.ErrorIs(t, err, journal.ErrNotFound)
	require.NoError(t, j.Close())

	j = open(t, path, journal.Options{Bodies: time.Hour})
	j.Tidy()
	body, err = j.Body("kept")
	require.NoError(t, err)
	assert.Equal(t, "an answer", body.Answer)
	j.SetBodies(0)
	j.Tidy()
	_, err = j.Body("kept")
	assert.ErrorIs(t, err, journal.ErrNotFound, "who switches it off wants them gone")
	require.NoError(t, j.Close())
	for _, suffix := range []string{"", "-wal"} {
		if text, err := os.ReadFile(path + suffix); err == nil {
			assert.NotContains(t, string(text), "secret kept", suffix)
		}
	}
}

func TestOldBodiesGoBeforeTheirRequests(t *testing.T) {
	j := open(t, newPath(t))
	j.SetBodies(time.Hour)
	l := j.Begin(entry("old", time.Now().Add(-2*time.Hour)))
	l.Asked(llm.Request{Prompt: "old"})
	l.End(nil)
	ask(j, "new")
	require.Eventually(t, func() bool {
		j.Tidy()
		_, err := j.Body("old")
		_, still := j.Body("new")
		return errors.Is(err, journal.ErrNotFound) && still == nil
	}, time.Minute, 10*time.Millisecond)
	_, err := j.Get("old")
	assert.NoError(t, err)
}

func TestExportsSayTheSameAsTheList(t *testing.T) {
	path := newPath(t)
	j := open(t, path)
	for i, client := range []string{"curl", "=cmd|' /C calc'!A0", "\t=1+1", "a,\"b\"\nc", "-2+3", " @SUM(1)"} {
		record(j, entry(string(rune('a'+i)), noon.Add(time.Duration(i)*time.Second), func(e *journal.Entry) { e.Client = client }))
	}
	for _, where := range []string{"at once", "stored"} {
		var lines, table bytes.Buffer
		require.NoError(t, j.ExportJSON(t.Context(), journal.Query{}, &lines))
		var got []string
		for line := range strings.Lines(lines.String()) {
			var e journal.Entry
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			got = append(got, e.TraceID)
		}
		assert.Equal(t, []string{"f", "e", "d", "c", "b", "a"}, got, where)
		require.NoError(t, j.ExportCSV(t.Context(), journal.Query{}, &table))
		rows, err := csv.NewReader(&table).ReadAll()
		require.NoError(t, err)
		require.Len(t, rows, 7)
		for _, row := range rows[1:] {
			for _, cell := range row {
				if trimmed := strings.TrimSpace(cell); trimmed != "" {
					assert.NotContains(t, "=+-@|", trimmed[:1], "%q is a formula", cell)
				}
			}
		}
		assert.Equal(t, "a,\"b\"\nc", rows[3][3])
		assert.Equal(t, "", rows[1][17], "not known is nothing, not 0")
		require.NoError(t, j.Close())
		j = open(t, path)
	}
	stop := errors.New("enough")
	assert.ErrorIs(t, j.Each(t.Context(), journal.Query{}, func(journal.Entry) error { return stop }), stop)
}
