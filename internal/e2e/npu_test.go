//go:build linux

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/server"
)

// emulated is how the NPU is called where the CPU stands in for it.
const emulated = "NPU (emulated on CPU)"

// devices waits until the server has looked for its devices.
func (s *Server) devices() (list []server.DeviceStatus) {
	s.t.Helper()
	Eventually(s.t, patience, "the devices are listed", func() bool {
		var status server.Status
		s.Get("/ui/status", &status)
		list = status.Devices
		return len(list) > 0
	})
	return list
}

func labels(list []server.DeviceStatus) (labels []string) {
	for _, d := range list {
		labels = append(labels, d.Label)
	}
	return labels
}

// counted is a prompt that comes to exactly n tokens with the chat template around it.
func (s *Server) counted(n int) string {
	s.t.Helper()
	count := func(words int) int {
		lines := s.ask(strings.Repeat("word ", words), map[string]any{"device": "cpu", "num_predict": 1})
		require.NotNil(s.t, lines[len(lines)-1].Record)
		return lines[len(lines)-1].Record.Prompt
	}
	words := n - (count(10) - 10)
	require.Equal(s.t, n, count(words))
	return strings.Repeat("word ", words)
}

// TestNPU drives the NPU plugin's own pipeline through the whole program, the CPU standing in for the hardware: slow, but the real
// code.
func TestNPU(t *testing.T) {
	const limit = 256
	home := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "settings.json"),
		[]byte(`{"emulate_npu":true,"npu_prompt_limit":256,"npu_response_reserve":64}`), 0o600))
	s := Start(t, []string{"SIGNALBOX_HOME=" + home})
	assert.Contains(t, labels(s.devices()), emulated)

	pinned := s.ask(france, map[string]any{"device": "npu", "num_predict": 8})
	last := pinned[len(pinned)-1]
	require.NotNil(t, last.Record, last.Error)
	assert.Equal(t, emulated, last.Record.Device)
	assert.Equal(t, "pinned", last.Record.Rule)
	assert.Contains(t, text(pinned), "Paris")

	t.Run("the longest prompt that fits stays there", func(t *testing.T) {
		resp := s.Open(context.Background(), "/api/chat", chat(s.counted(limit), map[string]any{"num_predict": 1}))
		defer resp.Body.Close()
		assert.Equal(t, emulated, resp.Header.Get("X-NPU-Proxy-Execution-Device"))
		assert.Equal(t, "256", resp.Header.Get("X-NPU-Proxy-Token-Count"))
		lines := stream(t, resp.Body)
		assert.True(t, lines[len(lines)-1].Done, lines[len(lines)-1].Error)
		assert.Equal(t, emulated, lines[len(lines)-1].Record.Device)
	})
	t.Run("one token more goes to the CPU, and says why", func(t *testing.T) {
		prompt := s.counted(limit + 1)
		resp := s.Open(context.Background(), "/api/chat", chat(prompt, map[string]any{"num_predict": 1}))
		defer resp.Body.Close()
		assert.Equal(t, llm.CPU, resp.Header.Get("X-NPU-Proxy-Execution-Device"))
		assert.Equal(t, "prompt_limit", resp.Header.Get("X-NPU-Proxy-Route-Reason"))
		lines := stream(t, resp.Body)
		last := lines[len(lines)-1]
		require.True(t, last.Done, last.Error)
		assert.Equal(t, llm.CPU, last.Record.Device)
		assert.Regexp(t, `^257 prompt tokens are more than the .*NPU.*'s 256; `, last.Record.Reason)

		refused, body := s.Post("/api/chat", chat(prompt, map[string]any{"device": "npu"}))
		assert.Equal(t, 400, refused.StatusCode)
		assert.Contains(t, body, "prompt is too long: 257 tokens > 256 maximum")
	})
	t.Run("without the setting nothing stands in", func(t *testing.T) {
		s.Send("PUT", "/ui/settings", map[string]any{"emulate_npu": false}, nil)
		assert.NotContains(t, labels(s.devices()), emulated)
		refused, body := s.Post("/api/chat", chat(france, map[string]any{"device": "npu"}))
		if hasNPU(s.devices()) {
			return // this machine has a real one
		}
		assert.Equal(t, 400, refused.StatusCode)
		assert.Contains(t, body, "the request asks for the NPU, but there is none here: use ")
	})
}

func hasNPU(list []server.DeviceStatus) bool {
	for _, d := range list {
		if d.Class == llm.NPU {
			return true
		}
	}
	return false
}
