package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"signalbox/internal/version"
)

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the models on this laptop", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			var tags struct {
				Models []struct {
					Name       string    `json:"name"`
					Digest     string    `json:"digest"`
					Size       int64     `json:"size"`
					ModifiedAt time.Time `json:"modified_at"`
					Damaged    string    `json:"damaged"`
				} `json:"models"`
			}
			if err := c.get(cmd.Context(), "GET", "/api/tags", nil, &tags); err != nil {
				return err
			}
			rows := [][]string{{"NAME", "ID", "SIZE", "MODIFIED"}}
			for _, m := range tags.Models {
				id, modified := short(m.Digest), "-"
				if m.Damaged != "" {
					id = "damaged" // `verify` says how
				}
				if !m.ModifiedAt.IsZero() {
					modified = humanize.Time(m.ModifiedAt)
				}
				rows = append(rows, []string{m.Name, id, size(m.Size), modified})
			}
			return table(cmd.OutOrStdout(), rows)
		},
	}
}

func psCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ps", Short: "List the models that are loaded, and on which device", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			var ps struct {
				Models []struct {
					Name      string    `json:"name"`
					Digest    string    `json:"digest"`
					Size      int64     `json:"size"`
					Device    string    `json:"device"`
					Context   int       `json:"context_length"`
					ExpiresAt time.Time `json:"expires_at"`
				} `json:"models"`
			}
			if err := c.get(cmd.Context(), "GET", "/api/ps", nil, &ps); err != nil {
				return err
			}
			rows := [][]string{{"NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"}}
			for _, m := range ps.Models {
				rows = append(rows, []string{m.Name, short(m.Digest), size(m.Size), m.Device, fmt.Sprint(m.Context), until(m.ExpiresAt)})
			}
			return table(cmd.OutOrStdout(), rows)
		},
	}
}

func stopCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stop MODEL", Short: "Unload a model", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needModel(args); err != nil {
				return err
			}
			c, err := connect()
			if err != nil {
				return err
			}
			var done struct{}
			return c.get(cmd.Context(), "POST", "/api/generate", map[string]any{"model": args[0], "keep_alive": 0, "stream": false}, &done)
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "signalbox version is %s (Ollama API %s)\n", version.Version, version.Ollama)
			return err
		},
	}
}

// table prints rows in columns. Control characters are left out: a model's name must not drive the terminal.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 4, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		if _, err := fmt.Fprintln(tw, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

func short(digest string) string { return digest[:min(12, len(digest))] }

func size(n int64) string {
	if n <= 0 {
		return "-"
	}
	return humanize.Bytes(uint64(n))
}

func until(t time.Time) string {
	if t.IsZero() || time.Until(t) > 10*365*24*time.Hour {
		return "Forever"
	}
	return humanize.Time(t)
}
