// Package cli is Signalbox's command line: what `signalbox serve`, `run`, `list` and the others do. Commands other than
// serve are clients of the process that owns the data folder; they find it through its instance file and never by the bare
// port, so no other program that holds the port gets a byte from them.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"signalbox/backend/llm"
	"signalbox/internal/version"
)

// Program is what main gives the command line.
type Program struct {
	Assets fs.FS // the built frontend: index.html at its root
}

// Main runs the command line and returns the exit code.
func (p Program) Main(args []string) int {
	ignoreBrokenPipe()
	// Ctrl-C is each command's own matter: in a chat it stops an answer, for serve it is the end.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	root := p.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if quiet := (exitError{}); errors.As(err, &quiet) {
		return quiet.code
	}
	printError(os.Stderr, err)
	return 1
}

// exitError ends the program with a code, everything being said already.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (p Program) root() *cobra.Command {
	var hidden bool
	root := &cobra.Command{
		Use:   "signalbox",
		Short: "Run models on your NPU, GPU and CPU, and see which one answers",
		Long: "Signalbox runs language models on this laptop's NPU, GPU and CPU. Without a command it opens the window and the\n" +
			"tray icon and serves the APIs of Ollama, OpenAI and Anthropic on http://127.0.0.1:11434.",
		Args:          cobra.NoArgs,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.desktop(cmd.Context(), hidden)
		},
	}
	root.SetVersionTemplate("signalbox version is {{.Version}}\n")
	root.Flags().BoolVar(&hidden, "hidden", false, "start in the tray, without the window")
	root.AddCommand(p.serveCommand(), p.runCommand(), openCommand(), listCommand(), psCommand(), showCommand(), stopCommand(),
		pullCommand(), downloadsCommand(), rmCommand(), restoreCommand(), cpCommand(), createCommand(), importCommand(), compileCommand(), verifyCommand(),
		searchCommand(), namesCommand(), dfCommand(), moveCommand(), loginCommand(), logoutCommand(), connectCommand(),
		versionCommand(), p.doctorCommand(), p.certifyCommand(), engineCommand())
	return root
}

func printError(w io.Writer, err error) {
	fmt.Fprintf(w, "Error: %s\n", printable(err.Error()))
}

// needModel is the answer to a command without its model.
func needModel(args []string) error {
	if len(args) == 0 {
		return llm.Errorf(llm.CodeInvalid, "name a model; `signalbox list` shows what you have")
	}
	return nil
}
