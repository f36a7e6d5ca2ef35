package connect_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"signalbox/backend/connect"
)

var update = flag.Bool("update", false, "rewrite golden files")

var target = connect.Target{URL: "http://127.0.0.1:4711", Model: "qwen3:4b", Context: 40960, Embed: "all-minilm"}

func TestSettingsAreThese(t *testing.T) {
	var b strings.Builder
	for _, c := range connect.Clients(target) {
		b.WriteString("## " + c.ID + ": " + c.Name + " (" + c.Kind + ", " + c.Speaks + ")\n" + c.Note + "\n")
		for _, s := range c.Steps {
			b.WriteString("# " + s.Title + " [" + s.File + "]\n" + s.Text + "\n")
		}
	}
	path := filepath.Join("testdata", "clients.txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), b.String())
}

func TestEveryClientNamesTheRealPortAndModel(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range connect.Clients(target) {
		assert.False(t, seen[c.ID], "%s is there twice", c.ID)
		seen[c.ID] = true
		all := ""
		for _, s := range c.Steps {
			all += s.Text
			switch s.Language {
			case "json":
				text := s.Text
				if !strings.HasPrefix(text, "{") {
					text = "{" + text + "}"
				}
				assert.True(t, json.Valid([]byte(text)), "%s: %s", c.ID, s.Text)
			case "yaml":
				var v map[string]any
				assert.NoError(t, yaml.Unmarshal([]byte(s.Text), &v), c.ID)
			}
		}
		assert.Contains(t, all, "127.0.0.1:4711", c.ID)
		if c.ID != "open-webui" {
			assert.Contains(t, all, "qwen3:4b", c.ID)
		}
	}
	for _, id := range []string{"continue", "cline", "opencode", "codex", "claude", "zed", "copilot", "aider", "CODEX"} {
		_, ok := connect.Find(target, id)
		assert.True(t, ok, id)
	}
	_, ok := connect.Find(target, "nobody")
	assert.False(t, ok)
	assert.NotEmpty(t, connect.Clients(connect.Target{URL: "http://127.0.0.1:1"}), "also without a model")
}
