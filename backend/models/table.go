package models

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"signalbox/backend/llm"
	"signalbox/internal/brief"
)

// Known is a well-known model: a short name for a repository of the hub, with what people choose by.
type Known struct {
	Name        string   `json:"name"`
	Aliases     []string `json:"aliases,omitempty"`
	Repo        string   `json:"repo"`
	Revision    string   `json:"revision,omitempty"`
	Kind        string   `json:"kind"`
	Parameters  string   `json:"parameter_size"`
	Quantized   string   `json:"quantization"`
	Bytes       int64    `json:"size"` // about
	NPU         bool     `json:"npu"`  // made for NPUs: int4 by whole channels
	License     string   `json:"license"`
	Description string   `json:"description"`
}

// NamesFile is the file in the data folder that adds names.
const NamesFile = "known.json"

// Reference is what the entry means on the hub.
func (k Known) Reference() string { return Reference{Repo: k.Repo, Revision: k.Revision}.String() }

// Table is the list of well-known models. It works without a network.
type Table []Known

//go:embed known.json
var knownJSON []byte

// Builtin is the table that came with the program.
func Builtin() Table { return slices.Clone(builtin()) }

var builtin = sync.OnceValue(func() (t Table) {
	if err := json.Unmarshal(knownJSON, &t); err != nil {
		panic("models: known.json: " + err.Error()) // ours, and a test reads it
	}
	return t
})

// LoadTable is Builtin and what the file adds to it: new names need no release. Signalbox fetches no such file by itself; it is
// the user's own (AddNames writes it). The error says what of it was left out and why: all of it where somebody else could
// have written it, or entries that Add refuses. The table is good with an error, too.
func LoadTable(file string) (Table, error) {
	t := Builtin()
	if file == "" {
		return t, nil
	}
	more, err := readNames(file)
	if err != nil {
		return t, err
	}
	t, _, refused := t.Add(more)
	if len(refused) > 0 {
		return t, fmt.Errorf("%s: %s", file, strings.Join(refused, "; "))
	}
	return t, nil
}

// largestTable is more than any list of names has.
const largestTable = 1 << 20

// readNames reads the user's own file; none is an empty one.
func readNames(file string) (t Table, err error) {
	if err := ownFile(file); err != nil {
		return nil, err
	}
	text, err := readFile(file, largestTable)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if t, err = ParseTable(text); err != nil {
		return nil, fmt.Errorf("%s is not read: %w", file, err)
	}
	return t, nil
}

// ParseTable reads a list of well-known models as JSON.
func ParseTable(text []byte) (t Table, err error) {
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("it is no list of models in JSON: %w", err)
	}
	return t, nil
}

// Add takes more names into a copy of the table. It may only add: no name that is known already can be led elsewhere. added are
// the entries that came to it, refused says what is wrong with others, a clause each; what the table has already is neither.
// An entry that names a commit as its revision means these files for ever; others mean what the repository has.
func (t Table) Add(more Table) (all, added Table, refused []string) {
	all = slices.Clone(t)
	for i, k := range more {
		repo, revision, _ := strings.Cut(k.Repo, "@")
		known, taken := all.Find(k.Name)
		switch {
		case !ValidName(k.Name):
			refused = append(refused, fmt.Sprintf("entry %d has no valid name: %q", i+1, brief.Text(k.Name)))
		case !ValidName(repo) || strings.Count(repo, "/") != 1 || revision != "" && !validRevision(revision) || k.Revision != "" && !validRevision(k.Revision):
			refused = append(refused, fmt.Sprintf("%s has no valid repository: %q", k.Name, brief.Text(strings.TrimSuffix(k.Repo+"@"+k.Revision, "@"))))
		case taken && (folded(known.Repo) != folded(k.Repo) || known.Revision != k.Revision):
			refused = append(refused, fmt.Sprintf("%s means %s already", k.Name, known.Reference()))
		case taken:
		default:
			k.Aliases = slices.DeleteFunc(slices.Clone(k.Aliases), func(a string) bool { _, taken := all.Find(a); return taken || !ValidName(a) })
			all, added = append(all, k), append(added, k)
		}
	}
	return all, added, refused
}

// AddNames puts what a table adds to the builtin one into the file, beside what is there; a name that is there already is
// replaced. added and refused are as for Add.
func AddNames(file string, more Table) (added Table, refused []string, err error) {
	old, err := readNames(file)
	if err != nil {
		return nil, nil, err
	}
	_, added, refused = Builtin().Add(more)
	if len(added) == 0 {
		return added, refused, nil
	}
	kept := slices.DeleteFunc(old, func(k Known) bool { _, again := added.Find(k.Name); return again })
	text, err := json.MarshalIndent(append(kept, added...), "", " ")
	if err != nil {
		return nil, nil, err
	}
	return added, refused, replaceFile(file, append(text, '\n'))
}

