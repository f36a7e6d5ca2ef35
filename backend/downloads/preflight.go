package downloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"signalbox/backend/hub"
	"signalbox/backend/llm"
	"signalbox/backend/models"
)

// Report is what can be said of a model before its weights are fetched.
type Report struct {
	Model    string   `json:"model"`
	Source   string   `json:"source"`
	Commit   string   `json:"commit"`
	Size     int64    `json:"size"`
	Free     int64    `json:"free"`   // on the disk
	Memory   int64    `json:"memory"` // of this computer; 0: unknown
	License  string   `json:"license"`
	Gated    bool     `json:"gated"`
	There    bool     `json:"installed"`
	Quantity string   `json:"quantization"`
	Devices  []Device `json:"devices"`
	Speed    string   `json:"speed"`   // expected: "very fast", "fast", "comfortable", "slow", "very slow"
	Refused  string   `json:"refused"` // why it would not be fetched; empty: it would
	Warnings []string `json:"warnings"`
	Card     string   `json:"card"` // what its makers say of it, in Markdown: the text of others; empty: nothing
}

// Device says whether a class of devices runs it.
type Device struct {
	Class  string `json:"class"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason"`
}

// instead completes the error about a repository whose weights are of another kind: with what they are, and what to pull in
// their place.
func (m *Manager) instead(s hub.Snapshot, err error) error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Code != llm.CodeUnsupported || s.Weights == "" {
		return err
	}
	what := "it has " + s.Weights + " files"
	if s.Weights == "GGUF" && s.Architecture != "" {
		what += fmt.Sprintf(" of the architecture %.40q", s.Architecture)
	}
	if k, ok := m.o.Table().Instead(s.Architecture, s.Parameters, s.Repo, s.BaseModel); ok {
		return e.WithHint("%s; `signalbox pull %s` fetches %s instead", what, k.Name, k.Repo)
	}
	return e.WithHint("%s; look for the same model with -ov at the end of its name (`signalbox search`)", what)
}

// Preflight asks the hub about a model. Of its files only the graph is fetched, and not kept.
func (m *Manager) Preflight(ctx context.Context, name string) (Report, error) {
	ref, err := m.o.Table().ParseReference(name)
	if err != nil {
		return Report{}, err
	}
	client, err := m.o.Hub()
	if err != nil {
		return Report{}, err
	}
	defer client.Close()
	s, err := client.Ask(ctx, ref.Repo, ref.Revision)
	if err != nil {
		return Report{}, m.instead(s, err)
	}
	r := Report{Model: ref.Name, Source: ref.String(), Commit: s.Commit, Size: s.Size(), License: s.License, Gated: s.Gated, Warnings: []string{}, Devices: []Device{}, Speed: speedOf(s.Size())}
	r.Free, _, _ = m.o.Space(existing(m.o.Library.Own())) // unknown: 0
	r.Memory = m.o.Memory()
	if here, err := m.o.Library.Find(ref.Name); err == nil {
		r.There = here.Damaged == "" && models.Known{Name: ref.Name, Repo: ref.Repo}.IsIt(here)
	}
	if err := m.fits(s, s.Size()); err != nil {
		r.Refused = err.Error()
	}
	temp, err := os.MkdirTemp("", "signalbox-graph-*")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // the system's folder for such files
	graph, _ := s.File(graphFile)
	path := filepath.Join(temp, graphFile)
	if _, err := client.Download(ctx, s, graph, path, func(int64) {}); err != nil {
		return r, err
	}
	g, err := models.ReadGraph(path)
	if err != nil {
		return r, err
	}
	r.Quantity = g.Quantization
	r.Card = card(ctx, client, s, temp)
	if err := m.runs(g); err != nil {
		r.Refused = err.Error()
	}
	r.Devices, r.Warnings = devices(g), m.warnings(g)
	return r, nil
}

