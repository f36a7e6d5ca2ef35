// Package wiretest holds a server to the seed checklist over plain HTTP. It knows nothing of how the server is made: the
// same table runs against a scripted dispatcher, the fake engine's processes and the real engine.
//
// Each subtest is named for the lines of the checklist it proves: S for the npu-proxy document, L for the LLM-EU one.
package wiretest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Options say what the server has.
type Options struct {
	Chat  string // a chat model
	Embed string // an embedding model; empty: those lines are left out
	// Prompt makes the model answer and end by itself, with more than two tokens. Empty: "Say hello."
	Prompt string
	// LongPrompt makes it go on until it is stopped. Empty: a request for a long story.
	LongPrompt string
	// FailPrompt makes the engine fail after a few tokens; empty: the engine has no faults on demand, and the lines about
	// failed streams are left out.
	FailPrompt string
	// TimeoutPrompt makes the engine run into a time limit after a few tokens; empty: as with FailPrompt.
	TimeoutPrompt string
	// UI is the base URL of the window's listener by address, and Token its bearer token: the trace of a request is read
	// there. Empty: the lines about traces are left out.
	UI, Token string
}

type suite struct {
	base string
	o    Options
}

// SeedChecklist runs every line of the seed checklist that a client can see on the routes of chat, generate and embeddings.
func SeedChecklist(t *testing.T, baseURL string, o Options) {
	if o.Prompt == "" {
		o.Prompt = "Say hello."
	}
	if o.LongPrompt == "" {
		o.LongPrompt = "Write a very long story about a railway signal box, in many chapters."
	}
	s := &suite{strings.TrimSuffix(baseURL, "/"), o}
	t.Run("S01_S02_S04_S08_S09_S10_S11_L02 OpenAI stream", s.openaiStream)
	t.Run("L01_L04_L05 OpenAI stream headers", s.openaiHeaders)
	t.Run("L06_L07_L08_L09_L10_L12_L15 OpenAI frames and the block on the finish frame", s.openaiFrames)
	t.Run("L13_L14 the block in answers that are not streamed", s.blockInWholeAnswers)
	t.Run("L16 usage at the end of a stream", s.openaiUsage)
	t.Run("S12_S13_S14_S15_S19 generate lines", s.generateLines)
	t.Run("S20 chat lines", s.chatLines)
	t.Run("S11_S16 length", s.length)
	t.Run("S15_S30 a stop text is a stop", s.stopText)
	t.Run("S44 a client of OpenAI's API", s.openaiClient)
	t.Run("S45 a client of Ollama's API", s.ollamaClient)
	t.Run("S09_S27_S28 every path gives the same text", s.sameText)
	t.Run("S36_S37_S38_S39_S40_S42_S43 headers", s.headers)
	t.Run("S03_L03 frames come while the model works", s.trueStream)
	t.Run("L23_L24 stream on a route that cannot", s.streamRefused)
	t.Run("L22 single JSON answers", s.singleJSON)
	if o.Embed != "" {
		t.Run("L21 embeddings", s.embeddings)
	}
	if o.FailPrompt != "" {
		t.Run("S05_S06_L11 a failed OpenAI stream", s.openaiFailure)
		t.Run("S17_S18 a failed Ollama stream", s.ollamaFailure)
	}
	if o.UI != "" {
		t.Run("S31_S32_L17_L18_L19_L20 a client that leaves", s.clientLeaves)
		t.Run("S36_to_S43_L12_to_L20 every dialect answers", s.successEverywhere)
		t.Run("S36_to_S43_L17_to_L20 every dialect is left", s.cancelEverywhere)
		if s.o.FailPrompt != "" {
			t.Run("S36_to_S43_L11_L18_to_L20 every dialect fails", s.failureEverywhere(s.o.FailPrompt, "error"))
		}
		if s.o.TimeoutPrompt != "" {
			t.Run("S36_to_S43_L11_L18_to_L20 every dialect runs out of time", s.failureEverywhere(s.o.TimeoutPrompt, "timeout"))
		}
	}
}

