package cli_test

import (
	"os"
	"testing"

	"signalbox/internal/cli"
)

// TestMain is also the engine process of these tests: the server starts its own program for it, which is this one, and
// without this it would run all of them again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine" {
		os.Exit(cli.Program{}.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}