// card is the model card without its header, which is for the hub. One that does not come is none: it decides nothing.
func card(ctx context.Context, client *hub.Client, s hub.Snapshot, temp string) string {
	if s.Card == nil {
		return ""
	}
	path := filepath.Join(temp, "card")
	if _, err := client.Download(ctx, s, *s.Card, path, func(int64) {}); err != nil {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	card := strings.ToValidUTF8(strings.ReplaceAll(string(text), "\r\n", "\n"), "\ufffd")
	if rest, ok := strings.CutPrefix(card, "---\n"); ok {
		if _, body, ok := strings.Cut(rest, "\n---\n"); ok {
			card = body
		}
	}
	return strings.TrimSpace(card)
}

func devices(g models.Graph) []Device {
	return []Device{
		{string(llm.NPU), g.NPU.OK, g.NPU.Reason},
		{string(llm.GPU), true, "GPUs run every quantization, while it fits into memory"},
		{string(llm.CPU), true, "the CPU runs every quantization"},
	}
}

// speedOf guesses from the bytes that are read for each token.
func speedOf(size int64) string {
	const gb = 1e9
	for _, class := range []struct {
		below float64
		name  string
	}{{1.2 * gb, "very fast"}, {3 * gb, "fast"}, {6 * gb, "comfortable"}, {12 * gb, "slow"}} {
		if float64(size) < class.below {
			return class.name
		}
	}
	return "very slow"
}

// preflight refuses what would not fit, before the first byte.
func (d *download) preflight(s hub.Snapshot) error {
	need := s.Size()
	d.m.mu.Lock()
	need -= d.completed()
	d.m.mu.Unlock()
	return d.m.fits(s, need)
}

func (m *Manager) fits(s hub.Snapshot, need int64) error {
	if free, _, err := m.o.Space(existing(m.o.Library.Own())); err == nil && free < need+models.Reserve {
		return models.NoSpace(need, free)
	}
	weights, _ := s.File("openvino_model.bin")
	if total := m.o.Memory(); total > 0 && weights.Size > total-total/10 {
		return llm.Errorf(llm.CodeUnavailable, "%s has %s of weights and this computer has %s of memory: it could not run",
			s.Repo, humanize.Bytes(uint64(weights.Size)), humanize.Bytes(uint64(total))).WithHint("choose a smaller or more strongly quantized one")
	}
	return nil
}

// judge looks at the graph before the weights are fetched.
func (d *download) judge(path string) error {
	g, err := models.ReadGraph(path)
	if err != nil {
		return llm.Errorf(llm.CodeUnsupported, "openvino_model.xml cannot be read: %w", err)
	}
	if err := d.m.runs(g); err != nil {
		return err
	}
	d.set(func() { d.warnings = d.m.warnings(g) })
	return nil
}

// warnings are sentences about what may disappoint, and is no reason to refuse.
func (m *Manager) warnings(g models.Graph) []string {
	list := []string{}
	if !g.NPU.OK {
		list = append(list, fmt.Sprintf("It will not run on NPUs: %s.", g.NPU.Reason))
	}
	if ours := m.o.Runtime(); ours != "" && newer(g.Runtime, ours) {
		version, _, _ := strings.Cut(g.Runtime, "-")
		list = append(list, fmt.Sprintf("It was made with OpenVINO %.20s, which is newer than the %s here.", version, ours))
	}
	return list
}

// newestIR is the format of graphs that runtimes of today read.
const newestIR = 11

// runs refuses graphs of a format that the runtime is too old for.
func (m *Manager) runs(g models.Graph) error {
	if version, err := strconv.Atoi(g.Version); err == nil && version > newestIR {
		return llm.Errorf(llm.CodeUnsupported, "the model is in OpenVINO's format %d, and this Signalbox reads up to %d", version, newestIR).WithHint("a newer Signalbox may read it")
	}
	return nil
}

// newer compares "2026.1.0-1234" with "2025.4.1" by year and release.
func newer(a, b string) bool {
	var x, y [2]int
	for v, to := range map[string]*[2]int{a: &x, b: &y} {
		for i, part := range strings.SplitN(v, ".", 3)[:min(2, strings.Count(v, ".")+1)] {
			to[i], _ = strconv.Atoi(part) // no number: 0
		}
	}
	return x[0] > y[0] || x[0] == y[0] && x[1] > y[1]
}

// existing is the folder, or the nearest above it that there is.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