func (s *suite) message(prompt string) []map[string]string {
	return []map[string]string{{"role": "user", "content": prompt}}
}

func (s *suite) openaiBody(prompt string, stream bool, more map[string]any) map[string]any {
	return merge(map[string]any{
		"model": s.o.Chat, "messages": s.message(prompt), "stream": stream, "temperature": 0, "seed": 1, "max_tokens": 200,
	}, more)
}

func (s *suite) chatBody(prompt string, stream bool, options map[string]any) map[string]any {
	return map[string]any{
		"model": s.o.Chat, "messages": s.message(prompt), "stream": stream, "options": greedy(options),
	}
}

func (s *suite) generateBody(prompt string, stream bool, options map[string]any) map[string]any {
	return map[string]any{"model": s.o.Chat, "prompt": prompt, "stream": stream, "options": greedy(options)}
}

// greedy are the options under which all dialects give the same text.
func greedy(more map[string]any) map[string]any {
	return merge(map[string]any{"temperature": 0, "seed": 1, "num_predict": 200, "top_p": 1}, more)
}

func merge(a, b map[string]any) map[string]any {
	for k, v := range b {
		a[k] = v
	}
	return a
}

func (s *suite) post(t *testing.T, ctx context.Context, path string, body any) *http.Response {
	t.Helper()
	b, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+path, bytes.NewReader(b))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// whole posts and reads all of a good answer.
func (s *suite) whole(t *testing.T, path string, body any) (http.Header, string) {
	t.Helper()
	resp := s.post(t, t.Context(), path, body)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
	return resp.Header, string(text)
}

type object = map[string]any

func parse(t *testing.T, text string) object {
	t.Helper()
	var o object
	require.NoError(t, json.Unmarshal([]byte(text), &o), "%s", text)
	return o
}

// events takes a stream apart: each event must be exactly "data: ", one JSON object or [DONE], and a blank line.
func events(t *testing.T, body string) (frames []object, done bool) {
	t.Helper()
	require.True(t, strings.HasSuffix(body, "\n\n"), "the last event is not ended: %q", body)
	for _, event := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if event == ": ping" {
			continue
		}
		require.False(t, done, "something follows [DONE]: %q", event)
		data, ok := strings.CutPrefix(event, "data: ")
		require.True(t, ok, "not a data line: %q", event)
		require.NotContains(t, data, "\n", "more than one line in an event")
		require.False(t, strings.HasPrefix(data, "data:"), "doubly prefixed")
		if data == "[DONE]" {
			done = true
			continue
		}
		frames = append(frames, parse(t, data))
	}
	return frames, done
}

// lines takes an NDJSON stream apart.
func lines(t *testing.T, body string) []object {
	t.Helper()
	require.True(t, strings.HasSuffix(body, "\n"))
	var list []object
	for _, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		list = append(list, parse(t, line))
	}
	return list
}

// at walks into JSON: "choices.0.delta.content". Missing is nil.
func at(o any, path string) any {
	for _, step := range strings.Split(path, ".") {
		switch v := o.(type) {
		case object:
			o = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return nil
			}
			o = v[i]
		default:
			return nil
		}
	}
	return o
}

func has(o any, parent, key string) bool {
	if parent != "" {
		o = at(o, parent)
	}
	m, ok := o.(object)
	if !ok {
		return false
	}
	_, ok = m[key]
	return ok
}

// join puts a stream's pieces together.
func join(frames []object, path string) string {
	var b strings.Builder
	for _, f := range frames {
		if text, ok := at(f, path).(string); ok {
			b.WriteString(text)
		}
	}
	return b.String()
}

// tenFields are those that the LLM-EU document asks for, every time.
var tenFields = []string{
	"trace_id", "model_used", "model_version", "provider", "endpoint_id", "inference_region", "sovereignty_class", "policy_id",
	"retention", "cost_estimate",
}

