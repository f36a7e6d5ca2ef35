package models

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/backend/toolcall"
)

// manifestFile is ours: it names a model and says where it came from.
const manifestFile = "signalbox.json"

type manifest struct {
	Name           string       `json:"name"`
	Kind           string       `json:"kind,omitempty"`
	Family         string       `json:"family,omitempty"`
	Source         string       `json:"source,omitempty"`
	Revision       string       `json:"revision,omitempty"` // the commit that it was fetched at
	License        string       `json:"license,omitempty"`
	Quantization   string       `json:"quantization,omitempty"`
	ParameterCount int64        `json:"parameter_count,omitempty"`
	Files          []FileRecord `json:"files,omitempty"`     // as they were fetched
	Reference      string       `json:"reference,omitempty"` // the folder that has the files, where they stay with their owner
	Hidden         bool         `json:"hidden,omitempty"`    // deleted, and kept for the variants that share its files
	Removing       bool         `json:"removing,omitempty"`  // deleted while it was in use
	variant
}

// FileRecord is a file as it was when it came.
type FileRecord struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// readManifest reads the manifest, as far as there is one.
func readManifest(dir string) (m manifest) {
	decodeFile(filepath.Join(dir, manifestFile), &m)
	return m
}

// manifests remembers what manifests say, as long as they are the same files.
type manifests struct{ known sync.Map } // knownManifest by folder

type knownManifest struct {
	info     fs.FileInfo
	read     time.Time
	manifest manifest
}

// settled is how old a file's last change must be for a later one to have another time: FAT counts in two seconds.
const settled = 2 * time.Second

// read is readManifest. What comes back is shared: nobody changes what it leads to.
func (m *manifests) read(dir string) manifest {
	info, err := os.Stat(filepath.Join(dir, manifestFile))
	if err != nil {
		m.known.Delete(dir)
		return manifest{}
	}
	if known, ok := m.known.Load(dir); ok {
		k := known.(knownManifest)
		if os.SameFile(k.info, info) && k.info.Size() == info.Size() && k.info.ModTime().Equal(info.ModTime()) && k.read.Sub(info.ModTime()) > settled {
			return k.manifest
		}
	}
	k := knownManifest{info: info, read: time.Now(), manifest: readManifest(dir)}
	m.known.Store(dir, k)
	return k.manifest
}

// decodeFile reads a JSON file of a sane size. A file that is missing or broken leaves v as it was: all of these files are
// optional, and what really matters is in the model itself.
func decodeFile(path string, v any) {
	if text, err := readFile(path, 64<<20); err == nil {
		json.Unmarshal(text, v)
	}
}

// config is config.json, and what the few other files say about sizes.
type config struct {
	Architectures []string `json:"architectures"`
	ModelType     string   `json:"model_type"`
	MaxPositions  int      `json:"max_position_embeddings"`
	Positions     int      `json:"n_positions"` // as GPT-2 calls it
	HiddenSize    int      `json:"hidden_size"`
	VocabSize     int      `json:"vocab_size"`
	Layers        int      `json:"num_hidden_layers"`
	Heads         int      `json:"num_attention_heads"`
	KVHeads       int      `json:"num_key_value_heads"` // 0: as many as Heads
	HeadSize      int      `json:"head_dim"`            // 0: HiddenSize over Heads
	Text          *config  `json:"text_config"`         // of models that also see
}

// cacheBytes is what keys and values of one token take, in 16 bits a number; 0 where the config does not say.
func (c config) cacheBytes() int64 {
	heads, size := cmp.Or(c.KVHeads, c.Heads), c.HeadSize
	if size == 0 && c.Heads > 0 {
		size = c.HiddenSize / c.Heads
	}
	if c.Layers <= 0 || heads <= 0 || size <= 0 || c.Layers > 1<<10 || heads > 1<<10 || size > 1<<12 {
		return 0
	}
	return int64(c.Layers) * int64(heads) * int64(size) * 2 * 2
}

