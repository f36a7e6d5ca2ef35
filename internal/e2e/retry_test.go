//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
)

// requests are one request of each kind, with what its answer must hold.
var requests = map[string]string{
	"/api/chat":            `{"model":%q,"messages":[{"role":"user","content":"hi"}],"stream":false}`,
	"/api/embed":           `{"model":%q,"input":"hi"}`,
	"/v1/embeddings":       `{"model":%q,"input":"hi"}`,
	"/v1/chat/completions": `{"model":%q,"messages":[{"role":"user","content":"hi"}],"stream":true}`,
	"/v1/messages":         `{"model":%q,"max_tokens":99,"messages":[{"role":"user","content":"hi"}]}`,
}

// TestAProcessThatIsKilledWhileItLoadsCostsNoAnswer has one device only: nothing was said yet, so it is asked again.
func TestAProcessThatIsKilledWhileItLoadsCostsNoAnswer(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	i := 0
	for path, body := range requests {
		t.Run(path, func(t *testing.T) {
			from := "smollm2-135m"
			if strings.Contains(path, "embed") {
				from = "all-minilm"
			}
			slow := fmt.Sprintf("fake:slow-load-%dms", 3000+i) // the fake does as it is called
			i++
			dir := filepath.Join(filepath.Dir(Binary(t)), "models", from)
			s.Send("POST", "/desktop/import", map[string]any{"path": dir, "name": slow, "reference": true}, nil)

			type answer struct {
				*http.Response
				text string
			}
			got := make(chan answer, 1)
			go func() {
				resp, text := s.Post(path, json.RawMessage(fmt.Sprintf(body, slow)))
				got <- answer{resp, text}
			}()
			Eventually(t, patience, "it loads", func() bool {
				return s.state() == journal.StateLoading && s.stateOf(llm.Mock).State == "loading"
			})
			for _, pid := range children(s.Cmd.Process.Pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			a := <-got
			assert.Equal(t, 200, a.StatusCode, a.text)
			assert.NotContains(t, a.text, "error")
			entries := s.fresh()
			require.Len(t, entries, 1)
			assert.Equal(t, llm.OutcomeCompleted, entries[0].Outcome)
			assert.Contains(t, entries[0].RouteReason, "it was asked again there, since the engine process for mock ended by itself: signal: killed")
			s.forget()
		})
	}
}

// TestADeviceThatIsNotHereIsTheCallersMistake: libraries ask again for ever after a 503.
func TestADeviceThatIsNotHereIsTheCallersMistake(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	for path, body := range requests {
		name := model + "@gpu"
		if strings.Contains(path, "embed") {
			name = embedModel + "@gpu"
		}
		resp, text := s.Post(path, json.RawMessage(fmt.Sprintf(body, name)))
		assert.Equal(t, 400, resp.StatusCode, "%s: %s", path, text)
		assert.Empty(t, resp.Header.Get("Retry-After"), path)
		assert.Contains(t, text, "the request asks for the GPU, but there is none here: use mock", path)
		var whole struct {
			Type  string
			Error json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(text), &whole), text)
		switch {
		case strings.HasPrefix(path, "/api/"):
			assert.Equal(t, `"`, string(whole.Error[:1]), "%s: %s", path, text)
		case path == "/v1/messages":
			assert.Equal(t, "error", whole.Type)
			assert.Contains(t, string(whole.Error), `"type":"invalid_request_error"`)
		default:
			assert.Contains(t, string(whole.Error), `"type":"invalid_request_error"`)
			assert.Contains(t, string(whole.Error), `"param":"device"`)
		}
	}
}