func requireBlock(t *testing.T, block any, trace string) {
	t.Helper()
	o, ok := block.(object)
	require.True(t, ok, "no llmeu block")
	for _, field := range tenFields {
		assert.NotEmpty(t, o[field], "llmeu.%s", field)
	}
	assert.Equal(t, trace, o["trace_id"], "llmeu.trace_id is not X-Request-ID")
	assert.Equal(t, "local", o["inference_region"])
	assert.Equal(t, "on-device", o["sovereignty_class"])
}

func (s *suite) openaiStream(t *testing.T) {
	header, body := s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, true, nil))
	assert.Equal(t, "text/event-stream", strings.Split(header.Get("Content-Type"), ";")[0])
	assert.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"))
	assert.Equal(t, 1, strings.Count(body, "[DONE]"))
	frames, done := events(t, body)
	require.True(t, done)
	require.Greater(t, len(frames), 2)
	assert.Equal(t, "assistant", at(frames[0], "choices.0.delta.role"))
	assert.NotEmpty(t, join(frames, "choices.0.delta.content"))
	last := frames[len(frames)-1]
	assert.Empty(t, at(last, "choices.0.delta"))
	assert.Contains(t, []any{"stop", "length"}, at(last, "choices.0.finish_reason"))
}

func (s *suite) openaiHeaders(t *testing.T) {
	header, _ := s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, true, nil))
	assert.Equal(t, "text/event-stream; charset=utf-8", header.Get("Content-Type"))
	assert.Equal(t, "no-cache, no-transform", header.Get("Cache-Control"))
	assert.Equal(t, "keep-alive", header.Get("Connection"))
}

func (s *suite) openaiFrames(t *testing.T) {
	header, body := s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, true, nil))
	frames, _ := events(t, body)
	require.Greater(t, len(frames), 2)
	id, last := at(frames[0], "id"), len(frames)-1
	for i, f := range frames {
		assert.Equal(t, "chat.completion.chunk", f["object"])
		assert.True(t, strings.HasPrefix(f["id"].(string), "chatcmpl-"))
		assert.Equal(t, id, f["id"])
		assert.Equal(t, s.o.Chat, f["model"])
		assert.NotZero(t, f["created"])
		assert.Equal(t, 0.0, at(f, "choices.0.index"))
		assert.True(t, has(f, "choices.0", "finish_reason"), "finish_reason must be there, as null at least")
		delta := at(f, "choices.0.delta").(object)
		switch i {
		case 0:
			assert.Equal(t, object{"role": "assistant"}, delta)
			assert.NotContains(t, f, "llmeu")
		case last:
			assert.Empty(t, delta)
			requireBlock(t, f["llmeu"], header.Get("X-Request-ID"))
		default:
			assert.Len(t, delta, 1)
			assert.NotEmpty(t, delta["content"])
			assert.NotContains(t, f, "llmeu")
		}
		if i < last {
			assert.Nil(t, at(f, "choices.0.finish_reason"))
		}
	}
}

func (s *suite) blockInWholeAnswers(t *testing.T) {
	for path, body := range map[string]any{
		"/v1/chat/completions": s.openaiBody(s.o.Prompt, false, nil),
		"/api/chat":            s.chatBody(s.o.Prompt, false, nil),
		"/api/generate":        s.generateBody(s.o.Prompt, false, nil),
	} {
		header, text := s.whole(t, path, body)
		assert.Equal(t, "application/json", strings.Split(header.Get("Content-Type"), ";")[0], path)
		requireBlock(t, parse(t, text)["llmeu"], header.Get("X-Request-ID"))
	}
}

func (s *suite) openaiUsage(t *testing.T) {
	_, body := s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, true, map[string]any{"stream_options": object{"include_usage": true}}))
	frames, done := events(t, body)
	require.True(t, done)
	last := frames[len(frames)-1]
	assert.Equal(t, []any{}, last["choices"])
	requireUsage(t, last["usage"])
	assert.NotNil(t, at(frames[len(frames)-2], "choices.0.finish_reason"), "the finish frame comes before the usage frame")

	_, text := s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, false, nil))
	requireUsage(t, parse(t, text)["usage"])
}

