// Package native is what the bindings of C libraries share: opening a library, finding all of its functions or naming those that are
// missing, and objects that are freed once. The calls themselves are each binding's own, for each library reports errors in its way.
package native

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

var (
	// ErrClosed is returned by every method of an object that has been closed.
	ErrClosed = errors.New("used after Close")
	// ErrNUL is returned for text that C would cut short.
	ErrNUL = errors.New("text contains a NUL character")
)

// Libraries are those loaded into this process, by absolute folder: none is loaded twice, none is unloaded. The zero value is empty.
type Libraries[T any] struct {
	mu  sync.Mutex
	all map[string]*T // guarded by mu
}

// Get returns the library of a folder, and loads it when it is not there.
func (l *Libraries[T]) Get(dir string, load func(dir string) (*T, error)) (*T, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if lib := l.all[dir]; lib != nil {
		return lib, nil
	}
	lib, err := load(dir)
	if err != nil {
		return nil, err
	}
	if l.all == nil {
		l.all = map[string]*T{}
	}
	l.all[dir] = lib
	return lib, nil
}

// Bind finds every function of an opened library, and names all that are missing in one error.
func Bind(library uintptr, functions map[string]*uintptr) error {
	var missing []string
	for name, address := range functions {
		found, err := Symbol(library, name)
		if err != nil || found == 0 {
			missing = append(missing, name)
			continue
		}
		*address = found
	}
	return Lacks(missing)
}

// Lacks is the error for names that a library does not have, nil for none.
func Lacks(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New("not the version this program was built for: no " + strings.Join(missing, ", "))
}

// Handle is an object of a library that is freed once, when nobody is inside a call with it.
type Handle struct {
	mu sync.RWMutex
	p  uintptr // 0 once closed; guarded by mu
}

// Set gives the handle its object, before anybody else knows it.
func (h *Handle) Set(p uintptr) { h.p = p }

// Out is where a C function puts the object, before anybody else knows the handle.
func (h *Handle) Out() *uintptr { return &h.p }

// Acquire returns the object; Release must follow when the call with it has returned.
func (h *Handle) Acquire() (uintptr, error) {
	h.mu.RLock()
	if h.p == 0 {
		h.mu.RUnlock()
		return 0, ErrClosed
	}
	return h.p, nil
}

// Release ends what Acquire began.
func (h *Handle) Release() { h.mu.RUnlock() }

// Close frees the object. It waits for calls with it, and may be called twice.
func (h *Handle) Close(free func(uintptr)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.p != 0 {
		free(h.p)
		h.p = 0
	}
}
