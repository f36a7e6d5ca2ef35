package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/testenv"
)

// imports lists what packages import themselves, by package: one row each of `go list`.
func imports(t *testing.T, tags string, patterns ...string) map[string][]string {
	cmd := exec.Command("go", append([]string{"list", "-tags", tags, "-f", "{{.ImportPath}} {{join .Imports \" \"}}"}, patterns...)...)
	cmd.Dir = testenv.Root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	found := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		found[fields[0]] = fields[1:]
	}
	return found
}

// deps lists everything that packages pull in.
func deps(t *testing.T, tags string, patterns ...string) []string {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-tags", tags}, patterns...)...)
	cmd.Dir = testenv.Root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

func TestBackendNeverImportsWailsOrGTK(t *testing.T) {
	for _, dep := range deps(t, "desktop,production", "./backend/...") {
		assert.False(t, strings.Contains(dep, "wailsapp") || strings.Contains(dep, "fyne.io"), "backend pulls in %s", dep)
	}
}

func TestHeadlessProgramHasNoWails(t *testing.T) {
	for _, dep := range deps(t, "", ".") {
		assert.NotContains(t, dep, "wailsapp")
	}
}

func TestServerNeverImportsPurego(t *testing.T) {
	for _, dep := range deps(t, "", "./backend/...") {
		assert.NotContains(t, dep, "ebitengine/purego")
	}
}

func TestUnsafeLivesInTheBindingsOnly(t *testing.T) {
	for pkg, list := range imports(t, "desktop,production", "./...") {
		if pkg == "signalbox/internal/openvino" || pkg == "signalbox/internal/xgrammar" {
			continue
		}
		assert.NotContains(t, list, "unsafe", "%s imports unsafe", pkg)
	}
}

// TestImportsPointOneWay holds the map of README.md: each package may import only what stands after it.
func TestImportsPointOneWay(t *testing.T) {
	const own = "signalbox/"
	allowed := map[string][]string{
		"backend/llm":       {},
		"backend/wire":      {"backend/llm"},
		"backend/ollama":    {"backend/llm", "backend/models", "backend/wire", "internal/version"},
		"backend/openai":    {"backend/llm", "backend/models", "backend/wire", "internal/version"},
		"backend/router":    {"backend/llm"},
		"backend/journal":   {"backend/llm"},
		"backend/toolcall":  {"backend/llm"},
		"backend/models":    {"backend/llm", "backend/toolcall"},
		"backend/engine":    {"backend/llm", "internal/pipe"},
		"backend/dispatch":  {"backend/llm", "backend/engine", "backend/journal", "backend/models", "backend/router", "backend/toolcall"},
		"internal/pipe":     {"backend/llm", "internal/version"},
		"internal/openvino": {},
		"internal/runtime":  {"backend/llm"},
	}
	all := imports(t, "", "./backend/...", "./internal/...")
	for pkg, may := range allowed {
		for _, dep := range all[own+pkg] {
			if inside, ours := strings.CutPrefix(dep, own); ours {
				assert.Contains(t, may, inside, "%s imports %s", pkg, inside)
			}
		}
	}
}
