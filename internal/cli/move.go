package cli

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
)

func moveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "move FOLDER", Short: "Move the models to another folder or drive", Args: cobra.ExactArgs(1),
		Long: "Copies all models, and what is half fetched, to another folder, uses them there from then on, and removes them here.\n" +
			"When it is interrupted before that, everything is as it was.",
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			c, err := connect()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			if _, err := c.follow(ctx, "POST", "/ui/models/move", map[string]any{"to": to}, newBars(cmd.ErrOrStderr())); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the models are in %s\n", printable(to))
			return err
		},
	}
}
