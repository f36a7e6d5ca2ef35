package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// ignoreBrokenPipe has nothing to do here: Windows knows no SIGPIPE.
func ignoreBrokenPipe() {}

func keepPrivate() {} // a user's folders are private already

// endings are the signals that end a server, beside SIGTERM, which a closed console is on Windows.
func endings() []os.Signal { return []os.Signal{os.Interrupt} }

// volume tells drives apart.
func volume(path string) string { return strings.ToLower(filepath.VolumeName(path)) }
