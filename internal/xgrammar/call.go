package xgrammar

import (
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"signalbox/internal/native"
)

var (
	// ErrClosed is returned by every method of an object that has been closed.
	ErrClosed = native.ErrClosed
	// ErrNUL is returned for text that the library would cut short.
	ErrNUL = native.ErrNUL
)

// Error is a failure that the library reported.
type Error struct {
	Op   string // what was tried
	Kind string // the library's name for it, such as "InvalidJSONError"
	Text string // the library's whole text
}

// Error tells what was tried and the library's text without its source position.
func (e *Error) Error() string { return e.Op + ": " + meaning(e.Text) }

// meaning drops what stands before a text for programmers: "[12:00:00] /project/cpp/file.cc:42: ", and what follows its first line.
func meaning(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if _, rest, found := strings.Cut(line, "] "); found && strings.HasPrefix(line, "[") {
		line = rest
	}
	if before, rest, found := strings.Cut(line, ": "); found && (strings.Contains(before, ".cc:") || strings.Contains(before, ".h:")) {
		line = rest
	}
	return line
}

// native calls a function of TVM FFI that returns 0 for success.
//
//go:uintptrescapes
func (l *Library) native(op string, fn uintptr, args ...uintptr) error {
	// An error belongs to the thread that raised it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, _, _ := purego.SyscallN(fn, args...)
	if int32(r) == 0 {
		return nil
	}
	return l.raisedError(op)
}

// pointer calls a function that returns an address of the library's memory.
func (l *Library) pointer(fn, arg uintptr) unsafe.Pointer {
	r, _, _ := purego.SyscallN(fn, arg)
	return *(*unsafe.Pointer)(unsafe.Pointer(&r))
}

// void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* result)
func (l *Library) raisedError(op string) error {
	out := new(uintptr)
	purego.SyscallN(l.fn.raised, uintptr(unsafe.Pointer(out)))
	if *out == 0 {
		return &Error{Op: op, Kind: "Unknown", Text: "the library gave no reason"}
	}
	defer l.free(*out)
	cell := (*[2]byteArray)(unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(out)), headerSize)) // kind, message
	return &Error{Op: op, Kind: cell[0].String(), Text: cell[1].String()}
}

// int TVMFFIObjectDecRef(TVMFFIObjectHandle obj)
func (l *Library) free(object uintptr) { purego.SyscallN(l.fn.decRef, object) }

// call calls a method or a global function. A returned object belongs to the caller.
//
// int TVMFFIFunctionCall(TVMFFIObjectHandle func, TVMFFIAny* args, int32_t num_args, TVMFFIAny* result)
func (l *Library) call(op string, fn uintptr, args ...value) (value, error) {
	result := new(value)
	array := make([]value, len(args)+1) // on the heap, and never empty
	copy(array, args)
	err := l.native(op, l.fn.call, fn, uintptr(unsafe.Pointer(&array[0])), uintptr(len(args)), uintptr(unsafe.Pointer(result)))
	return *result, err
}

// make is call for a function that must return an object.
func (l *Library) make(op string, fn uintptr, args ...value) (uintptr, error) {
	result, err := l.call(op, fn, args...)
	if err != nil {
		return 0, err
	}
	if result.kind < kindObject {
		return 0, &Error{Op: op, Kind: "TypeError", Text: "the library returned no object"}
	}
	return uintptr(result.bits), nil
}
