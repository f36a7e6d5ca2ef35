package pipe

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// Take makes stdin and stdout private: it returns both, and from then on the standard input is empty and the standard
// output is the standard error. Call it before any native library is loaded, since those print on stdout, and the C runtimes
// they bring look up the standard handles when they are loaded.
func Take() (in, out *os.File, err error) {
	in, out = os.Stdin, os.Stdout
	stderr, err := windows.GetStdHandle(windows.STD_ERROR_HANDLE)
	if err != nil {
		return nil, nil, fmt.Errorf("find stderr: %w", err)
	}
	for _, file := range []*os.File{in, out} {
		if err := windows.SetHandleInformation(windows.Handle(file.Fd()), windows.HANDLE_FLAG_INHERIT, 0); err != nil {
			return nil, nil, fmt.Errorf("keep %s private: %w", file.Name(), err)
		}
	}
	if err := windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, stderr); err != nil {
		return nil, nil, fmt.Errorf("point stdout at stderr: %w", err)
	}
	if null, err := os.Open(os.DevNull); err == nil {
		windows.SetStdHandle(windows.STD_INPUT_HANDLE, windows.Handle(null.Fd()))
		os.Stdin = null
	}
	os.Stdout = os.Stderr
	return in, out, nil
}

// settle makes a crash end the process, instead of showing a dialog that keeps it. The parent's job object ties it to the
// parent.
func settle() error {
	const noBoxes = windows.SEM_FAILCRITICALERRORS | windows.SEM_NOGPFAULTERRORBOX | windows.SEM_NOOPENFILEERRORBOX
	windows.SetErrorMode(noBoxes)
	return nil
}
