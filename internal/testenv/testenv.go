// Package testenv finds what `make test` has prepared: the native runtime and the starter models. A test that needs them
// fails when they are missing; it never skips.
package testenv

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Root is the repository's root: the folder of go.mod above the working directory.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Runtime is the folder that holds openvino/, openvino_tokenizers/, tvm_ffi/ and xgrammar/.
func Runtime(t testing.TB) string {
	return prepared(t, filepath.Join("build", "bin", "runtime", runtime.GOOS+"-"+runtime.GOARCH))
}

// ChatModel is the folder of the starter chat model, SmolLM2 135M.
func ChatModel(t testing.TB) string {
	return prepared(t, filepath.Join("build", "bin", "models", "smollm2-135m"))
}

// EmbedModel is the folder of the starter embedding model, all-MiniLM-L6-v2.
func EmbedModel(t testing.TB) string {
	return prepared(t, filepath.Join("build", "bin", "models", "all-minilm"))
}

func prepared(t testing.TB, rel string) string {
	t.Helper()
	dir := filepath.Join(Root(t), rel)
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("%s is missing: run `make setup` first", rel)
	}
	return dir
}
