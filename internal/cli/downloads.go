package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/backend/downloads"
	"signalbox/backend/llm"
)

func downloadsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "downloads", Short: "List the downloads: what is on its way, paused or failed", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			list, err := c.downloads(cmd.Context())
			if err != nil {
				return err
			}
			rows := [][]string{{"NAME", "STATE", "DONE", "SIZE", "RATE", "PROBLEM"}}
			for _, d := range list {
				done, rate := "-", "-"
				if d.Total > 0 {
					done = fmt.Sprintf("%d%%", d.Completed*100/d.Total)
				}
				if d.Rate > 0 {
					rate = size(d.Rate) + "/s"
				}
				rows = append(rows, []string{d.Model, d.State, done, size(d.Total), rate, orDash(d.Error)})
			}
			return table(cmd.OutOrStdout(), rows)
		},
	}
	cmd.AddCommand(
		steerCommand("pause", "Stop a download and keep what has come", "paused"),
		steerCommand("resume", "Go on with a download, in the background", "resumed"),
		steerCommand("cancel", "Stop a download and delete what has come", "cancelled"),
	)
	return cmd
}

func steerCommand(action, short, done string) *cobra.Command {
	return &cobra.Command{
		Use: action + " MODEL", Short: short, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return llm.Errorf(llm.CodeInvalid, "name a model; `signalbox downloads` lists what is on its way")
			}
			c, err := connect()
			if err != nil {
				return err
			}
			list, err := c.downloads(cmd.Context())
			if err != nil {
				return err
			}
			for _, d := range list {
				if d.State == downloads.Done || !strings.EqualFold(d.Model, args[0]) && !strings.EqualFold(d.Source, args[0]) {
					continue
				}
				answer, err := c.do(cmd.Context(), "POST", "/ui/downloads/"+d.ID+"/"+action, nil)
				if err != nil {
					return err
				}
				answer.Close()
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s '%s'\n", done, printable(d.Model))
				return err
			}
			return llm.Errorf(llm.CodeModelNotFound, "there is no download of %q", args[0]).WithHint("`signalbox downloads` lists what is on its way")
		},
	}
}

func (c client) downloads(ctx context.Context) ([]downloads.Download, error) {
	var list struct {
		Downloads []downloads.Download `json:"downloads"`
	}
	return list.Downloads, c.get(ctx, "GET", "/ui/downloads", nil, &list)
}
