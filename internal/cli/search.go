package cli

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/backend/models"
)

// wanted is what a search is narrowed to.
type wanted struct {
	text, task, quantization string
	npu                      bool
	billions                 float64 // at most; 0: any
}

func searchCommand() *cobra.Command {
	var want wanted
	var offline bool
	var sort string
	cmd := &cobra.Command{
		Use: "search [TEXT]", Short: "Find models to pull",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			want.text = strings.Join(args, " ")
			if offline {
				return c.known(cmd, want)
			}
			values := url.Values{"q": {want.text}, "task": {want.task}, "quantization": {want.quantization}, "sort": {sort}}
			if want.npu {
				values.Set("npu", "true")
			}
			if want.billions > 0 {
				values.Set("max_billions", fmt.Sprint(want.billions))
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
				if kerr := c.known(cmd, want); kerr != nil {
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
	cmd.Flags().BoolVar(&want.npu, "npu", false, "only models made for NPUs")
	cmd.Flags().BoolVar(&offline, "known", false, "only the well-known models, without the network")
	cmd.Flags().StringVar(&want.task, "task", "", "chat or embedding")
	cmd.Flags().StringVar(&want.quantization, "quantization", "", "int4, int8 or fp16")
	cmd.Flags().Float64Var(&want.billions, "max-billions", 0, "only models with up to so many billions of parameters")
	cmd.Flags().StringVar(&sort, "sort", "downloads", "downloads, likes, modified or name")
	return cmd
}

func (c client) known(cmd *cobra.Command, want wanted) error {
	var list struct {
		Models []struct {
			models.Known
			Installed bool `json:"installed"`
		} `json:"models"`
	}
	if err := c.get(cmd.Context(), "GET", "/api/models/known", nil, &list); err != nil {
		return err
	}
	rows := [][]string{{"NAME", "SIZE", "NPU", "HERE", "DESCRIPTION"}}
	for _, m := range list.Models {
		if want.takes(m.Known) {
			rows = append(rows, []string{m.Name, size(m.Bytes), yes(m.NPU), yes(m.Installed), m.Description})
		}
	}
	return table(cmd.OutOrStdout(), rows)
}

func (w wanted) takes(k models.Known) bool {
	return strings.Contains(strings.ToLower(k.Name+" "+k.Repo+" "+k.Description), strings.ToLower(w.text)) &&
		(w.task == "" || w.task == k.Kind) && (!w.npu || k.NPU) &&
		strings.HasPrefix(strings.ToLower(k.Quantized), strings.ToLower(w.quantization)) &&
		(w.billions <= 0 || k.Billions() > 0 && k.Billions() <= w.billions)
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