// Find returns the entry of that name, alias or repository, compared as the library compares names.
func (t Table) Find(name string) (Known, bool) {
	key := folded(name)
	i := slices.IndexFunc(t, func(k Known) bool {
		return folded(k.Name) == key || folded(k.Repo) == key || slices.ContainsFunc(k.Aliases, func(a string) bool { return folded(a) == key })
	})
	if i < 0 {
		return Known{}, false
	}
	return t[i], true
}

// is tells whether a model of that name and source is the one that the entry means.
func (k Known) is(name, source string) bool {
	_, tail, _ := strings.Cut(k.Repo, "/")
	name = folded(name)
	return name == folded(k.Name) || name == folded(k.Repo) || name == folded(tail) || folded(source) == folded(k.Repo)
}

// Billions is the number of its parameters; 0: not known.
func (k Known) Billions() float64 { return float64(countOf(k.Parameters)) / 1e9 }

// IsIt tells whether the model is the one that the entry means, and not only another quantization of it.
func (k Known) IsIt(m Model) bool { return k.is(m.Name, m.Source) }

var quantizationForm = regexp.MustCompile(`-(?:int4|int8|fp16|fp8|nf4)(?:-cw)?(?:-ov)?$`)

// withoutQuantization is what the quantizations of one model have in common: "qwen3-4b" of "OpenVINO/Qwen3-4B-int4-cw-ov".
func withoutQuantization(name string) string {
	name = folded(name)
	return quantizationForm.ReplaceAllString(name[strings.LastIndexByte(name, '/')+1:], "")
}

// names are all that can be pulled by a short name.
func (t Table) names() []string {
	names := make([]string, 0, len(t))
	for _, k := range t {
		names = append(names, k.Name)
	}
	return names
}

// unknown is Ollama's text for a name that the hub does not have, with the nearest names that can be pulled.
func (t Table) unknown(name string) error {
	e := llm.Errorf(llm.CodeModelNotFound, "pull model manifest: file does not exist")
	e.Param = "model"
	if near := nearest(name, t.names()); len(near) > 0 {
		return e.WithHint("%q is not a known model: did you mean %s?", name, strings.Join(near, " or "))
	}
	return e.WithHint("%q is not a known model: `signalbox search` finds models, and names of the hub such as OpenVINO/Qwen3-8B-int4-cw-ov work too", name)
}

// Instead finds the entry for a model that the hub has in another form: by the names of its repositories, else by what its GGUF
// weights say of themselves.
func (t Table) Instead(architecture string, parameters int64, repos ...string) (Known, bool) {
	for _, repo := range repos {
		name := bare(repo)
		i := slices.IndexFunc(t, func(k Known) bool { return name != "" && bare(k.Repo) == name })
		if i >= 0 {
			return t[i], true
		}
	}
	if architecture == "" {
		return Known{}, false
	}
	return t.InPlaceOf(architecture, parameters)
}

// bare is what the forms of one model on the hub have in common: "qwen3-4b" of "bartowski/Qwen3-4B-GGUF".
func bare(repo string) string { return withoutQuantization(strings.TrimSuffix(folded(repo), "-gguf")) }

// InPlaceOf finds the model to pull instead of a GGUF file of that architecture ("qwen3") and about that size.
func (t Table) InPlaceOf(architecture string, parameters int64) (Known, bool) {
	family := strings.ToLower(architecture)
	var best Known
	found := false
	for _, k := range t {
		if k.Kind != KindChat || !slices.Contains(familyOf(family), strings.ToLower(strings.SplitN(k.Name, ":", 2)[0])) {
			continue
		}
		if !found || gap(k, parameters) < gap(best, parameters) {
			best, found = k, true
		}
	}
	return best, found
}

// familyOf names the short names whose models have an architecture as GGUF files call it.
func familyOf(architecture string) []string {
	switch architecture {
	case "qwen2":
		return []string{"qwen2.5", "qwen2.5-coder"}
	case "qwen3moe", "qwen35":
		return []string{"qwen3"}
	case "llama":
		return []string{"llama3.1", "llama3.2", "tinyllama", "mistral"}
	case "phi3":
		return []string{"phi3.5", "phi4-mini", "phi4", "phi3"}
	case "gemma2", "gemma":
		return []string{"gemma2"}
	}
	return []string{architecture}
}

func gap(k Known, parameters int64) int64 {
	d := countOf(k.Parameters) - parameters
	if d < 0 {
		return -d
	}
	return d
}

// countOf reads "4B", "0.6B", "135M".
func countOf(size string) int64 {
	var n float64
	unit := 1.0
	switch {
	case strings.HasSuffix(size, "B"):
		unit = 1e9
	case strings.HasSuffix(size, "M"):
		unit = 1e6
	}
	if json.Unmarshal([]byte(strings.TrimRight(size, "BM")), &n) != nil {
		return 0
	}
	return int64(n * unit)
}
