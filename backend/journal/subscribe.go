package journal

import (
	"slices"
	"sync"
)

// backlog is how many entries may wait for one subscriber. One that is so far behind is let go: its channel closes.
const backlog = 2000

// subscriber keeps the last state of each entry that its reader has not taken yet.
type subscriber struct {
	out  chan Entry
	wake chan struct{} // capacity 1
	done chan struct{}
	once sync.Once

	mu     sync.Mutex
	states map[*Live]Entry // guarded by mu
	order  []*Live         // in which they are sent; guarded by mu
}

// Subscribe returns the active entries at once and then each entry's changes. A reader that is slow misses states between,
// never an entry's last one, and holds nobody up; one that falls behind by 2,000 entries, or a closed journal, gets its
// channel closed. Call cancel when done: the channel closes then, too.
func (j *Journal) Subscribe() (entries <-chan Entry, cancel func()) {
	r := &subscriber{
		out: make(chan Entry), wake: make(chan struct{}, 1), done: make(chan struct{}), states: map[*Live]Entry{},
	}
	j.mu.Lock()
	live := slices.Clone(j.live)
	j.readers = append(j.readers, r)
	j.mu.Unlock()
	for _, l := range live {
		l.mu.Lock()
		r.put(l, l.entry) // no older than what it may replace: both happen under l.mu
		l.mu.Unlock()
	}
	go r.send()
	select {
	case <-j.closing:
		r.stop()
	default:
	}
	return r.out, func() {
		j.mu.Lock()
		j.readers = slices.DeleteFunc(j.readers, func(other *subscriber) bool { return other == r })
		j.mu.Unlock()
		r.stop()
	}
}

// put notes an entry's state in place of the one that still waits. It never blocks.
func (r *subscriber) put(l *Live, e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.order) >= backlog {
		r.stop()
		return
	}
	if _, waits := r.states[l]; !waits {
		r.order = append(r.order, l)
	}
	r.states[l] = e
	signal(r.wake)
}

// take removes the state that has waited longest.
func (r *subscriber) take() (Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.order) == 0 {
		return Entry{}, false
	}
	l := r.order[0]
	r.order = r.order[1:]
	e := r.states[l]
	delete(r.states, l)
	return e, true
}

// send hands over states until stop.
func (r *subscriber) send() {
	defer close(r.out)
	for {
		e, ok := r.take()
		if !ok {
			select {
			case <-r.wake:
				continue
			case <-r.done:
				return
			}
		}
		select {
		case r.out <- e:
		case <-r.done:
			return
		}
	}
}

func (r *subscriber) stop() { r.once.Do(func() { close(r.done) }) }
