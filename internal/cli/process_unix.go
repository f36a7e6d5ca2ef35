//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// ignoreBrokenPipe keeps the program alive when nobody reads its log any more (serve 2>&1 | head -1).
func ignoreBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }

// keepPrivate makes what this process creates readable by its user alone: OpenVINO makes its cache of compiled models with the
// modes that the umask leaves.
func keepPrivate() { syscall.Umask(0o077) }
