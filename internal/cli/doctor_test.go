package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/models"
	"signalbox/backend/server"
	"signalbox/internal/generate"
)

func TestDoctorTellsWhatIsCompiledAndWhatAgain(t *testing.T) {
	assert.Equal(t, "Nothing is kept of compiled models yet: the first load of each takes longer.", compiledModels(server.Compiled{}).Says)
	f := compiledModels(server.Compiled{Bytes: 1.5e9, Limit: 20e9, Models: []server.CompiledModel{
		{Model: "smollm2:135m", Label: "CPU"},
		{Model: "qwen3:4b", Label: "NPU", Again: "its driver changed (1.2, now 1.3)"},
	}})
	assert.True(t, f.OK, "it costs time, nothing needs doing")
	assert.Equal(t, "1.5 GB are kept of compiled models, 20 GB at most. qwen3:4b is compiled again for NPU at its next load: its driver changed (1.2, now 1.3).", f.Says)
}

func TestDoctorTellsWhichModelsRunWithoutPagesAndHowToTryAgain(t *testing.T) {
	assert.Empty(t, notPaged(nil))
	f := notPaged([]generate.NotPaged{{Model: "qwen3:4b", File: "/data/compiled/paging-1"}})
	require.Len(t, f, 1)
	assert.True(t, f[0].OK, "it runs")
	assert.Contains(t, f[0].Says, "qwen3:4b is loaded without paged attention")
	assert.Contains(t, f[0].Do, "/data/compiled/paging-1")
}

func TestDoctorSaysThatTheEngineUsesOnlyWhatIsThere(t *testing.T) {
	f := inEngine(server.DeviceStatus{Class: "CPU", Label: "CPU", Name: "Core Ultra 7", State: "idle"})
	assert.True(t, f.OK)
	assert.Equal(t, "The engine uses CPU: Core Ultra 7.", f.Says)
	f = inEngine(server.DeviceStatus{Class: "NPU", Label: "NPU", Name: "AI Boost", State: "unavailable", Note: "It was here on 3 May 2026 and is not found now."})
	assert.False(t, f.OK)
	assert.Equal(t, "The engine cannot use NPU: AI Boost. It was here on 3 May 2026 and is not found now.", f.Says)
}

func TestDoctorsHelpForADamagedModelIsACommandThatWorksForIt(t *testing.T) {
	assert.Equal(t, "signalbox verify --repair qwen3:8b", mend(models.Model{Name: "qwen3:8b", Source: "OpenVINO/Qwen3-8B-int4-cw-ov"}))
	assert.Equal(t, "signalbox rm mine", mend(models.Model{Name: "mine"}), "nobody knows where its files came from")
	assert.Contains(t, mend(models.Model{Name: "smollm2:135m", Source: "x/y", ReadOnly: true}), "install Signalbox again")
}

func TestDoctorSaysWhereTheSettingsAreAndWhetherThereAreAny(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	f := settingsFile(path, "")
	assert.True(t, f.OK)
	assert.Equal(t, "All settings have their defaults: there is no "+path+" yet.", f.Says)
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	assert.Equal(t, path+" is in order.", settingsFile(path, "").Says)
	f = settingsFile(path, "it is damaged")
	assert.False(t, f.OK)
	assert.Equal(t, "it is damaged", f.Says)
}
