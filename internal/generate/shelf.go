package generate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// shelf keeps what is opened once and used by many, by name. What is taken off while in use is closed by its last user.
// The zero value is empty.
type shelf[T interface{ close() }] struct {
	mu    sync.Mutex
	items map[string]*item[T] // guarded by mu
}

type item[T any] struct {
	ready chan struct{} // closed when value or err is set
	gone  chan struct{} // closed when value has been closed
	value T
	err   error
	users int  // guarded by the shelf's mu
	off   bool // taken off the shelf; guarded by the shelf's mu
}

// get returns the value called name and opens it when it is not there. Several callers at once wait for one opening.
// The caller calls done when it no longer uses the value.
func (s *shelf[T]) get(ctx context.Context, name string, open func() (T, error)) (value T, fresh bool, done func(), err error) {
	for {
		it, mine := s.reserve(name, open != nil)
		if it == nil {
			return value, false, nil, errNotThere
		}
		if mine {
			it.value, it.err = open()
			close(it.ready)
			if it.err != nil {
				s.forget(name, it)
			}
		}
		select {
		case <-it.ready:
		case <-ctx.Done():
			s.leave(it)
			return value, false, nil, ctx.Err()
		}
		if it.err == nil {
			return it.value, mine, sync.OnceFunc(func() { s.leave(it) }), nil
		}
		s.leave(it)
		// Another caller's patience ended, not ours: open it ourselves.
		if !mine && (errors.Is(it.err, context.Canceled) || errors.Is(it.err, context.DeadlineExceeded)) {
			continue
		}
		return value, false, nil, it.err
	}
}

var errNotThere = errors.New("not loaded")

// reserve returns the item called name, or makes an empty one that the caller must fill.
func (s *shelf[T]) reserve(name string, make bool) (it *item[T], mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it = s.items[name]
	if it == nil {
		if !make {
			return nil, false
		}
		if s.items == nil {
			s.items = map[string]*item[T]{}
		}
		it, mine = &item[T]{ready: newSignal(), gone: newSignal()}, true
		s.items[name] = it
	}
	it.users++
	return it, mine
}

func newSignal() chan struct{} { return make(chan struct{}) }

func (s *shelf[T]) forget(name string, it *item[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[name] == it {
		delete(s.items, name)
	}
}

// leave ends one use.
func (s *shelf[T]) leave(it *item[T]) {
	s.mu.Lock()
	it.users--
	last := it.off && it.users == 0
	s.mu.Unlock()
	if last {
		it.dispose()
	}
}

func (it *item[T]) dispose() {
	if it.err == nil {
		any(it.value).(interface{ close() }).close()
	}
	close(it.gone)
}

// drop takes the value called name off the shelf and waits until it is closed.
func (s *shelf[T]) drop(ctx context.Context, name string) error {
	s.mu.Lock()
	it := s.items[name]
	if it == nil {
		s.mu.Unlock()
		return nil
	}
	delete(s.items, name)
	it.off = true
	unused := it.users == 0
	s.mu.Unlock()
	if unused {
		it.dispose()
	}
	select {
	case <-it.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *shelf[T]) dropAll(ctx context.Context) error {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.items))
	s.mu.Unlock()
	var failed error
	for _, name := range names {
		failed = errors.Join(failed, s.drop(ctx, name))
	}
	return failed
}
