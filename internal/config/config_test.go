package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSettingsSurviveSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	s := Default()
	s.Port, s.KeepAlive, s.Preference = 12000, Duration(time.Hour), []string{"CPU"}
	require.NoError(t, s.Save(path))
	got, warning := Load(path)
	assert.Equal(t, s, got)
	assert.Empty(t, warning)
}

func TestMissingFileIsANewInstallation(t *testing.T) {
	got, warning := Load(filepath.Join(t.TempDir(), "none.json"))
	assert.Equal(t, Default(), got)
	assert.Empty(t, warning)
}

func TestDamagedFileFallsBackToTheCopyAndSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	first := Default()
	first.Port = 12001
	require.NoError(t, first.Save(path))
	second := first
	second.Port = 12002
	require.NoError(t, second.Save(path))
	require.NoError(t, os.Truncate(path, 0))

	got, warning := Load(path)
	assert.Equal(t, 12001, got.Port)
	assert.Contains(t, warning, "damaged")

	require.NoError(t, os.WriteFile(path+".bak", []byte("{"), 0o600))
	got, warning = Load(path)
	assert.Equal(t, Default(), got)
	assert.Contains(t, warning, "defaults")
}

func TestASettingThatCannotBeUsedCostsNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	text := `{"port": 12001, "npu_prompt_limit": 1, "never_fall_back": true, "theme": 3, "prot": 1, "refuse_client_downloads": true}`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	got, warning := Load(path)
	want := Default()
	want.Port, want.NeverFallBack, want.NoClientPull = 12001, true, true
	assert.Equal(t, want, got)
	for _, part := range []string{path, "npu_prompt_limit must be", "theme has a value of another kind", `there is no setting "prot"`} {
		assert.Contains(t, warning, part)
	}
	assert.NotContains(t, warning, "damaged")
	assert.NotContains(t, warning, "\n")

	require.NoError(t, want.Save(path))
	assert.NoFileExists(t, path+".bak", "a copy is of a good file only")
	_, warning = Load(path)
	assert.Empty(t, warning)
}

func TestBadValuesAreNamed(t *testing.T) {
	s := Default()
	s.Port, s.Preference = 70000, []string{"TPU"}
	err := s.Save(filepath.Join(t.TempDir(), "settings.json"))
	assert.ErrorContains(t, err, "port must be from 0 to 65535, not 70000")
	assert.ErrorContains(t, err, `preference has "TPU"`)
}

func TestListenTakesOnlyThePort(t *testing.T) {
	for _, row := range []struct {
		name, value string
		port        int
		note        string
	}{
		{"SIGNALBOX_HOST", "127.0.0.1:0", 0, ""},
		{"OLLAMA_HOST", "0.0.0.0", 11434, "this computer only"},
		{"OLLAMA_HOST", "0.0.0.0:0", 0, "this computer only"},
		{"OLLAMA_HOST", ":8080", 8080, ""},
		{"OLLAMA_HOST", "8081", 8081, ""},
		{"OLLAMA_HOST", "http://example.com:9000/x", 9000, "this computer only"},
		{"OLLAMA_HOST", "https://localhost", 443, ""},
		{"OLLAMA_HOST", "[::1]:9001", 9001, ""},
		{"OLLAMA_HOST", "localhost:port", 11434, "no usable port"},
	} {
		env := map[string]string{row.name: row.value}
		got := Default().Listen(func(k string) string { return env[k] })
		assert.Equal(t, row.port, got.Port, row.value)
		if row.note == "" {
			assert.Empty(t, got.Note, row.value)
		} else {
			assert.Contains(t, got.Note, row.note, row.value)
		}
	}
}

func TestWhatCannotWorkIsRefusedByName(t *testing.T) {
	for _, row := range []struct {
		change func(*Settings)
		want   string
	}{
		{func(s *Settings) { s.HubEndpoint = "javascript:alert(1)" }, `hub_endpoint: "javascript:alert(1)" is no address of a hub`},
		{func(s *Settings) { s.HubEndpoint = "huggingface.co" }, "hub_endpoint: "},
		{func(s *Settings) { s.HubEndpoint = "https://user:secret@hub.example" }, "hub_endpoint: "},
		{func(s *Settings) { s.Origins = []string{"evil"} }, `origins: "evil" is no origin: write scheme://host`},
		{func(s *Settings) { s.Origins = []string{"https://app.example/"} }, "origins: "},
		{func(s *Settings) { s.Origins = []string{"null"} }, "origins: "},
		{func(s *Settings) { s.Origins = []string{""} }, "origins: "},
		{func(s *Settings) { s.Origins = []string{"https://ok.example", "https://*.*"} }, `origins: "https://*.*"`},
		{func(s *Settings) { s.KeepAlive = Duration(11 * 365 * 24 * time.Hour) }, "keep_alive must be at most 87600h0m0s"},
	} {
		s := Default()
		row.change(&s)
		assert.ErrorContains(t, s.Check(), row.want)
	}
	s := Default()
	s.HubEndpoint, s.KeepAlive = "http://127.0.0.1:8080/mirror", -1
	s.Origins = []string{
		"*", "https://app.example", "http://box:3000", "http://box:*", "https://*.example", "myapp://*", "file://", "http://[::1]:8080",
		"chrome-extension://abcdefghijklmnopabcdefghijklmnop", "app://obsidian.md",
	}
	assert.NoError(t, s.Check())
}

func TestNumbersThatNoDurationHoldsDoNotWrapAround(t *testing.T) {
	for text, want := range map[string]string{"1e300": "keep_alive must be at most", "-1e300": "keep_alive must be at most", "9e9": "keep_alive must be at most", "-1": "", "0": "", "300": ""} {
		s := Default()
		require.NoError(t, json.Unmarshal([]byte(`{"keep_alive":`+text+`}`), &s), text)
		if want == "" {
			assert.NoError(t, s.Check(), text)
		} else {
			assert.ErrorContains(t, s.Check(), want, text)
		}
	}
}

func TestFoldersAreTriedWhenTheyAreChosen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	was := Default()
	for path, want := range map[string]string{
		file:                        file + " is not a folder",
		filepath.Join(dir, "none"):  "there is no folder " + filepath.Join(dir, "none"),
		"models":                    `"models" must be the full path of a folder`,
		filepath.Join(file, "deep"): "",
	} {
		s := was
		s.ModelsDir = path
		assert.ErrorContains(t, s.CheckChange(was), "models_dir: "+want, path)
		assert.NoError(t, s.CheckChange(s), "it is in force: its disk may come back")
		s = was
		s.RuntimeDir = path
		assert.ErrorContains(t, s.CheckChange(was), "runtime_dir: "+want, path)
	}
	s := was
	s.ModelsDir, s.RuntimeDir = dir, dir
	assert.NoError(t, s.CheckChange(was))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "trying leaves nothing behind")
}

func TestAllFieldsAreAlwaysThere(t *testing.T) {
	text, err := json.Marshal(Default())
	require.NoError(t, err)
	for _, name := range []string{"origins", "runtime_dir", "models_dir", "hub_endpoint", "refuse_client_downloads"} {
		assert.Contains(t, string(text), `"`+name+`":`)
	}
	assert.NotContains(t, string(text), "null")
}