func requireUsage(t *testing.T, usage any) {
	t.Helper()
	in, out := at(usage, "prompt_tokens"), at(usage, "completion_tokens")
	require.Greater(t, in, 0.0)
	require.Greater(t, out, 0.0)
	assert.Equal(t, in.(float64)+out.(float64), at(usage, "total_tokens"))
}

func (s *suite) generateLines(t *testing.T) {
	header, body := s.whole(t, "/api/generate", s.generateBody(s.o.Prompt, true, nil))
	assert.Equal(t, "application/x-ndjson", header.Get("Content-Type"))
	list := lines(t, body)
	require.Greater(t, len(list), 1)
	for i, l := range list {
		assert.Equal(t, s.o.Chat, l["model"])
		requireTime(t, l["created_at"])
		assert.Equal(t, i == len(list)-1, l["done"])
		assert.IsType(t, "", l["response"])
	}
	s.requireDone(t, header, list[len(list)-1])
	assert.Equal(t, "", list[len(list)-1]["response"])
}

func (s *suite) chatLines(t *testing.T) {
	header, body := s.whole(t, "/api/chat", s.chatBody(s.o.Prompt, true, nil))
	assert.Equal(t, "application/x-ndjson", header.Get("Content-Type"))
	list := lines(t, body)
	require.Greater(t, len(list), 1)
	for i, l := range list {
		assert.Equal(t, s.o.Chat, l["model"])
		requireTime(t, l["created_at"])
		assert.Equal(t, i == len(list)-1, l["done"])
		assert.Equal(t, "assistant", at(l, "message.role"))
		assert.IsType(t, "", at(l, "message.content"))
	}
	s.requireDone(t, header, list[len(list)-1])
	assert.Equal(t, "", at(list[len(list)-1], "message.content"))
}

func (s *suite) requireDone(t *testing.T, header http.Header, last object) {
	t.Helper()
	assert.Contains(t, []any{"stop", "length"}, last["done_reason"])
	for _, field := range []string{"total_duration", "prompt_eval_count", "eval_count"} {
		n, ok := last[field].(float64)
		assert.True(t, ok && n > 0 && n == float64(int64(n)), "%s must be a whole number above 0, not %v", field, last[field])
	}
	requireBlock(t, last["llmeu"], header.Get("X-Request-ID"))
}

func requireTime(t *testing.T, v any) {
	t.Helper()
	text, _ := v.(string)
	_, err := time.Parse(time.RFC3339Nano, text)
	assert.NoError(t, err)
	assert.True(t, strings.HasSuffix(text, "Z"), "%s is not UTC", text)
}

func (s *suite) length(t *testing.T) {
	short := map[string]any{"num_predict": 2}
	_, body := s.whole(t, "/api/generate", s.generateBody(s.o.Prompt, true, short))
	list := lines(t, body)
	assert.Equal(t, "length", list[len(list)-1]["done_reason"])
	assert.Equal(t, 2.0, list[len(list)-1]["eval_count"])
	_, body = s.whole(t, "/api/chat", s.chatBody(s.o.Prompt, false, short))
	assert.Equal(t, "length", parse(t, body)["done_reason"])
	for _, field := range []string{"max_tokens", "max_completion_tokens"} {
		_, body = s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, true, map[string]any{field: 2}))
		frames, _ := events(t, body)
		assert.Equal(t, "length", at(frames[len(frames)-1], "choices.0.finish_reason"), field)
	}
}

