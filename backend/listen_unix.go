//go:build !windows

package backend

import "syscall"

const errAddressInUse = syscall.EADDRINUSE
