package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/backend/models"
	"signalbox/backend/ollama"
)

func showCommand() *cobra.Command {
	var template, parameters, license bool
	cmd := &cobra.Command{
		Use: "show MODEL", Short: "Show what is known about a model", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needModel(args); err != nil {
				return err
			}
			c, err := connect()
			if err != nil {
				return err
			}
			var m struct {
				License      string            `json:"license"`
				Parameters   string            `json:"parameters"`
				Template     string            `json:"template"`
				Capabilities []string          `json:"capabilities"`
				ToolFormat   string            `json:"tool_format"`
				Info         map[string]any    `json:"model_info"`
				Damaged      string            `json:"damaged"`
				Source       string            `json:"source"`
				Revision     string            `json:"revision"`
				NPU          models.Fitness    `json:"npu"`
				Devices      []ollama.OnDevice `json:"devices"`
				Details      struct {
					Family        string `json:"family"`
					ParameterSize string `json:"parameter_size"`
					Quantization  string `json:"quantization_level"`
				} `json:"details"`
			}
			if err := c.get(cmd.Context(), "POST", "/api/show", map[string]any{"model": args[0]}, &m); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for wanted, text := range map[*bool]string{&template: m.Template, &parameters: m.Parameters, &license: m.License} {
				if *wanted {
					_, err := fmt.Fprintln(out, printable(strings.TrimRight(text, "\n")))
					return err
				}
			}
			rows := [][]string{
				{"  Model"},
				{"    architecture", m.Details.Family},
				{"    parameters", m.Details.ParameterSize},
				{"    quantization", m.Details.Quantization},
			}
			for key, value := range m.Info {
				if strings.HasSuffix(key, ".context_length") {
					rows = append(rows, []string{"    context length", fmt.Sprint(value)})
				}
			}
			if m.Source != "" {
				rows = append(rows, []string{"    source", strings.TrimSuffix(m.Source+"@"+short(m.Revision), "@")})
			}
			switch {
			case m.Damaged != "":
				rows = append(rows, []string{"    damaged", m.Damaged})
			case m.NPU.OK:
				rows = append(rows, []string{"    NPU", "runs: " + m.NPU.Reason})
			case m.NPU.Reason != "":
				rows = append(rows, []string{"    NPU", "does not run: " + m.NPU.Reason})
			}
			rows = append(rows, []string{""}, []string{"  Devices"})
			for _, d := range m.Devices {
				rows = append(rows, []string{"    " + d.Label, onDevice(d)})
			}
			rows = append(rows, []string{""}, []string{"  Capabilities"})
			for _, ability := range m.Capabilities {
				row := []string{"    " + ability}
				if ability == "tools" {
					row = append(row, m.ToolFormat)
				}
				rows = append(rows, row)
			}
			return table(out, rows)
		},
	}
	cmd.Flags().BoolVar(&template, "template", false, "print the chat template")
	cmd.Flags().BoolVar(&parameters, "parameters", false, "print the parameters")
	cmd.Flags().BoolVar(&license, "license", false, "print the license")
	cmd.MarkFlagsMutuallyExclusive("template", "parameters", "license")
	return cmd
}

// onDevice is what is known of a model on a device.
func onDevice(d ollama.OnDevice) string {
	if d.Problem != "" {
		return d.Problem
	}
	var parts []string
	if d.ContextLength > 0 {
		parts = append(parts, fmt.Sprintf("up to %d tokens", d.ContextLength))
	}
	if d.PromptLimit > 0 && d.PromptLimit < d.ContextLength {
		parts = append(parts, fmt.Sprintf("at most %d in the prompt", d.PromptLimit))
	}
	if d.TokensPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%.0f tok/s", d.TokensPerSecond))
	}
	if !d.Measured {
		parts = append(parts, "not tried yet")
	}
	return strings.Join(parts, ", ")
}