// stopText ends an answer at a text in its middle. To the engine that is neither its own end nor the limit; the client sees "stop".
func (s *suite) stopText(t *testing.T) {
	_, body := s.whole(t, "/api/generate", s.generateBody(s.o.Prompt, false, nil))
	words := strings.Fields(parse(t, body)["response"].(string))
	require.Greater(t, len(words), 2)
	stop := words[len(words)/2]
	for _, stream := range []bool{false, true} {
		for _, path := range []string{"/api/generate", "/api/chat"} {
			options := map[string]any{"stop": []string{stop}}
			request := s.chatBody(s.o.Prompt, stream, options)
			if path == "/api/generate" {
				request = s.generateBody(s.o.Prompt, stream, options)
			}
			_, body = s.whole(t, path, request)
			list := lines(t, strings.TrimSuffix(body, "\n")+"\n")
			assert.Equal(t, "stop", list[len(list)-1]["done_reason"], path)
			assert.NotContains(t, join(list, "response")+join(list, "message.content"), stop, path)
		}
	}
	_, body = s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, false, map[string]any{"stop": stop}))
	assert.Equal(t, "stop", at(parse(t, body), "choices.0.finish_reason"))
	_, body = s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, true, map[string]any{"stop": stop}))
	frames, _ := events(t, body)
	assert.Equal(t, "stop", at(frames[len(frames)-1], "choices.0.finish_reason"))
	assert.NotContains(t, join(frames, "choices.0.delta.content"), stop)
}

func (s *suite) sameText(t *testing.T) {
	_, whole := s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, false, nil))
	want, ok := at(parse(t, whole), "choices.0.message.content").(string)
	require.True(t, ok)
	require.NotEmpty(t, want)
	_, body := s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.Prompt, true, nil))
	frames, _ := events(t, body)
	assert.Equal(t, want, join(frames, "choices.0.delta.content"), "OpenAI stream")
	_, body = s.whole(t, "/api/chat", s.chatBody(s.o.Prompt, false, nil))
	assert.Equal(t, want, at(parse(t, body), "message.content"), "chat")
	_, body = s.whole(t, "/api/chat", s.chatBody(s.o.Prompt, true, nil))
	assert.Equal(t, want, join(lines(t, body), "message.content"), "chat stream")
	_, body = s.whole(t, "/api/generate", s.generateBody(s.o.Prompt, false, nil))
	assert.Equal(t, want, parse(t, body)["response"], "generate")
	_, body = s.whole(t, "/api/generate", s.generateBody(s.o.Prompt, true, nil))
	assert.Equal(t, want, join(lines(t, body), "response"), "generate stream")
}

func (s *suite) headers(t *testing.T) {
	for path, body := range map[string]any{
		"/v1/chat/completions": s.openaiBody(s.o.Prompt, true, nil),
		"/api/chat":            s.chatBody(s.o.Prompt, true, nil),
		"/api/generate":        s.generateBody(s.o.Prompt, true, nil),
	} {
		h, _ := s.whole(t, path, body)
		assert.NotEmpty(t, h.Get("X-Request-ID"), path)
		device := h.Get("X-NPU-Proxy-Execution-Device")
		assert.NotEmpty(t, device, path)
		assert.Equal(t, device, h.Get("X-NPU-Proxy-Device"), path)
		routed := h.Get("X-NPU-Proxy-Routed-Device")
		assert.NotEmpty(t, routed, path)
		assert.NotEmpty(t, h.Get("X-NPU-Proxy-Route-Reason"), path)
		count, err := strconv.Atoi(h.Get("X-NPU-Proxy-Token-Count"))
		assert.NoError(t, err, path)
		assert.Positive(t, count, path)
		fallback, there := h["X-Npu-Proxy-Fallback-Reason"]
		assert.Equal(t, device != routed, there, "%s: fallback reason %v, routed %s, ran on %s", path, fallback, routed, device)
		if there {
			assert.Contains(t, []string{"busy", "device_fallback"}, fallback[0])
		}
	}
}

// trueStream leaves after the first piece of an answer that would go on for long: that it comes at all is the proof.
func (s *suite) trueStream(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp := s.post(t, ctx, "/v1/chat/completions", s.openaiBody(s.o.LongPrompt, true, map[string]any{"max_tokens": 2000}))
	r := bufio.NewReader(resp.Body)
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		if strings.Contains(line, `"content":`) {
			return
		}
		require.NotContains(t, line, "finish_reason\":\"")
	}
}

