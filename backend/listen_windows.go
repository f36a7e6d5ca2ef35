package backend

import "syscall"

// WSAEADDRINUSE: Go's syscall.EADDRINUSE is an invention on Windows, which no call returns.
const errAddressInUse = syscall.Errno(10048)

// portHolder is not known here.
func portHolder(int) (name string, pid int, ok bool) { return "", 0, false }
