package e2e

import (
	"cmp"
	"os/exec"
	"slices"
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
	require.NotEmpty(t, out, "go list %v finds no package", patterns)
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
	require.Contains(t, string(out), "signalbox", "go list %v finds no package of ours", patterns)
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

// allowed holds the map of README.md: what each package of the program may import of the others. A new package gets a row.
var allowed = map[string][]string{
	".":                              {"internal/cli"},
	"app":                            {"app/internal/gtk", "app/tray", "build"},
	"app/internal/demo":              {"app", "app/tray", "internal/dirs", "internal/instance"},
	"app/internal/gtk":               {},
	"app/tray":                       {"build"},
	"backend":                        {"backend/cards", "backend/dispatch", "backend/downloads", "backend/engine", "backend/hub", "backend/journal", "backend/llm", "backend/machine", "backend/models", "backend/ollama", "backend/router", "backend/server", "internal/brief", "internal/compiled", "internal/config", "internal/dirs", "internal/logs", "internal/runtime", "internal/version"},
	"backend/anthropic":              {"backend/llm", "backend/models", "backend/wire"},
	"backend/cards":                  {"backend/llm", "internal/disk"},
	"backend/connect":                {},
	"backend/dispatch":               {"backend/engine", "backend/journal", "backend/llm", "backend/models", "backend/router", "backend/schema", "backend/toolcall"},
	"backend/downloads":              {"backend/hub", "backend/llm", "backend/machine", "backend/models", "internal/disk"},
	"backend/engine":                 {"backend/llm", "internal/pipe"},
	"backend/hub":                    {"backend/llm", "internal/disk"},
	"backend/hub/hubtest":            {},
	"backend/journal":                {"backend/llm"},
	"backend/llm":                    {},
	"backend/llm/llmtest":            {"backend/llm", "backend/toolcall", "internal/pipe"},
	"backend/machine":                {},
	"backend/metrics":                {"backend/llm"},
	"backend/models":                 {"backend/llm", "backend/toolcall", "internal/brief", "internal/disk"},
	"backend/ollama":                 {"backend/llm", "backend/models", "backend/wire", "internal/brief"},
	"backend/openai":                 {"backend/llm", "backend/models", "backend/wire"},
	"backend/router":                 {"backend/llm"},
	"backend/schema":                 {"backend/llm"},
	"backend/server":                 {"backend/anthropic", "backend/cards", "backend/connect", "backend/dispatch", "backend/downloads", "backend/hub", "backend/journal", "backend/llm", "backend/metrics", "backend/models", "backend/ollama", "backend/openai", "backend/router", "backend/wire", "internal/brief", "internal/config", "internal/disk", "internal/version"},
	"backend/server/wiretest":        {},
	"backend/toolcall":               {"backend/llm"},
	"backend/wire":                   {"backend/llm", "internal/brief"},
	"internal/brief":                 {},
	"internal/cli":                   {"app", "app/tray", "backend", "backend/cards", "backend/downloads", "backend/llm", "backend/llm/llmtest", "backend/models", "backend/ollama", "backend/server", "internal/compiled", "internal/config", "internal/dirs", "internal/disk", "internal/doctor", "internal/generate", "internal/instance", "internal/logs", "internal/pipe", "internal/runtime", "internal/version"},
	"internal/config":                {"internal/brief", "internal/disk"},
	"internal/dirs":                  {},
	"internal/disk":                  {},
	"internal/doctor":                {},
	"internal/e2e":                   {"internal/instance", "internal/testenv"},
	"internal/compiled":              {"internal/disk"},
	"internal/generate":              {"backend/llm", "backend/toolcall", "internal/compiled", "internal/disk", "internal/generate/constrain", "internal/generate/ir", "internal/generate/prompt", "internal/generate/sample", "internal/generate/stop", "internal/openvino"},
	"internal/generate/constrain":    {"backend/llm", "backend/schema", "internal/xgrammar"},
	"internal/generate/ir":           {},
	"internal/generate/prompt":       {"backend/llm", "internal/generate/prompt/jinja"},
	"internal/generate/prompt/jinja": {},
	"internal/generate/sample":       {"backend/llm"},
	"internal/generate/stop":         {},
	"internal/instance":              {"internal/disk"},
	"internal/logs":                  {},
	"internal/native":                {},
	"internal/openvino":              {"internal/native"},
	"internal/pipe":                  {"backend/llm", "internal/version"},
	"internal/runtime":               {"backend/llm", "internal/disk"},
	"internal/testenv":               {},
	"internal/version":               {},
	"internal/xgrammar":              {"internal/native"},
}

// wrongImports says what is not as rows have it: imports that no row allows, packages without a row, and rows without a package.
func wrongImports(all, rows map[string][]string) (wrong []string) {
	const own = "signalbox"
	name := func(pkg string) (string, bool) {
		inside, ours := strings.CutPrefix(pkg+"/", own+"/")
		return cmp.Or(strings.TrimSuffix(inside, "/"), "."), ours
	}
	there := map[string]bool{}
	for pkg, deps := range all {
		from, _ := name(pkg)
		there[from] = true
		may, ok := rows[from]
		if !ok {
			wrong = append(wrong, from+" has no row")
			continue
		}
		for _, dep := range deps {
			if to, ours := name(dep); ours && !slices.Contains(may, to) {
				wrong = append(wrong, from+" imports "+to)
			}
		}
	}
	for row := range rows {
		if !there[row] {
			wrong = append(wrong, "there is no package "+row)
		}
	}
	slices.Sort(wrong)
	return wrong
}

func TestImportsPointOneWay(t *testing.T) {
	for _, tags := range []string{"", "desktop,production"} {
		assert.Empty(t, wrongImports(imports(t, tags, ".", "./app/...", "./backend/...", "./internal/..."), allowed), "with tags %q", tags)
	}
}

func TestWrongImportsAreFound(t *testing.T) {
	all := map[string][]string{
		"signalbox":             {"signalbox/internal/cli", "fmt"},
		"signalbox/backend/llm": {"signalbox/backend/server", "signalboxes/other"},
		"signalbox/backend/new": nil,
	}
	rows := map[string][]string{".": {"internal/cli"}, "backend/llm": {}, "backend/gone": {}}
	assert.Equal(t, []string{
		"backend/llm imports backend/server", "backend/new has no row", "there is no package backend/gone",
	}, wrongImports(all, rows))
	assert.NotEmpty(t, wrongImports(nil, rows), "nothing found is not nothing wrong")
}
