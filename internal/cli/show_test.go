package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/models"
	"signalbox/backend/ollama"
)

func TestShowTellsWhatIsKnownAndNothingElse(t *testing.T) {
	m := modelShown{
		License: "MIT License\n\nPermission is hereby granted", Parameters: "temperature                    0.6\nstop                           \"a b\"",
		Capabilities: []string{"completion", "tools"}, ToolFormat: "its own", Info: map[string]any{"qwen3.context_length": 1151},
		Digest: "0123456789abcdef", Source: "a/b", NPU: models.Fitness{OK: true, Reason: "it fits"},
		Devices: []ollama.OnDevice{
			{Label: "NPU", ContextLength: 1151, PromptLimit: 1024}, {Label: "CPU", ContextLength: 8192, TokensPerSecond: 12.4, Measured: true},
			{Label: "GPU", Problem: "does not run: out of memory"},
		},
	}
	var out bytes.Buffer
	require.NoError(t, table(&out, m.rows()))
	assert.Equal(t, `  Model
    context length    1151
    source            a/b
    digest            0123456789ab
    license           MIT License
    NPU               runs: it fits

  Devices
    NPU    up to 1151 tokens, at most 1024 in the prompt, not tried yet
    CPU    up to 8192 tokens, 12 tok/s
    GPU    does not run: out of memory

  Capabilities
    completion
    tools    its own

  Parameters
    temperature    0.6
    stop           "a b"
`, out.String())
	out.Reset()
	require.NoError(t, table(&out, modelShown{Damaged: "The file x is missing."}.rows()))
	assert.Equal(t, "  Model\n    damaged    The file x is missing.\n", out.String())
}
