package cli

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"

	"signalbox/backend/llm"
	"signalbox/backend/models"
)

func importCommand() *cobra.Command {
	var name string
	var reference bool
	cmd := &cobra.Command{
		Use: "import FOLDER", Short: "Add a folder with an OpenVINO model", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if models.IsGGUF(path) {
				return models.Builtin().RefuseGGUF(path)
			}
			if _, err := os.Stat(path); err != nil {
				return llm.Errorf(llm.CodeInvalid, "import %s: %w", path, bare(err))
			}
			c, err := connect()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			done, err := c.follow(ctx, "POST", "/desktop/import", map[string]any{"path": path, "name": name, "reference": reference}, newBars(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "imported %s as '%s'\n", printable(path), printable(done.Model))
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "what the model is called; by default as it was called where it came from, else as the folder")
	cmd.Flags().BoolVar(&reference, "reference", false, "leave the files where they are")
	return cmd
}
