package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func cpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cp SOURCE DESTINATION", Short: "Give a model another name; the files are shared", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			answer, err := c.do(cmd.Context(), "POST", "/api/copy", map[string]any{"source": args[0], "destination": args[1]})
			if err != nil {
				return err
			}
			answer.Close()
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "copied '%s' to '%s'\n", printable(args[0]), printable(args[1]))
			return err
		},
	}
}
