package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"signalbox/backend/models"
	"signalbox/internal/dirs"
)

// namesCommand works without a server: a running one reads the file when it needs it.
func namesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "names [FILE]", Short: "Add well-known names of models, without a new Signalbox", Args: cobra.MaximumNArgs(1),
		Long: "Takes a list of well-known models (JSON, as backend/models/known.json in Signalbox's source; - is the standard input) and adds\n" +
			"what is new in it, for pull, search and the window. Names that Signalbox knows already never change. Without FILE it lists\n" +
			"what was added. Signalbox fetches no such list by itself: whoever gives you one decides what these names mean.",
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := dirs.Find()
			if err != nil {
				return err
			}
			file, out := filepath.Join(d.Data, models.NamesFile), cmd.OutOrStdout()
			if len(args) == 0 {
				return listNames(out, file)
			}
			text, err := readInput(cmd, args[0])
			if err != nil {
				return err
			}
			more, err := models.ParseTable(text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			added, refused, err := models.AddNames(file, more)
			if err != nil {
				return err
			}
			for _, why := range refused {
				fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s\n", printable(why))
			}
			for _, k := range added {
				if _, err := fmt.Fprintf(out, "%s is %s\n", k.Name, k.Reference()); err != nil {
					return err
				}
			}
			if len(added) == 0 {
				_, err = fmt.Fprintln(out, "nothing new in it")
			}
			return err
		},
	}
}

// readInput reads a file, or the standard input for "-".
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(name)
}

func listNames(out io.Writer, file string) error {
	known, problem := models.LoadTable(file)
	rows := [][]string{{"NAME", "MODEL"}}
	for _, k := range known[len(models.Builtin()):] {
		rows = append(rows, []string{k.Name, k.Reference()})
	}
	if len(rows) > 1 {
		if err := table(out, rows); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(out, "no names were added in %s; `signalbox search --known` lists those that Signalbox knows\n", printable(file)); err != nil {
		return err
	}
	return problem
}
