package config

import (
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
