//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/hub/hubtest"
	"signalbox/internal/e2e"
	"signalbox/internal/testenv"
)

const fromHub = "OpenVINO/Qwen3-8B-int4-cw-ov" // "qwen3" in the table of well-known names; the starter model in truth

// TestAPulledModelAnswersAndAVariantOfItSaysWhatItWasToldTo pulls, kills the program in the middle, goes on, and asks what came.
func TestAPulledModelAnswersAndAVariantOfItSaysWhatItWasToldTo(t *testing.T) {
	h := hubtest.New(t)
	h.AddFolder(t, fromHub, testenv.ChatModel(t))
	h.Set(func(f *hubtest.Faults) { f.Pace = 2 * time.Millisecond })
	home := filepath.Join(t.TempDir(), "ž 漢 王 小明")
	env := []string{"SIGNALBOX_HOME=" + home, "HF_ENDPOINT=" + h.URL, "HTTPS_PROXY=http://127.0.0.1:9", "HTTP_PROXY=http://127.0.0.1:9", "HF_TOKEN=hf_secret"}

	s := e2e.Start(t, env)
	resp := s.Open(context.Background(), "/api/pull", map[string]any{"model": "qwen3"})
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"status":"pulling openvino_model.bin"`) {
	}
	require.NoError(t, s.Cmd.Process.Kill())
	<-s.Exited()
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()

	h.Set(func(f *hubtest.Faults) { f.Pace = 0 })
	s = e2e.Start(t, env)
	answer, text := s.Post("/api/pull", map[string]any{"model": "qwen3"})
	require.Equal(t, http.StatusOK, answer.StatusCode, text)
	frames := strings.Split(strings.TrimSpace(text), "\n")
	assert.Equal(t, `{"status":"pulling manifest"}`, frames[0])
	assert.Equal(t, `{"status":"success"}`, frames[len(frames)-1])
	for _, r := range h.Requests() {
		if r.Where == "store" {
			assert.Empty(t, r.Authorization, "the token went to the store")
		} else {
			assert.Equal(t, "Bearer hf_secret", r.Authorization)
		}
	}

	chat := func(model string, before ...any) string {
		_, text := s.Post("/api/chat", map[string]any{
			"model": model, "stream": false, "options": map[string]any{"temperature": 0, "num_predict": 8},
			"messages": append(before, map[string]any{"role": "user", "content": "Say hello."}),
		})
		require.Contains(t, text, `"done":true`)
		return text
	}
	const system = "You count: one two three four five six seven eight nine ten."
	_, text = s.Post("/api/create", map[string]any{"model": "other", "from": "qwen3", "system": system})
	require.Contains(t, text, `{"status":"success"}`)
	said := chat("qwen3", map[string]any{"role": "system", "content": system})
	assert.Equal(t, promptTokens(t, said), promptTokens(t, chat("other")), "the system text is in the prompt")
	assert.NotEqual(t, promptTokens(t, said), promptTokens(t, chat("qwen3")))
	_, text = s.Post("/api/chat", map[string]any{"model": "other", "keep_alive": 0})
	assert.Contains(t, text, `"done_reason":"unload"`)
}

func promptTokens(t *testing.T, answer string) (n int) {
	t.Helper()
	_, rest, found := strings.Cut(answer, `"prompt_eval_count":`)
	require.True(t, found, answer)
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}
