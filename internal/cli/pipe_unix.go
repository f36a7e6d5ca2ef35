//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// ignoreBrokenPipe keeps the program alive when nobody reads its log any more (serve 2>&1 | head -1).
func ignoreBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }
