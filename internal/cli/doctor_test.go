package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
