// Package machine says what the system tells of this computer: where its power comes from, how much energy was used, how much
// memory it has, whether it has slept, and which drivers it runs. What a system does not tell is not known: an empty source, a nil
// energy, no bytes.
package machine

import (
	"sync"
	"time"
)

// Sources of power.
const (
	Mains   = "mains"
	Battery = "battery"
)

// fresh is how long an answer of the system is used again.
const fresh = 5 * time.Second

// Supply tells the source. The zero value is ready.
type Supply struct {
	Read func() string // nil: the system's

	mu     sync.Mutex
	source string    // guarded by mu
	asked  time.Time // guarded by mu
}

// Source is Mains, Battery or "".
func (s *Supply) Source() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.IsZero() || time.Since(s.asked) > fresh {
		read := s.Read
		if read == nil {
			read = source
		}
		s.source, s.asked = read(), time.Now()
	}
	return s.source
}

// Meter shares the energy of the processor out among the requests that run at a time. The zero value is ready.
type Meter struct {
	Read func() (microjoules uint64, wraps uint64, ok bool) // a counter that begins again after wraps; nil: the system's

	mu      sync.Mutex
	last    uint64                // guarded by mu
	running map[*Reading]struct{} // guarded by mu
}

// Reading is one request's share.
type Reading struct {
	meter *Meter
	used  float64 // microjoules; guarded by meter.mu
	lost  bool    // the counter could not be read meanwhile; guarded by meter.mu
}

// Begin starts a share.
func (m *Meter) Begin() *Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.share()
	if m.running == nil {
		m.running = map[*Reading]struct{}{}
	}
	r := &Reading{meter: m}
	m.running[r] = struct{}{}
	if _, _, ok := m.read(); !ok {
		r.lost = true
	}
	return r
}

// End is the share in joules; nil where the energy cannot be read.
func (r *Reading) End() *float64 {
	m := r.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.share()
	delete(m.running, r)
	if r.lost {
		return nil
	}
	joules := r.used / 1e6
	return &joules
}

// share gives each running request its part of what was used since the last look. mu is held.
func (m *Meter) share() {
	now, wraps, ok := m.read()
	if !ok {
		for r := range m.running {
			r.lost = true
		}
		return
	}
	used := now - m.last
	if now < m.last {
		used = now + wraps - m.last
	}
	m.last = now
	for r := range m.running {
		r.used += float64(used) / float64(len(m.running))
	}
}

func (m *Meter) read() (uint64, uint64, bool) {
	if m.Read != nil {
		return m.Read()
	}
	return energy()
}

// Clock notices that the machine has slept.
type Clock struct {
	wall   time.Time
	uptime time.Duration // with the time asleep; 0: not known
}

// NewClock begins now.
func NewClock() *Clock { return &Clock{wall: time.Now(), uptime: uptime()} }

// Slept is how long the machine slept since the last call. Where the system counts its time awake and asleep, that decides: a
// clock that somebody has set is no sleep.
func (c *Clock) Slept() time.Duration {
	now := Clock{wall: time.Now(), uptime: uptime()}
	slept := Asleep(c.wall, now.wall)
	if c.uptime > 0 && now.uptime > 0 {
		slept = now.uptime - c.uptime - now.wall.Sub(c.wall)
	}
	*c = now
	return slept
}

// Asleep is how much longer the wall clock ran than the monotonic one between two moments: on Linux the latter stands still
// while the machine sleeps. Both must have their monotonic reading. A clock that was set back gives a negative time.
func Asleep(before, now time.Time) time.Duration {
	return now.Round(0).Sub(before.Round(0)) - now.Sub(before)
}
