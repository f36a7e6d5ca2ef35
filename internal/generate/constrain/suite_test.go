package constrain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/schema"
	"signalbox/internal/generate/constrain"
	"signalbox/internal/testenv"
)

var update = flag.Bool("update", false, "write the expectation files again")

// group is a schema of the official JSON Schema Test Suite with instances. (testdata/suite.json: its required tests for
// draft 2020-12, as the Python package jsonschema 4.26.0 carries them.)
type group struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

func suite(t testing.TB) map[string][]group {
	raw, err := os.ReadFile("testdata/suite.json")
	require.NoError(t, err)
	var all map[string][]group
	require.NoError(t, json.Unmarshal(raw, &all))
	return all
}

// TestSuite holds: a schema is refused by name, or no invalid instance gets through. How many valid ones do is written
// down in testdata/suite-expected.txt.
func TestSuite(t *testing.T) {
	c := newCompiler(t, constrain.Options{})
	all := suite(t)
	var lines []string
	sum := map[string]int{}
	for _, file := range slices.Sorted(maps.Keys(all)) {
		for _, g := range all[file] {
			lines = append(lines, file+"/"+g.Description+": "+try(t, c, g, sum))
		}
	}
	lines = append(lines, fmt.Sprintf("in all: %d schemas, %d refused; of the others' instances %d of %d valid ones get through, %d of %d invalid ones",
		sum["schemas"], sum["refused"], sum["through"], sum["valid"], sum["leaks"], sum["invalid"]))
	t.Log(lines[len(lines)-1])
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile("testdata/suite-expected.txt", []byte(text), 0o644))
	}
	expected, err := os.ReadFile("testdata/suite-expected.txt")
	require.NoError(t, err)
	assert.Equal(t, string(expected), text)
	inReadme(t, sum)
}

// figure is where the README says what TestSuite counts.
var figure = regexp.MustCompile(`of \d+ schemas \d+ are refused([^;]*); of the others' instances \d+ of \d+ valid ones can be written, and \d+ of(\s+)\d+ invalid`)

func inReadme(t *testing.T, sum map[string]int) {
	file := filepath.Join(testenv.Root(t), "README.md")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Regexp(t, figure, string(raw), "the README gives the figure")
	right := figure.ReplaceAllString(string(raw), fmt.Sprintf("of %d schemas %d are refused$1; of the others' instances %d of %d valid ones can be written, and %d of${2}%d invalid",
		sum["schemas"], sum["refused"], sum["through"], sum["valid"], sum["leaks"], sum["invalid"]))
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(right), 0o644))
	}
	assert.True(t, *update || right == string(raw), "the README's figure is not what was measured: run this test with -update")
}

func try(t *testing.T, c *constrain.Compiler, g group, sum map[string]int) string {
	sum["schemas"]++
	first, err := c.Compile(context.Background(), &llm.Constraint{Schema: g.Schema}, nil)
	if err != nil {
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), "%s: %v", g.Description, err)
		sum["refused"]++
		return "refused: " + err.Error()
	}
	first.Close()
	through, valid := 0, 0
	for _, test := range g.Tests {
		var text bytes.Buffer
		require.NoError(t, json.Compact(&text, test.Data))
		m := compile(t, c, &llm.Constraint{Schema: g.Schema})
		ok := accepts(t, m, text.String())
		if test.Valid {
			valid++
			if ok {
				through++
			}
			continue
		}
		sum["invalid"]++
		if !assert.False(t, ok, "%s: %s lets %s through", g.Description, g.Schema, text.String()) {
			sum["leaks"]++
		}
	}
	sum["valid"] += valid
	sum["through"] += through
	return fmt.Sprintf("%d of %d valid instances", through, valid)
}

// TestValidateAgreesWithTheSuite leaves out schemas that need other documents, or a dialect of their own.
func TestValidateAgreesWithTheSuite(t *testing.T) {
	tried := 0
	all := suite(t)
	delete(all, "vocabulary")
	for file, groups := range all {
		for _, g := range groups {
			for _, test := range g.Tests {
				err := schema.Validate(g.Schema, string(test.Data))
				if err != nil && strings.Contains(err.Error(), "other documents") {
					continue
				}
				tried++
				assert.Equal(t, test.Valid, err == nil, "%s/%s/%s: %v", file, g.Description, test.Description, err)
			}
		}
	}
	assert.Greater(t, tried, 1100)
}
