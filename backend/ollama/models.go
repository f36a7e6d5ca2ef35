package ollama

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/backend/llm"
	"signalbox/backend/models"
)

type details struct {
	ParentModel       string   `json:"parent_model"`
	Format            string   `json:"format"`
	Family            string   `json:"family"`
	Families          []string `json:"families"`
	ParameterSize     string   `json:"parameter_size"`
	QuantizationLevel string   `json:"quantization_level"`
	ContextLength     int      `json:"context_length,omitempty"`
	EmbeddingLength   int      `json:"embedding_length,omitempty"`
}

func detailsOf(m models.Model) details {
	return details{
		ParentModel: m.Parent, Format: "openvino", Family: m.Family, Families: []string{m.Family}, ParameterSize: m.ParameterSize,
		QuantizationLevel: m.Quantization, ContextLength: m.ContextLength, EmbeddingLength: m.EmbeddingLength,
	}
}

// own is what Signalbox says of a model beside Ollama's fields, in tags and show. All of it is absent where there is nothing
// to say.
type own struct {
	Damaged   string          `json:"damaged,omitempty"` // why it cannot be used
	Source    string          `json:"source,omitempty"`  // the hub's name of it
	Revision  string          `json:"revision,omitempty"`
	Bundled   bool            `json:"bundled,omitempty"`   // it came with Signalbox, and cannot be deleted
	Elsewhere bool            `json:"elsewhere,omitempty"` // its files are somebody's own folder, which is never changed
	NPU       *models.Fitness `json:"npu,omitempty"`
}

func ownOf(m models.Model) own {
	o := own{Damaged: m.Damaged, Source: m.Source, Revision: m.Revision, Bundled: m.ReadOnly, Elsewhere: m.Imported}
	if m.Damaged == "" && m.NPU.Reason != "" {
		o.NPU = &m.NPU
	}
	return o
}

// TagsBody answers /api/tags with the models in the order given.
func TagsBody(list []models.Model) []byte {
	type entry struct {
		Name         string    `json:"name"`
		Model        string    `json:"model"`
		ModifiedAt   time.Time `json:"modified_at"`
		Size         int64     `json:"size"`
		Digest       string    `json:"digest"`
		Details      details   `json:"details"`
		Capabilities []string  `json:"capabilities"`
		own
	}
	entries := []entry{}
	for _, m := range list {
		entries = append(entries, entry{m.Name, m.Name, m.ModifiedAt, m.Size, m.Digest, detailsOf(m), capabilities(m), ownOf(m)})
	}
	return marshal(struct {
		Models []entry `json:"models"`
	}{entries})
}

// Loaded is a model in memory on a device.
type Loaded struct {
	Model        models.Model
	Device       llm.Device
	Bytes        int64 // on the device
	ContextLimit int
	ExpiresAt    time.Time // zero: never
}

// never is when a model expires that stays loaded: far away, and still a date that every client can parse.
var never = time.Date(2318, 1, 1, 0, 0, 0, 0, time.UTC)

// PsBody answers /api/ps, longest remaining first. size_vram is what really lies in a device other than the CPU, because
// clients compute "100% GPU" from it; the device's name is beside it.
func PsBody(list []Loaded) []byte {
	type entry struct {
		Name          string    `json:"name"`
		Model         string    `json:"model"`
		Size          int64     `json:"size"`
		Digest        string    `json:"digest"`
		Details       details   `json:"details"`
		ExpiresAt     time.Time `json:"expires_at"`
		SizeVRAM      int64     `json:"size_vram"`
		ContextLength int       `json:"context_length"`
		Device        string    `json:"device"`
	}
	entries := []entry{}
	for _, l := range list {
		e := entry{l.Model.Name, l.Model.Name, l.Bytes, l.Model.Digest, detailsOf(l.Model), l.ExpiresAt, 0, l.ContextLimit, l.Device.Label()}
		if (l.Device.Class == llm.NPU || l.Device.Class == llm.GPU) && !l.Device.Emulated {
			e.SizeVRAM = l.Bytes
		}
		if e.ExpiresAt.IsZero() {
			e.ExpiresAt = never
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return b.ExpiresAt.Compare(a.ExpiresAt) })
	return marshal(struct {
		Models []entry `json:"models"`
	}{entries})
}

