package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/machine"
)

func TestEnergyIsSharedAmongThoseThatRun(t *testing.T) {
	var counter uint64 = 900
	m := machine.Meter{Read: func() (uint64, uint64, bool) { return counter, 1000, true }}
	alone := m.Begin()
	counter = 100 // it has begun again: 200 used
	other := m.Begin()
	counter += 100 // for both
	joules := other.End()
	require.NotNil(t, joules)
	assert.InDelta(t, 50e-6, *joules, 1e-12)
	counter += 10
	joules = alone.End()
	require.NotNil(t, joules)
	assert.InDelta(t, 260e-6, *joules, 1e-12)
}

func TestEnergyThatCannotBeReadIsNotZero(t *testing.T) {
	readable := true
	m := machine.Meter{Read: func() (uint64, uint64, bool) { return 1, 1000, readable }}
	r := m.Begin()
	readable = false
	assert.Nil(t, r.End())
	assert.Nil(t, m.Begin().End())
}

func TestTheSourceIsNotAskedForEachRequest(t *testing.T) {
	asked := 0
	s := machine.Supply{Read: func() string { asked++; return machine.Battery }}
	for range 100 {
		assert.Equal(t, machine.Battery, s.Source())
	}
	assert.Equal(t, 1, asked)
}

func TestSleepShowsAsAJumpOfTheWallClock(t *testing.T) {
	before := time.Now()
	after := before.Add(2 * time.Second)
	assert.Zero(t, machine.Asleep(before, after))
	clock := machine.NewClock()
	assert.Less(t, clock.Slept(), time.Second)
}

func TestMemoryThatIsFreeIsPartOfAllThereIs(t *testing.T) {
	free, total := machine.FreeMemory(), machine.TotalMemory()
	assert.Positive(t, free)
	assert.Greater(t, total, free)
}
