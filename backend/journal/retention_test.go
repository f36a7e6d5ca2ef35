package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
)

const day = 24 * time.Hour

// start opens the journal with a clock that shows now.
func start(t *testing.T, path string, now time.Time, options ...journal.Options) *journal.Journal {
	t.Helper()
	options = append(options, journal.Options{})
	options[0].Now = func() time.Time { return now }
	return open(t, path, options[0])
}

// filled makes a journal with n entries of now.
func filled(t *testing.T, now time.Time, n int) string {
	t.Helper()
	path := newPath(t)
	j := start(t, path, now)
	for i := range n {
		record(j, entry(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond)))
	}
	require.NoError(t, j.Close())
	return path
}

func TestOldEntriesGoATenthAPass(t *testing.T) {
	path := filled(t, noon, 200)
	require.NoError(t, start(t, path, noon.Add(40*day)).Close())
	assert.Equal(t, 200, stored(t, path), "one start may be mistaken")

	j := start(t, path, noon.Add(41*day)) // the second start that has seen them out of date; it makes one pass
	eventually(t, func() bool { return stored(t, path) == 180 }, "a tenth went")
	record(j, entry("new", noon.Add(41*day)))
	for range 200 {
		j.Tidy()
	}
	require.NoError(t, j.Close())
	assert.Equal(t, "new", list(t, open(t, path), journal.Query{}))
}

func TestClockTenYearsAheadEmptiesNothing(t *testing.T) {
	path := filled(t, noon, 200)
	j := start(t, path, noon.Add(3650*day))
	j.Tidy()
	j.Tidy()
	require.NoError(t, j.Close())
	assert.Equal(t, 200, stored(t, path))

	j = start(t, path, noon.Add(day)) // the clock is right again
	j.Tidy()
	require.NoError(t, j.Close())
	j = start(t, path, noon.Add(2*day))
	j.Tidy()
	require.NoError(t, j.Close())
	assert.Equal(t, 200, stored(t, path))
}

func TestTwoStartsWithinTheHourCountAsOne(t *testing.T) {
	path := filled(t, noon, 200)
	for _, later := range []time.Duration{0, 10 * time.Minute, 50 * time.Minute} {
		j := start(t, path, noon.Add(3650*day+later))
		j.Tidy()
		require.NoError(t, j.Close())
	}
	assert.Equal(t, 200, stored(t, path))
}

func TestRetentionForeverAndItsName(t *testing.T) {
	path := filled(t, noon, 20)
	for range 2 {
		j := start(t, path, noon.Add(3650*day), journal.Options{Retention: -1})
		assert.Equal(t, "metadata/forever", j.Retention())
		j.Tidy()
		require.NoError(t, j.Close())
	}
	assert.Equal(t, 20, stored(t, path))
	j := open(t, path)
	assert.Equal(t, "metadata/30d", j.Retention())
	j.SetRetention(7 * day)
	assert.Equal(t, "metadata/7d", j.Retention())
}

func TestTheOldestGoWhenAllTakeTooMuch(t *testing.T) {
	path := filled(t, noon, 200)
	j := start(t, path, noon, journal.Options{MaxBytes: 50_000})
	for range 100 {
		j.Tidy()
	}
	require.NoError(t, j.Close())
	left := stored(t, path)
	assert.Greater(t, left, 10)
	assert.Less(t, left, 100)
	assert.Equal(t, "199", list(t, open(t, path), journal.Query{Limit: 1}), "the newest stay")
}

func TestChatsAreNotSubjectToRetention(t *testing.T) {
	path := filled(t, noon, 1)
	require.NoError(t, start(t, path, noon).SaveChat(journal.Chat{ID: "a", UpdatedAt: noon}))
	for i := range 4 {
		j := start(t, path, noon.Add(time.Duration(40+i)*day))
		j.Tidy()
		require.NoError(t, j.Close())
	}
	assert.Zero(t, stored(t, path))
	_, err := open(t, path).GetChat("a")
	assert.NoError(t, err)
}