// OnDevice is what a model can do on one device. What is not known is absent.
type OnDevice struct {
	Device          string  `json:"device"` // llm.Device.ID
	Label           string  `json:"label"`
	ContextLength   int     `json:"context_length,omitempty"` // tokens of prompt and answer together
	PromptLimit     int     `json:"prompt_limit,omitempty"`   // of the prompt alone, where that is less
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
	Measured        bool    `json:"measured"`          // else the lengths are those of the model's files and of the settings
	Problem         string  `json:"problem,omitempty"` // why it is not used there, a clause
}

// ShowBody answers /api/show. basename, when not empty, is the name to show for the model: Copilot displays it.
func ShowBody(m models.Model, basename string, devices []OnDevice) []byte {
	if basename == "" {
		basename = m.Name
	}
	return marshal(struct {
		License      string         `json:"license,omitempty"`
		Modelfile    string         `json:"modelfile"`
		Parameters   string         `json:"parameters"`
		Template     string         `json:"template"`
		System       string         `json:"system,omitempty"`
		Messages     []llm.Message  `json:"messages,omitempty"`
		Details      details        `json:"details"`
		ModelInfo    map[string]any `json:"model_info"` // never null: integrations crash on it
		Capabilities []string       `json:"capabilities"`
		ToolFormat   string         `json:"tool_format,omitempty"` // not Ollama's: how much to expect of "tools"
		ModifiedAt   time.Time      `json:"modified_at"`
		Digest       string         `json:"digest,omitempty"`  // as in tags
		Devices      []OnDevice     `json:"devices,omitempty"` // not Ollama's: the one context length above is that of the most able
		own
	}{
		m.License, modelfile(m), parameters(m), template(m), m.System, m.Messages, detailsOf(m), modelInfo(m, basename), capabilities(m),
		m.ToolFormat, m.ModifiedAt, m.Digest, devices, ownOf(m),
	})
}

// template is the model's own, with ".Suffix" in a comment where it can fill in the middle: by that word Continue knows.
func template(m models.Model) string {
	if slices.Contains(m.Capabilities, "insert") {
		return m.Template + "{# fills in the middle: {{ .Prompt }} {{ .Suffix }} #}"
	}
	return m.Template
}

func modelInfo(m models.Model, basename string) map[string]any {
	arch := m.Family
	if arch == "" {
		arch = "unknown"
	}
	info := map[string]any{
		"general.architecture":    arch,
		"general.basename":        basename,
		"general.parameter_count": m.ParameterCount,
	}
	if m.ContextLength > 0 {
		info[arch+".context_length"] = m.ContextLength
	}
	if m.EmbeddingLength > 0 {
		info[arch+".embedding_length"] = m.EmbeddingLength
	}
	return info
}

func capabilities(m models.Model) []string {
	if m.Capabilities == nil {
		return []string{}
	}
	return m.Capabilities
}

// parameters are lines of name and value, padded as Ollama does: Continue parses them.
func parameters(m models.Model) string {
	var lines []string
	eachParameter(m, func(name, value string) { lines = append(lines, fmt.Sprintf("%-30s %s", name, value)) })
	return strings.Join(lines, "\n")
}

// eachParameter calls yield with each value as Ollama would write it; a list gives one line for each entry.
func eachParameter(m models.Model, yield func(name, value string)) {
	for _, p := range m.Parameters {
		var list []json.RawMessage
		if json.Unmarshal(p.Value, &list) != nil {
			list = []json.RawMessage{p.Value}
		}
		for _, value := range list {
			yield(p.Name, string(value))
		}
	}
}

func modelfile(m models.Model) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Modelfile generated by Signalbox\nFROM %s\n", m.Name)
	if m.System != "" {
		fmt.Fprintf(&b, "SYSTEM \"\"\"%s\"\"\"\n", m.System)
	}
	if m.Template != "" {
		fmt.Fprintf(&b, "TEMPLATE \"\"\"%s\"\"\"\n", m.Template)
	}
	eachParameter(m, func(name, value string) { fmt.Fprintf(&b, "PARAMETER %s %s\n", name, value) })
	for _, msg := range m.Messages {
		fmt.Fprintf(&b, "MESSAGE %s \"\"\"%s\"\"\"\n", msg.Role, msg.Content)
	}
	return b.String()
}

// VersionBody answers /api/version.
func VersionBody(version string) []byte {
	return marshal(struct {
		Version string `json:"version"`
	}{version})
}