// examine works out everything about a folder from its files. The error is for files that cannot be read just now: what is
// returned with it, a Damaged model, is not to be kept.
func examine(f folder) (Model, error) {
	m := Model{
		Name: f.name, Dir: f.dir, Source: f.manifest.Source, Revision: f.manifest.Revision,
		Family: f.manifest.Family, ParameterCount: f.manifest.ParameterCount, Quantization: f.manifest.Quantization,
	}
	if kind := f.manifest.Kind; kind == KindChat || kind == KindEmbedding {
		m.Kind = kind
	}
	for _, file := range f.files {
		m.Size += file.size
		if file.modified.After(m.ModifiedAt) {
			m.ModifiedAt = file.modified
		}
	}
	m.configure(f)
	m.License = f.license()
	g, damage := f.graph()
	if damage != "" {
		m.Damaged, m.Kind = damage, cmp.Or(m.Kind, KindChat)
		return m, nil
	}
	m.measure(g)
	if m.Kind == KindChat {
		style := toolcall.Detect(m.Template)
		m.Capabilities, m.ToolFormat, m.OwnTools = abilities(style, f), style.Format(), style.Native()
	}
	if m.Damaged = f.cutShort(g); m.Damaged != "" {
		return m, nil
	}
	var err error
	if m.Digest, err = f.digest(); err != nil {
		m.Damaged = fmt.Sprintf("Its files cannot be read: %v.", err)
	}
	return m, err
}

// graph is what the folder's model shows, or a sentence with what keeps it from being one.
func (f folder) graph() (graph, string) {
	if lacks := f.incomplete(); lacks != "" {
		return graph{}, lacks
	}
	g, err := readGraph(filepath.Join(f.dir, "openvino_model.xml"))
	if err != nil {
		return graph{}, fmt.Sprintf("The file openvino_model.xml cannot be read: %v.", err)
	}
	return g, ""
}

// cutShort says that the weights are not all there; "" when they are.
func (f folder) cutShort(g graph) string {
	if have, _ := f.size("openvino_model.bin"); have < g.weightBytes {
		return fmt.Sprintf("The file openvino_model.bin is cut short: it has %d of %d bytes.", have, g.weightBytes)
	}
	return ""
}

// incomplete says what a folder lacks; "" when it has all that an engine needs.
func (f folder) incomplete() string {
	if f.away {
		return fmt.Sprintf("The folder with its files is not there: %s. Connect the drive or put the folder back, or delete the model and import it from where it is now.", f.dir)
	}
	if _, ok := f.size("openvino_model.xml"); !ok {
		for _, other := range f.files {
			switch {
			case filepath.Ext(other.name) == ".gguf":
				return "It is a GGUF file. Signalbox runs OpenVINO models: look for the same model with “-ov” at the end of its name."
			case filepath.Ext(other.name) == ".safetensors":
				return "It has weights for PyTorch. Signalbox runs OpenVINO models: look for the same model with “-ov” at the end of its name."
			case other.name == "openvino_language_model.xml":
				return "It is a model that sees images. Signalbox cannot run these yet."
			}
		}
	}
	for _, name := range []string{"openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml", "openvino_tokenizer.bin"} {
		size, ok := f.size(name)
		switch {
		case !ok:
			return fmt.Sprintf("The file %s is missing.", name)
		case size == 0:
			return fmt.Sprintf("The file %s is empty.", name)
		}
	}
	return ""
}

