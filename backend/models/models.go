// Package models is the library on disk: it lists the models in a few folders and finds one by name. A model is a folder
// with an OpenVINO model, its tokenizer and the files that came with them. Nothing a caller writes becomes a path: names
// are compared with what a scan found.
package models

import (
	"encoding/json"
	"time"

	"signalbox/backend/llm"
)

// Kinds of models.
const (
	KindChat      = "chat"
	KindEmbedding = "embedding"
)

// Model is one model on disk.
type Model struct {
	Name            string // canonical: "smollm2:135m", "all-minilm:latest"
	Dir             string
	Digest          string // 64 hex digits over names and contents of its files
	Kind            string
	Family          string // "llama", "qwen3", "bert"
	ParameterSize   string // "134.5M"
	ParameterCount  int64
	Quantization    string // "INT4_SYM"
	Size            int64
	ModifiedAt      time.Time
	ContextLength   int // 0: unknown
	EmbeddingLength int // 0: unknown
	VocabSize       int
	Template        string // chat template; empty: none
	Parameters      []Parameter
	Capabilities    []string // Ollama's words: "completion", "embedding"
	Architecture    string   // "LlamaForCausalLM"
	NPU             Fitness
	License         string
	Source          string // where it came from
	Damaged         string // a sentence: why it cannot be used; empty: it can
	ReadOnly        bool   // it came with the program and cannot be deleted
}

// Parameter is one default of generation_config.json, in the file's order.
type Parameter struct {
	Name  string
	Value json.RawMessage
}

// Fitness tells whether NPUs can run a model.
type Fitness struct {
	OK     bool
	Reason string // a clause: why not, or why it fits
}

// Ref is what an engine process needs of it.
func (m Model) Ref() llm.ModelRef {
	return llm.ModelRef{Name: m.Name, Dir: m.Dir, Digest: "sha256:" + m.Digest}
}

// Library is a set of folders that hold models.
type Library struct{ dirs []string }

// Open makes a library over the folders; the first is the user's own, the rest are read-only. It reads nothing yet.
func Open(dirs ...string) *Library { return &Library{dirs: dirs} }

// List returns the models, newest first.
func (l *Library) List() ([]Model, error) { return nil, nil }

// Find returns the model of that name: an *llm.Error with CodeModelNotFound or CodeInvalid otherwise.
func (l *Library) Find(name string) (Model, error) {
	return Model{}, llm.Errorf(llm.CodeModelNotFound, "model '%s' not found", name)
}
