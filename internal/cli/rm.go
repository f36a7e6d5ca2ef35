package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func rmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm MODEL...", Short: "Delete models",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needModel(args); err != nil {
				return err
			}
			c, err := connect()
			if err != nil {
				return err
			}
			for _, model := range args {
				answer, err := c.do(cmd.Context(), "DELETE", "/api/delete", map[string]any{"model": model})
				if err != nil {
					return err
				}
				answer.Close()
				fmt.Fprintf(cmd.OutOrStdout(), "deleted '%s'\n", printable(model))
			}
			return nil
		},
	}
}