// configure takes over what the model's own description says.
func (m *Model) configure(f folder) {
	var c config
	decodeFile(filepath.Join(f.dir, "config.json"), &c)
	if len(c.Architectures) > 0 {
		m.Architecture = c.Architectures[0]
	}
	if m.Family == "" {
		m.Family = c.ModelType
	}
	if c.Text != nil {
		c = *c.Text
	}
	m.ContextLength = max(0, c.MaxPositions, c.Positions)
	m.EmbeddingLength, m.VocabSize = max(0, c.HiddenSize), max(0, c.VocabSize)
	m.CacheBytes = c.cacheBytes()
	var sentences struct {
		MaxLength int `json:"max_seq_length"`
	}
	decodeFile(filepath.Join(f.dir, "sentence_bert_config.json"), &sentences)
	if sentences.MaxLength > 0 && (m.ContextLength == 0 || sentences.MaxLength < m.ContextLength) {
		m.ContextLength = sentences.MaxLength
	}
	m.Template = f.template()
	if text, err := readFile(filepath.Join(f.dir, "generation_config.json"), 1<<20); err == nil {
		m.Parameters = parameters(text)
	}
}

// measure takes over what the graph shows. Of its size the makers' own count wins: parts that are not needed to run the
// model are left out of the graph.
func (m *Model) measure(g graph) {
	if m.Kind == "" {
		m.Kind = KindEmbedding
		if g.generates() {
			m.Kind = KindChat
		}
	}
	m.Capabilities = []string{"completion"}
	if m.Kind == KindEmbedding {
		m.Capabilities = []string{"embedding"}
		m.Template = ""
	} else if m.Template == "" {
		m.Template = tokenizerTemplate(m.Dir)
	}
	if m.ParameterCount <= 0 {
		m.ParameterCount = g.parameters()
	}
	m.ParameterSize = shortCount(m.ParameterCount)
	if q := g.quantization(); q != "" {
		m.Quantization = q
	}
	m.NPU = g.fitness(m.Kind)
}

// abilities says in Ollama's words what a model can do that writes text. Clients hide what is not in the list.
func abilities(style toolcall.Style, f folder) []string {
	list := append([]string{"completion"}, style.Capabilities()...)
	if text, err := readFile(filepath.Join(f.dir, "tokenizer_config.json"), 64<<20); err == nil && toolcall.Inserts(string(text)) {
		list = append(list, "insert")
	}
	return list
}

// shortCount writes 134515008 as "134.5M".
func shortCount(n int64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if float64(n) >= unit.size {
			return fmt.Sprintf("%.1f%s", float64(n)/unit.size, unit.name)
		}
	}
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// template is the chat template, from the newest of the places where makers put it.
func (f folder) template() string {
	if text, err := readFile(filepath.Join(f.dir, "chat_template.jinja"), 1<<20); err == nil {
		return string(text)
	}
	var tokenizer struct {
		Template json.RawMessage `json:"chat_template"`
	}
	decodeFile(filepath.Join(f.dir, "tokenizer_config.json"), &tokenizer)
	var text string
	if json.Unmarshal(tokenizer.Template, &text) == nil {
		return text
	}
	var named []struct{ Name, Template string }
	json.Unmarshal(tokenizer.Template, &named)
	for _, t := range named {
		if t.Name == "default" {
			return t.Template
		}
	}
	return ""
}

// license is the license's text, or its short name.
func (f folder) license() string {
	for _, file := range f.files {
		base, _, _ := strings.Cut(strings.ToUpper(file.name), ".")
		if base == "LICENSE" || base == "LICENCE" {
			if text, err := readFile(filepath.Join(f.dir, file.name), 256<<10); err == nil {
				return strings.ToValidUTF8(string(text), "\ufffd")
			}
		}
	}
	return f.manifest.License
}

// ollamaNames are the defaults that mean something here, with their names on Ollama's side.
var ollamaNames = map[string]string{
	"temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "typical_p": "typical_p",
	"repetition_penalty": "repeat_penalty",
}

// parameters reads the known numbers of a generation_config.json, in its order.
func parameters(text []byte) []Parameter {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var list []Parameter
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return list
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return list
		}
		name, known := ollamaNames[key.(string)]
		var number float64
		if !known || json.Unmarshal(value, &number) != nil || bytes.Equal(value, []byte("null")) {
			continue
		}
		list = slices.DeleteFunc(list, func(p Parameter) bool { return p.Name == name })
		list = append(list, Parameter{Name: name, Value: value})
	}
	return list
}
