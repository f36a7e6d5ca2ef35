package cli

import (
	"fmt"
	"slices"
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
			var m modelShown
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
			return table(out, m.rows())
		},
	}
	cmd.Flags().BoolVar(&template, "template", false, "print the chat template")
	cmd.Flags().BoolVar(&parameters, "parameters", false, "print the parameters")
	cmd.Flags().BoolVar(&license, "license", false, "print the license")
	cmd.MarkFlagsMutuallyExclusive("template", "parameters", "license")
	return cmd
}

// modelShown is the answer of /api/show.
type modelShown struct {
	License      string            `json:"license"`
	Parameters   string            `json:"parameters"`
	Template     string            `json:"template"`
	Capabilities []string          `json:"capabilities"`
	ToolFormat   string            `json:"tool_format"`
	Info         map[string]any    `json:"model_info"`
	Digest       string            `json:"digest"`
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

// rows are what is known, section by section; what is not known is left out.
func (m modelShown) rows() (rows [][]string) {
	section := func(name string, lines ...[]string) {
		lines = slices.DeleteFunc(lines, func(line []string) bool { return len(line) > 1 && line[1] == "" })
		if len(lines) == 0 {
			return
		}
		if len(rows) > 0 {
			rows = append(rows, []string{""})
		}
		rows = append(rows, []string{"  " + name})
		for _, line := range lines {
			rows = append(rows, append([]string{"    " + line[0]}, line[1:]...))
		}
	}
	length := ""
	for key, value := range m.Info {
		if strings.HasSuffix(key, ".context_length") {
			length = fmt.Sprint(value)
		}
	}
	license, _, _ := strings.Cut(strings.TrimSpace(m.License), "\n")
	npu := ""
	if m.Damaged == "" && m.NPU.Reason != "" {
		npu = map[bool]string{true: "runs: ", false: "does not run: "}[m.NPU.OK] + m.NPU.Reason
	}
	section("Model", []string{"architecture", m.Details.Family}, []string{"parameters", m.Details.ParameterSize},
		[]string{"quantization", m.Details.Quantization}, []string{"context length", length},
		[]string{"source", strings.TrimSuffix(m.Source+"@"+short(m.Revision), "@")}, []string{"digest", short(m.Digest)},
		[]string{"license", license}, []string{"damaged", m.Damaged}, []string{"NPU", npu})
	var devices, abilities, parameters [][]string
	for _, d := range m.Devices {
		devices = append(devices, []string{d.Label, onDevice(d)})
	}
	for _, ability := range m.Capabilities {
		if ability == "tools" && m.ToolFormat != "" {
			abilities = append(abilities, []string{ability, m.ToolFormat})
		} else {
			abilities = append(abilities, []string{ability})
		}
	}
	for line := range strings.Lines(m.Parameters) {
		name, value, _ := strings.Cut(line, " ")
		parameters = append(parameters, []string{name, strings.TrimSpace(value)})
	}
	section("Devices", devices...)
	section("Capabilities", abilities...)
	section("Parameters", parameters...)
	return rows
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
