package openvino

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"signalbox/internal/native"
)

// call calls a function that returns ov_status_e and turns a failure into an *Error. op says what was tried.
//
// Pointers must be converted in the argument list itself: then they, and what they point to, stay in place until call returns.
//
//go:uintptrescapes
func (l *Library) call(op string, fn uintptr, args ...uintptr) error {
	// The text of a failure belongs to the thread that failed.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, _, _ := purego.SyscallN(fn, args...)
	if status := int32(r); status != 0 {
		return &Error{Op: op, Status: int(status), Text: l.lastError()}
	}
	return nil
}

// const char* ov_get_last_err_msg()
func (l *Library) lastError() string {
	r, _, _ := purego.SyscallN(l.fn.lastError)
	return goString(*(**byte)(unsafe.Pointer(&r)))
}

// goString copies a C string.
func goString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

var (
	// ErrClosed is returned by every method of an object that has been closed.
	ErrClosed = native.ErrClosed
	// ErrNUL is returned for text that C would cut short.
	ErrNUL = native.ErrNUL
)

// cString copies s for C. It is ordinary Go memory: keep it reachable while C may read it.
func cString(s string) (*byte, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, ErrNUL
	}
	return &append([]byte(s), 0)[0], nil
}

// freeing is how a C function frees an object.
func (l *Library) freeing(fn uintptr) func(uintptr) {
	return func(object uintptr) { l.callVoid(fn, object) }
}

// Error is a failure that OpenVINO reported.
type Error struct {
	Op     string // what was tried
	Status int    // ov_status_e
	Text   string // OpenVINO's whole text: several lines, with source positions. For logs
}

// Error tells what was tried and the last line of OpenVINO's text that means something to people.
func (e *Error) Error() string {
	if line := meaning(e.Text); line != "" {
		return fmt.Sprintf("%s: %s (OpenVINO status %d)", e.Op, line, e.Status)
	}
	return fmt.Sprintf("%s: OpenVINO status %d", e.Op, e.Status)
}

// meaning is the last line of text that is not a source position.
func meaning(text string) string {
	last := ""
	for line := range bytes.Lines([]byte(text)) {
		s := strings.TrimSpace(string(line))
		if s == "" || strings.HasPrefix(s, "Exception from ") {
			continue
		}
		last = s
	}
	// "Check 'condition' failed at src/file.cpp:12" alone says at least what was expected.
	return strings.TrimSuffix(last, ":")
}
