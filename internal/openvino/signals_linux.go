package openvino

import (
	"runtime"
	"syscall"
	"unsafe"
)

// typedef struct { void* ss_sp; int ss_flags; size_t ss_size; } stack_t;
type signalStack struct {
	base  uintptr
	flags int32
	size  uintptr
}

// keepSignalStack runs f and gives the thread its signal stack back afterwards. OpenVINO's CPU plugin puts a small one of its
// own on the thread that loads it, and unmaps it when it is unloaded, on whatever thread that happens: the next signal to the
// first thread (the Go scheduler sends them all the time) then ends the process with a SIGSEGV that nothing can catch.
func keepSignalStack(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old := new(signalStack)
	if _, _, failed := syscall.RawSyscall(syscall.SYS_SIGALTSTACK, 0, uintptr(unsafe.Pointer(old)), 0); failed != 0 {
		return f()
	}
	err := f()
	syscall.RawSyscall(syscall.SYS_SIGALTSTACK, uintptr(unsafe.Pointer(old)), 0, 0)
	return err
}
