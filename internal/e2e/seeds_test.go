//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/hub/hubtest"
	"signalbox/backend/server/wiretest"
	"signalbox/internal/testenv"
)

// What of the seed checklist needs a model of its own, or a hub, and so is not in the table of wiretest.

// rendered is a prompt as the starter model's own template makes it.
func rendered(prompt string) string {
	return "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" +
		"<|im_start|>user\n" + prompt + "<|im_end|>\n<|im_start|>assistant\n"
}

// wire is what the prompt of a request came to, and what was answered.
type wire struct {
	prompt int
	text   string
}

func (s *Server) chatted(model, prompt string) wire {
	s.t.Helper()
	body := chat(prompt, map[string]any{"num_predict": 12})
	body["model"] = model
	resp := s.Open(context.Background(), "/api/chat", body)
	defer resp.Body.Close()
	return s.read(stream(s.t, resp.Body))
}

func (s *Server) read(lines []line) wire {
	s.t.Helper()
	last := lines[len(lines)-1]
	require.NotNil(s.t, last.Record, last.Error)
	return wire{last.Record.Prompt, text(lines)}
}

// raw generates from a prompt as it is.
func (s *Server) raw(model, prompt string) wire {
	s.t.Helper()
	resp, body := s.Post("/api/generate", map[string]any{
		"model": model, "prompt": prompt, "raw": true, "stream": false, "options": map[string]any{"temperature": 0, "num_predict": 12},
	})
	require.Equal(s.t, 200, resp.StatusCode, body)
	var answer struct {
		Response string
		Record   struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"llmeu"`
	}
	require.NoError(s.t, json.Unmarshal([]byte(body), &answer))
	return wire{answer.Record.Prompt, answer.Response}
}

// TestS07S21S22ChatsGoThroughTheModelsTemplateElseByRole asks the same of a model with its template, of the same model without one,
// and of both with the prompt written out by hand.
func TestS07S21S22ChatsGoThroughTheModelsTemplateElseByRole(t *testing.T) {
	const bare = "bare:135m"
	home := newHome(t)
	withoutTemplate(t, filepath.Join(home, "models", "bare"), bare)
	s := Start(t, []string{"SIGNALBOX_HOME=" + home}, exact...)

	const sum = "2 + 2 is what?" // a digit begins a token of its own, and so does a person's text in a prompt
	with, without := s.chatted(model, sum), s.chatted(bare, sum)
	assert.Equal(t, s.raw(model, rendered(sum)), with, "S21: the model's own template")
	assert.Equal(t, s.raw(bare, "user: "+sum+"\nassistant:"), without, "S22: roles as prefixes, where there is no template")
	assert.NotEqual(t, with.prompt, without.prompt)

	for _, name := range []string{model, bare} { // S7: the transport is the same
		body := chat(sum, nil)
		body["model"], body["stream"], body["max_tokens"] = name, true, 8
		resp, text := s.Post("/v1/chat/completions", body)
		assert.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"), name)
		assert.True(t, strings.HasPrefix(text, "data: {"), name)
		assert.True(t, strings.HasSuffix(text, "data: [DONE]\n\n"), name)
	}
}

// withoutTemplate makes a model of the starter model's files, as one has it that was never meant to chat.
func withoutTemplate(t *testing.T, dir, name string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	from := testenv.ChatModel(t)
	files, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(from, f.Name()))
		require.NoError(t, err)
		switch f.Name() {
		case "chat_template.jinja":
			continue
		case "signalbox.json":
			content = []byte(strings.Replace(string(content), model, name, 1))
		case "openvino_tokenizer.xml", "openvino_detokenizer.xml":
			content = regexp.MustCompile(`<chat_template value="[^"]*" */>`).ReplaceAll(content, nil)
			require.NotContains(t, string(content), "chat_template")
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name()), content, 0o600))
	}
}

func TestS29TheFakeEngineSaysWhatItIs(t *testing.T) {
	s := Start(t, nil, "--engine", "fake") // that its frames are the same is the table's to say
	resp := s.Open(context.Background(), "/api/chat", chat("hello", nil))
	defer resp.Body.Close()
	assert.Equal(t, "mock", resp.Header.Get("X-NPU-Proxy-Device"))
	assert.Equal(t, "mock", resp.Header.Get("X-NPU-Proxy-Routed-Device"))
	lines := stream(t, resp.Body)
	require.NotNil(t, lines[len(lines)-1].Record)
	assert.Equal(t, "mock", lines[len(lines)-1].Record.Device)
	assert.Equal(t, "This is a canned answer from the fake engine. No model ran.", text(lines))
	assert.Greater(t, len(lines), 5, "in chunks")
}

func TestS45AnOllamaClientReadsPull(t *testing.T) {
	h := hubtest.New(t)
	h.AddFolder(t, "OpenVINO/Qwen3-8B-int4-cw-ov", testenv.EmbedModel(t))
	s := Start(t, []string{"HF_ENDPOINT=" + h.URL}, "--engine", "fake")
	resp := s.Open(context.Background(), "/api/pull", map[string]any{"model": "qwen3"}) // that is where the table of well-known names leads
	defer resp.Body.Close()
	assert.Equal(t, "application/x-ndjson", resp.Header.Get("Content-Type"))
	wiretest.Pull(t, resp.Body)
}
