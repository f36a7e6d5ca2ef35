package xgrammar

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// Matcher follows one answer through a grammar.
type Matcher struct {
	lib  *Library
	size int

	mu  sync.Mutex
	p   uintptr // 0 once closed; guarded by mu
	fit *frame  // guarded by mu
}

// frame is what a call of a step needs, made once: a step allocates nothing.
type frame struct {
	args   [4]value
	result value
	mask   tensor
	shape  [1]int64
}

// NewMatcher begins an answer.
func (g *Grammar) NewMatcher() (*Matcher, error) {
	p, err := g.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer g.handle.Release()
	const unlimited = -1 // rollback; the library ignores it nowadays
	made, err := g.lib.make("begin a grammar", g.lib.matcher[construct], object(p), none(), boolean(false), integer(unlimited), none())
	if err != nil {
		return nil, err
	}
	return newMatcher(g.lib, g.size, made), nil
}

func newMatcher(l *Library, size int, p uintptr) *Matcher {
	return &Matcher{lib: l, size: size, p: p, fit: new(frame)}
}

// step calls a method with up to three arguments after the matcher itself. The caller holds mu.
func (m *Matcher) step(op, method string, args ...value) (value, error) {
	if m.p == 0 {
		return value{}, ErrClosed
	}
	f := m.fit
	f.args[0] = object(m.p)
	n := copy(f.args[1:], args) + 1
	f.result = value{}
	err := m.lib.native(op, m.lib.fn.call, m.lib.matcher[method], uintptr(unsafe.Pointer(&f.args)), uintptr(n), uintptr(unsafe.Pointer(&f.result)))
	return f.result, err
}

// FillMask sets the bit of each token that may come next (token i is bit i%32 of mask[i/32]) and clears the others. It tells
// whether any token is not allowed; if none is, mask is left as it was. Mask has MaskWords words.
func (m *Matcher) FillMask(mask []int32) (constrains bool, err error) {
	if words := (m.size + 31) / 32; len(mask) != words {
		return false, fmt.Errorf("fill a mask: %d words for %d tokens, need %d", len(mask), m.size, words)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var lent texts
	defer lent.release()
	lent.pin.Pin(&mask[0])
	lent.pin.Pin(m.fit)
	m.fit.shape[0] = int64(len(mask))
	m.fit.mask = tensor{data: unsafe.Pointer(&mask[0]), deviceType: deviceCPU, dims: 1, code: codeInt, bits: 32, lanes: 1, shape: &m.fit.shape[0]}
	v, err := m.step("fill a mask", "fill_next_token_bitmask",
		value{kind: kindTensor, bits: uint64(uintptr(unsafe.Pointer(&m.fit.mask)))}, integer(0), boolean(false))
	return v.bits != 0, err
}

// Accept goes on with token id. It returns false, and stays where it is, when the grammar does not allow the token.
func (m *Matcher) Accept(id int32) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.step("accept a token", "accept_token", integer(int64(id)), boolean(false))
	return v.bits != 0, err
}

// AcceptBytes goes on with text that need not end with a token.
func (m *Matcher) AcceptBytes(text []byte) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lent texts
	defer lent.release()
	v, err := m.step("accept text", "accept_string", lent.bytes(text), boolean(false))
	return v.bits != 0, err
}

// Terminated tells whether an end token has been accepted.
func (m *Matcher) Terminated() bool { return m.ask("is_terminated") }

// Completed tells whether the grammar allows the answer to end here. It may allow more text, too.
func (m *Matcher) Completed() bool { return m.ask("is_completed") }

// ask is false for a closed matcher.
func (m *Matcher) ask(method string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.step(method, method)
	return err == nil && v.bits != 0
}

// JumpForward is the text that must come next, empty when there is a choice.
func (m *Matcher) JumpForward() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.step("look ahead", "find_jump_forward_string")
	if err != nil {
		return "", err
	}
	text := strings.Clone(v.string())
	if v.kind >= kindObject {
		m.lib.free(uintptr(v.bits))
	}
	return text, nil
}

// Rollback takes the last n accepted tokens back.
func (m *Matcher) Rollback(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.step("roll back", "rollback", integer(int64(n)))
	return err
}

// Reset begins the answer again.
func (m *Matcher) Reset() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.step("begin again", "reset")
	return err
}

// Fork returns a second matcher that stands where this one does.
func (m *Matcher) Fork() (*Matcher, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.step("fork a matcher", "fork")
	if err != nil {
		return nil, err
	}
	if v.kind < kindObject {
		return nil, &Error{Op: "fork a matcher", Kind: "TypeError", Text: "the library returned no object"}
	}
	return newMatcher(m.lib, m.size, uintptr(v.bits)), nil
}

// Close releases the matcher.
func (m *Matcher) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.p != 0 {
		m.lib.free(m.p)
		m.p = 0
	}
}
