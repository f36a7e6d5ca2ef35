package engine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// attributes: killed with this process, and in a group of its own, so that Ctrl-C in a terminal reaches the parent alone, which
// then ends its streams in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// tie is what holds parent and child together; here the kernel does.
type tie struct{}

func (tie) release() {}

func startTied(cmd *exec.Cmd) (tie, error) { return tie{}, cmd.Start() }

// statusOf reads how a process ended. death is the first line of its Go runtime's last words: that runtime catches the signals
// of native faults and exits with 2.
func statusOf(state *os.ProcessState, death string) status {
	if state == nil {
		return status{text: "it could not be waited for"}
	}
	wait, ok := state.Sys().(syscall.WaitStatus)
	if ok && wait.Signaled() {
		return status{text: "signal: " + wait.Signal().String(), fault: faultSignal(wait.Signal())}
	}
	if state.ExitCode() == 2 && death != "" {
		return status{text: fmt.Sprintf("exit status 2 (%s)", death), fault: true}
	}
	return status{text: state.String()}
}

// faultSignal: SIGKILL is not among them, since the OOM killer and people send it.
func faultSignal(signal syscall.Signal) bool {
	switch signal {
	case syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE, syscall.SIGTRAP, syscall.SIGSYS:
		return true
	}
	return false
}

func spawnHint(err error) string {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return "this user may not start more processes (ulimit -u): end some"
	case errors.Is(err, syscall.ENOMEM):
		return "memory is full: close something"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "too many files are open (ulimit -n)"
	case errors.Is(err, syscall.EACCES):
		return "the program may not be executed where it lies: is that disk mounted noexec?"
	case errors.Is(err, syscall.ENOENT):
		return "a file or the working folder of the engine is missing: install Signalbox again"
	}
	return ""
}
