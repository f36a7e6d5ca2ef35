package engine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"syscall"

	"golang.org/x/sys/windows"
)

// attributes: the process waits for its job before its first instruction, has no console window, and gets no Ctrl-C.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP,
	}
}

// tie is the job object that ends the child when its last handle closes: with this process at the latest.
type tie struct{ job windows.Handle }

func (t tie) release() { windows.CloseHandle(t.job) }

var resumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

func startTied(cmd *exec.Cmd) (tie, error) {
	job, err := newJob()
	if err != nil {
		return tie{}, err
	}
	if err := cmd.Start(); err != nil {
		windows.CloseHandle(job)
		return tie{}, err
	}
	if err := enter(job, cmd.Process.Pid); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		windows.CloseHandle(job)
		return tie{}, err
	}
	return tie{job}, nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create a job object: %w", err)
	}
	limits := &windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
	value := reflect.ValueOf(limits) // its address without unsafe; the heap does not move
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, value.Pointer(), uint32(value.Elem().Type().Size()))
	runtime.KeepAlive(limits)
	if err != nil {
		windows.CloseHandle(job)
		return 0, fmt.Errorf("set up a job object: %w", err)
	}
	return job, nil
}

// enter puts the suspended process into the job and lets it run.
func enter(job windows.Handle, pid int) error {
	const suspendResume = 0x0800
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|suspendResume, false, uint32(pid))
	if err != nil {
		return fmt.Errorf("open the engine process: %w", err)
	}
	defer windows.CloseHandle(process)
	if err := windows.AssignProcessToJobObject(job, process); err != nil {
		return fmt.Errorf("tie the engine process to this one: %w", err)
	}
	if code, _, _ := resumeProcess.Call(uintptr(process)); code != 0 {
		return fmt.Errorf("let the engine process run: NTSTATUS 0x%08X", uint32(code))
	}
	return nil
}

// statusOf reads how a process ended. death is the first line of its Go runtime's last words.
func statusOf(state *os.ProcessState, death string) status {
	if state == nil {
		return status{text: "it could not be waited for"}
	}
	code := uint32(state.ExitCode())
	switch {
	case code >= 0xC0000000: // an exception: access violation, stack overflow, fail fast, ...
		return status{text: fmt.Sprintf("0x%08X", code), fault: true}
	case code == 2 && death != "":
		return status{text: fmt.Sprintf("exit status 2 (%s)", death), fault: true}
	}
	return status{text: state.String()}
}

func spawnHint(err error) string {
	switch {
	case errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return "an antivirus program may hold it back: allow signalbox.exe there"
	case errors.Is(err, windows.ERROR_NOT_ENOUGH_MEMORY), errors.Is(err, windows.ERROR_COMMITMENT_LIMIT):
		return "memory is full: close something"
	case errors.Is(err, windows.ERROR_FILE_NOT_FOUND), errors.Is(err, windows.ERROR_PATH_NOT_FOUND), errors.Is(err, exec.ErrNotFound):
		return "a file or the working folder of the engine is missing: install Signalbox again"
	}
	return ""
}
