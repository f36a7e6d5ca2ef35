package journal_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
)

func next(t *testing.T, entries <-chan journal.Entry) journal.Entry {
	t.Helper()
	select {
	case e, ok := <-entries:
		require.True(t, ok, "the channel was closed")
		return e
	case <-time.After(time.Minute):
		require.Fail(t, "no entry came")
	}
	return journal.Entry{}
}

func TestSubscriberSeesActiveEntriesFirstAndThenChanges(t *testing.T) {
	j := open(t, newPath(t))
	record(j, entry("ended", noon))
	l := j.Begin(entry("one", noon))
	entries, cancel := j.Subscribe()
	defer cancel()
	assert.Equal(t, journal.StateQueued, next(t, entries).State)
	l.Update(func(e *journal.Entry) { e.State = journal.StatePrefill })
	assert.Equal(t, journal.StatePrefill, next(t, entries).State)
	l.End(func(e *journal.Entry) { e.Outcome = llm.OutcomeCompleted })
	last := next(t, entries)
	assert.Equal(t, journal.StateDone, last.State)
	assert.Equal(t, "one", last.TraceID)
}

func TestSlowSubscriberMissesStatesBetweenButNeverTheLast(t *testing.T) {
	j := open(t, newPath(t))
	entries, cancel := j.Subscribe()
	defer cancel()
	const requests = 50
	for i := range requests {
		l := j.Begin(entry(fmt.Sprint(i), noon))
		for range 20 {
			l.Update(func(e *journal.Entry) { e.Position++ })
		}
		l.End(nil)
	}
	done, states := map[string]bool{}, 0
	for len(done) < requests {
		e := next(t, entries)
		states++
		assert.False(t, done[e.TraceID], "no state comes after the last one")
		if e.State == journal.StateDone {
			done[e.TraceID] = true
		}
	}
	assert.Less(t, states, requests*5, "states were put together")
}

func TestSubscriberThatNeverReadsIsLetGoAndBlocksNobody(t *testing.T) {
	j := open(t, newPath(t))
	entries, cancel := j.Subscribe()
	defer cancel()
	for i := range 3000 {
		record(j, entry(fmt.Sprint(i), noon))
	}
	for range 3000 {
		if _, ok := <-entries; !ok {
			return
		}
	}
	assert.Fail(t, "the channel is still open")
}

func TestCancelAndCloseEndASubscription(t *testing.T) {
	j := open(t, newPath(t))
	entries, cancel := j.Subscribe()
	cancel()
	cancel()
	_, ok := <-entries
	assert.False(t, ok)

	entries, cancel = j.Subscribe()
	defer cancel()
	require.NoError(t, j.Close())
	_, ok = <-entries
	assert.False(t, ok)

	entries, cancel = j.Subscribe()
	defer cancel()
	_, ok = <-entries
	assert.False(t, ok, "a closed journal tells nothing")
}

func TestTokenCountsAreToldFourTimesASecondAtMost(t *testing.T) {
	path := newPath(t)
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.Open(path)
		require.NoError(t, err)
		defer j.Close()
		entries, cancel := j.Subscribe()
		defer cancel()
		seen := 0
		reader := make(chan int)
		go func() {
			last := 0
			for e := range entries {
				seen++
				last = e.TokensSoFar
				if e.State == journal.StateDone {
					break
				}
			}
			reader <- last
		}()
		l := j.Begin(entry("one", time.Now()))
		for range 100 { // five seconds of 20 tokens each
			time.Sleep(50 * time.Millisecond)
			l.Update(func(e *journal.Entry) { e.TokensSoFar++ })
		}
		l.End(nil)
		assert.Equal(t, 100, <-reader, "the last count is true")
		assert.LessOrEqual(t, seen, 22)
		assert.GreaterOrEqual(t, seen, 18)
	})
}
