package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"signalbox/backend/models"
)

func dfCommand() *cobra.Command {
	return &cobra.Command{
		Use: "df", Short: "Show what takes space", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			var u struct {
				models.Usage
				Caches int64 `json:"caches"`
			}
			if err := c.get(cmd.Context(), "GET", "/ui/disk", nil, &u); err != nil {
				return err
			}
			rows := [][]string{{"NAME", "SIZE", "STATE"}}
			for _, m := range u.Models {
				rows = append(rows, []string{m.Name, size(m.Bytes), m.State})
			}
			for _, other := range []struct {
				name  string
				bytes int64
			}{{"compiled for devices", u.Caches}, {"incomplete downloads", u.Partial}, {"files sent by clients", u.Blobs}} {
				if other.bytes > 0 {
					rows = append(rows, []string{other.name, size(other.bytes), ""})
				}
			}
			out := cmd.OutOrStdout()
			if err := table(out, rows); err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s free of %s in %s\n", size(u.Free), size(u.Total), printable(u.Dir))
			return err
		},
	}
}
