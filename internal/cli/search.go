package cli

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

func searchCommand() *cobra.Command {
	var npu, offline bool
	var task, quantization, sort string
	cmd := &cobra.Command{
		Use: "search [TEXT]", Short: "Find models to pull",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			text := strings.Join(args, " ")
			if offline {
				return c.known(cmd, text)
			}
			values := url.Values{"q": {text}, "task": {task}, "quantization": {quantization}, "sort": {sort}}
			if npu {
				values.Set("npu", "true")
			}
			var found struct {
				Models []struct {
					Repo         string  `json:"repo"`
					Billions     float64 `json:"billions"`
					Quantization string  `json:"quantization"`
					NPU          bool    `json:"npu"`
					Downloads    int64   `json:"downloads"`
					License      string  `json:"license"`
				} `json:"models"`
			}
			if err := c.get(cmd.Context(), "GET", "/api/search?"+values.Encode(), nil, &found); err != nil {
				if kerr := c.known(cmd, text); kerr != nil {
					return err
				}
				return fmt.Errorf("%w. These are well-known models, which are listed without the network", err)
			}
			rows := [][]string{{"NAME", "PARAMETERS", "QUANTIZATION", "NPU", "DOWNLOADS", "LICENSE"}}
			for _, m := range found.Models {
				parameters := "-"
				if m.Billions > 0 {
					parameters = fmt.Sprintf("%gB", m.Billions)
				}
				rows = append(rows, []string{m.Repo, parameters, orDash(m.Quantization), yes(m.NPU), fmt.Sprint(m.Downloads), orDash(m.License)})
			}
			return table(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().BoolVar(&npu, "npu", false, "only models made for NPUs")
	cmd.Flags().BoolVar(&offline, "known", false, "only the well-known models, without the network")
	cmd.Flags().StringVar(&task, "task", "", "chat or embedding")
	cmd.Flags().StringVar(&quantization, "quantization", "", "int4, int8 or fp16")
	cmd.Flags().StringVar(&sort, "sort", "downloads", "downloads, likes, modified or name")
	return cmd
}

func (c client) known(cmd *cobra.Command, text string) error {
	var list struct {
		Models []struct {
			Name        string `json:"name"`
			Repo        string `json:"repo"`
			Parameters  string `json:"parameter_size"`
			Size        int64  `json:"size"`
			NPU         bool   `json:"npu"`
			Installed   bool   `json:"installed"`
			Description string `json:"description"`
		} `json:"models"`
	}
	if err := c.get(cmd.Context(), "GET", "/api/models/known", nil, &list); err != nil {
		return err
	}
	rows := [][]string{{"NAME", "SIZE", "NPU", "HERE", "DESCRIPTION"}}
	for _, m := range list.Models {
		if strings.Contains(strings.ToLower(m.Name+" "+m.Repo+" "+m.Description), strings.ToLower(text)) {
			rows = append(rows, []string{m.Name, size(m.Size), yes(m.NPU), yes(m.Installed), m.Description})
		}
	}
	return table(cmd.OutOrStdout(), rows)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
