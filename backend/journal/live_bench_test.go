package journal_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
)

// watched is a journal with a window that looks on.
func watched(b *testing.B) *journal.Journal {
	j, err := journal.Open(filepath.Join(b.TempDir(), "journal.db"))
	if err != nil {
		b.Fatal(err)
	}
	entries, cancel := j.Subscribe()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for range entries { //nolint:revive // it only looks
		}
	}()
	b.Cleanup(func() { cancel(); <-gone; _ = j.Close() })
	return j
}

// BenchmarkRequest is what journal and live view cost a request, beside its tokens.
func BenchmarkRequest(b *testing.B) {
	j, n := watched(b), 0
	for b.Loop() {
		n++
		l := j.Begin(entry(fmt.Sprint(n), time.Now()))
		l.Update(func(e *journal.Entry) { e.State, e.ExecutionDevice = journal.StatePrefill, "CPU" })
		l.End(func(e *journal.Entry) { e.Outcome = llm.OutcomeCompleted })
	}
}

// BenchmarkToken is what they cost a token.
func BenchmarkToken(b *testing.B) {
	j, n := watched(b), 0
	l := j.Begin(entry("one", time.Now()))
	for b.Loop() {
		n++
		l.Update(func(e *journal.Entry) { e.State, e.TokensSoFar = journal.StateDecoding, n })
		l.Answered(" word")
	}
}
