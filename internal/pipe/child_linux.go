package pipe

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Take makes stdin and stdout private: it returns duplicates of both, and from then on descriptor 0 is empty and
// descriptor 1 is stderr. Call it before any native library is loaded, since those print on stdout.
func Take() (in, out *os.File, err error) {
	inFD, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, nil, fmt.Errorf("duplicate stdin: %w", err)
	}
	outFD, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, nil, fmt.Errorf("duplicate stdout: %w", err)
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return nil, nil, fmt.Errorf("point stdout at stderr: %w", err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Dup3(null, 0, 0)
		unix.Close(null)
	}
	return os.NewFile(uintptr(inFD), "frames in"), os.NewFile(uintptr(outFD), "frames out"), nil
}

// settle makes this process one that may be lost: no core dump (it would hold prompts), first choice of the OOM killer,
// gone with its parent.
func settle() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("switch core dumps off: %w", err)
	}
	os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)     // may be forbidden: then the kernel chooses
	os.WriteFile("/proc/self/comm", []byte("signalbox-engine"), 0) // started by descriptor, its name would be a number
	return nil
}