func (s *suite) streamRefused(t *testing.T) {
	for path, body := range map[string]object{
		"/v1/embeddings":  {"model": s.o.Embed, "input": "x", "stream": true},
		"/api/embed":      {"model": s.o.Embed, "input": "x", "stream": true},
		"/api/embeddings": {"model": s.o.Embed, "prompt": "x", "stream": true},
		"/api/show":       {"model": s.o.Chat, "stream": true},
	} {
		resp := s.post(t, t.Context(), path, body)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, path)
		assert.NotEmpty(t, parse(t, string(text))["error"], path)
	}
}

func (s *suite) singleJSON(t *testing.T) {
	for _, path := range []string{"/api/tags", "/api/ps", "/api/version", "/v1/models"} {
		resp, err := http.Get(s.base + path)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, resp.StatusCode, path)
		assert.Equal(t, "application/json; charset=utf-8", resp.Header.Get("Content-Type"), path)
		parse(t, string(text))
	}
}

func (s *suite) embeddings(t *testing.T) {
	header, text := s.whole(t, "/v1/embeddings", object{"model": s.o.Embed, "input": []string{"one", "two"}})
	assert.Equal(t, "application/json", strings.Split(header.Get("Content-Type"), ";")[0])
	o := parse(t, text)
	assert.Len(t, o["data"], 2)
	assert.NotEmpty(t, at(o, "data.1.embedding"))
	requireBlock(t, o["llmeu"], header.Get("X-Request-ID"))
	_, text = s.whole(t, "/api/embed", object{"model": s.o.Embed, "input": "one"})
	assert.Len(t, parse(t, text)["embeddings"], 1)
	_, text = s.whole(t, "/api/embeddings", object{"model": s.o.Embed, "prompt": "one"})
	assert.NotEmpty(t, parse(t, text)["embedding"])
}

func (s *suite) openaiFailure(t *testing.T) {
	_, body := s.whole(t, "/v1/chat/completions", s.openaiBody(s.o.FailPrompt, true, nil))
	frames, done := events(t, body)
	assert.False(t, done, "a failed stream must not end with [DONE]")
	require.NotEmpty(t, frames)
	last := frames[len(frames)-1]
	assert.NotEmpty(t, at(last, "error.message"))
	for _, f := range frames {
		assert.Nil(t, at(f, "choices.0.finish_reason"))
	}
}

func (s *suite) ollamaFailure(t *testing.T) {
	for path, body := range map[string]any{
		"/api/chat":     s.chatBody(s.o.FailPrompt, true, nil),
		"/api/generate": s.generateBody(s.o.FailPrompt, true, nil),
	} {
		_, text := s.whole(t, path, body)
		list := lines(t, text)
		assert.NotEmpty(t, list[len(list)-1]["error"], path)
		for _, l := range list {
			assert.NotEqual(t, true, l["done"], path)
		}
	}
}

func (s *suite) clientLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	resp := s.post(t, ctx, "/api/chat", s.chatBody(s.o.LongPrompt, true, map[string]any{"num_predict": 100000}))
	_, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	cancel() // closes the connection

	var rec object
	require.Eventually(t, func() bool {
		rec = s.record(t, resp.Header.Get("X-Request-ID"))
		return rec["state"] == "done"
	}, 30*time.Second, 20*time.Millisecond, "the work goes on although the client has left")
	assert.Equal(t, "cancelled", rec["outcome"])
	assert.Greater(t, rec["completion_tokens"], 0.0, "the trace must have what was produced until then")
	assert.Less(t, rec["completion_tokens"], 500.0, "the worker goes on for long after the client has left")
	assert.Greater(t, rec["prompt_tokens"], 0.0)
}

// record reads a request's trace on the window's listener.
func (s *suite) record(t *testing.T, trace string) object {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.o.UI+"/ui/requests/"+trace, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.o.Token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
	return parse(t, string(text))
}
