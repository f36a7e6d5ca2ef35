//go:build unix

package cli

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// ignoreBrokenPipe keeps the program alive when nobody reads its log any more (serve 2>&1 | head -1).
func ignoreBrokenPipe() { signal.Ignore(syscall.SIGPIPE) }

// keepPrivate makes what this process creates readable by its user alone: OpenVINO makes its cache of compiled models with the
// modes that the umask leaves.
func keepPrivate() { syscall.Umask(0o077) }

// endings are the signals that end a server, beside SIGTERM. A terminal that is closed is one, unless nohup says otherwise:
// without this, clients get half an answer and no word, and the instance file stays.
func endings() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{os.Interrupt}
	}
	return []os.Signal{os.Interrupt, syscall.SIGHUP}
}

// volume tells file systems apart; "" where the system does not tell.
func volume(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(stat.Dev)
}
