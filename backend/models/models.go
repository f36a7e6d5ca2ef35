// Package models is the library on disk: it lists the models in a few folders and finds one by name. A model is a folder
// with an OpenVINO model (openvino_model.xml and .bin), its tokenizer (openvino_tokenizer.xml and .bin) and the files that
// came with them. Nothing a caller writes becomes a path: names are compared with what a scan found.
//
// A folder that has something of a model but cannot be used is listed with the reason in Damaged, so that people see what
// takes space; one that has nothing of a model is left out. Of several folders with one name the first counts: the user's
// own come before those that came with the program, and folders in the order of their names.
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
	Name            string      `json:"name"` // canonical: "smollm2:135m", "all-minilm"
	Dir             string      `json:"-"`
	Digest          string      `json:"digest"`         // 64 hex digits over names and contents of its files; empty where Damaged
	Kind            string      `json:"kind"`           // KindChat where nothing says otherwise
	Family          string      `json:"family"`         // "llama", "qwen3", "bert"
	ParameterSize   string      `json:"parameter_size"` // "134.5M"; empty: unknown
	ParameterCount  int64       `json:"parameter_count"`
	Quantization    string      `json:"quantization"` // "INT4_SYM"; empty: unknown
	Size            int64       `json:"size"`         // bytes of all its files
	ModifiedAt      time.Time   `json:"modified_at"`
	ContextLength   int         `json:"context_length"`   // tokens; 0: unknown
	EmbeddingLength int         `json:"embedding_length"` // 0: unknown
	VocabSize       int         `json:"vocab_size"`       // 0: unknown
	CacheBytes      int64       `json:"cache_bytes"`      // that a token takes in the KV cache, in 16 bits a number; 0: unknown
	Template        string      `json:"template"`         // chat template, in Jinja; empty: none
	Parameters      []Parameter `json:"parameters"`       // the maker's defaults, by Ollama's names
	Capabilities    []string    `json:"capabilities"`     // Ollama's words: "completion", "tools", "thinking", "insert", or "embedding"
	ToolFormat      string      `json:"tool_format"`      // how it calls tools, for people: "generic format held by a grammar"; empty: it writes no text
	OwnTools        bool        `json:"own_tools"`        // its template renders tools
	Architecture    string      `json:"architecture"`     // "LlamaForCausalLM"
	NPU             Fitness     `json:"npu"`
	License         string      `json:"license"`            // its text, or its short name where there is no text
	Source          string      `json:"source"`             // where it came from, such as "OpenVINO/Qwen3-8B-int4-cw-ov"
	Damaged         string      `json:"damaged"`            // a sentence: why it cannot be used; empty: it can
	ReadOnly        bool        `json:"-"`                  // it came with the program
	Revision        string      `json:"revision,omitempty"` // the commit it was fetched at
	Imported        bool        `json:"-"`                  // its files are somebody's own folder, which is never changed

	// Of variants, which share the files of another model.
	Parent   string        `json:"-"` // its name; empty: it is no variant
	System   string        `json:"-"`
	Messages []llm.Message `json:"-"` // before each conversation
	Override string        `json:"-"` // the chat template in place of its files' own; empty: none

	shared llm.ModelRef // what a variant is to the engine
}

// Parameter is one default from generation_config.json, in the file's order.
type Parameter struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// Fitness tells whether NPUs can run a model.
type Fitness struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason"` // a clause: why not, or why it fits
}

// Ref is what an engine process needs of it.
func (m Model) Ref() llm.ModelRef {
	if m.shared.Name != "" {
		return m.shared // in memory once, however many variants there are
	}
	return llm.ModelRef{Name: m.Name, Dir: m.Dir, Digest: "sha256:" + m.Digest}
}
