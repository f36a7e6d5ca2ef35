package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/dispatch"
	"signalbox/backend/llm"
	"signalbox/backend/server"
)

// paths are the routes that generate, with a body for a prompt.
var paths = map[string]func(prompt string, stream bool) string{
	"/api/chat": func(p string, stream bool) string {
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"stream":%t}`, chatModel, p, stream)
	},
	"/api/generate": func(p string, stream bool) string {
		return fmt.Sprintf(`{"model":%q,"prompt":%q,"stream":%t}`, chatModel, p, stream)
	},
	"/v1/chat/completions": func(p string, stream bool) string {
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"stream":%t}`, chatModel, p, stream)
	},
	"/v1/completions": func(p string, stream bool) string {
		return fmt.Sprintf(`{"model":%q,"prompt":%q,"stream":%t}`, chatModel, p, stream)
	},
	"/v1/responses": func(p string, stream bool) string {
		return fmt.Sprintf(`{"model":%q,"input":%q,"stream":%t}`, chatModel, p, stream)
	},
	"/v1/messages": func(p string, stream bool) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":100000,"messages":[{"role":"user","content":%q}],"stream":%t}`, chatModel, p, stream)
	},
}

func TestErrorsBeforeTheFirstByteHaveTheirStatus(t *testing.T) {
	r := newRig(t)
	var give error
	r.before = func(context.Context, dispatch.Call) error { return give }
	for _, tt := range []struct {
		err    error
		status int
		text   string
	}{
		{llm.PromptTooLong(2068, 1024), 400, "prompt is too long: 2068 tokens > 1024 maximum"},
		{llm.Errorf(llm.CodeModelNotFound, "nothing of that name"), 404, "model 'smollm2:135m' not found"},
		{llm.Errorf(llm.CodeOverloaded, "queue full"), 503, "server busy, please try again.  maximum pending requests exceeded"},
		{llm.Errorf(llm.CodeUnavailable, "no device may run it").WithHint("allow the CPU"), 503, "no device may run it: allow the CPU"},
		{llm.Errorf(llm.CodeEngine, "the child ended"), 500, "the child ended"},
		{llm.Errorf(llm.CodeTimeout, "no token for 180 s"), 504, "no token for 180 s"},
		{llm.Errorf(llm.CodeUnsupported, `"x" does not support chat`), 400, `"x" does not support chat`},
		{llm.Errorf(llm.CodeInvalid, "the schema's keyword uniqueItems cannot be enforced"), 400, "the schema's keyword uniqueItems cannot be enforced"},
		{fmt.Errorf("load: %w", llm.Errorf(llm.CodeUnavailable, "damaged")), 503, "damaged"},
		{errors.New("plain"), 500, "plain"},
	} {
		give = tt.err
		for path, body := range paths {
			for _, stream := range []bool{true, false} {
				resp, text := do(t, "POST", r.public.URL+path, body("hi", stream))
				assert.Equal(t, tt.status, resp.StatusCode, "%s %v", path, tt.err)
				assert.Equal(t, "application/json; charset=utf-8", resp.Header.Get("Content-Type"))
				assert.NotEmpty(t, resp.Header.Get("X-Request-ID"))
				assert.Equal(t, tt.status == 503, resp.Header.Get("Retry-After") != "")
				o := object(t, text)
				nested, _ := o["error"].(map[string]any)
				switch {
				case path == "/v1/messages":
					assert.Equal(t, tt.text, nested["message"])
					assert.Equal(t, "error", o["type"])
					assert.Equal(t, "req_"+resp.Header.Get("X-Request-ID"), o["request_id"])
				case strings.HasPrefix(path, "/v1/"):
					assert.Equal(t, tt.text, nested["message"])
					assert.Contains(t, nested, "param")
					assert.Contains(t, nested, "code")
				default:
					assert.Equal(t, tt.text, o["error"])
				}
			}
		}
	}
}

func TestCodesThatProgramsBranchOn(t *testing.T) {
	r := newRig(t)
	var give error
	r.before = func(context.Context, dispatch.Call) error { return give }
	for _, tt := range []struct {
		err        error
		kind, code any
	}{
		{llm.PromptTooLong(2068, 1024), "invalid_request_error", "context_length_exceeded"},
		{llm.Errorf(llm.CodeModelNotFound, "x"), "not_found_error", "model_not_found"},
		{llm.Errorf(llm.CodeInvalid, "x"), "invalid_request_error", nil},
		{llm.Errorf(llm.CodeOverloaded, "x"), "api_error", "overloaded"},
		{llm.Errorf(llm.CodeEngine, "x"), "api_error", "engine_failed"},
	} {
		give = tt.err
		_, text := do(t, "POST", r.public.URL+"/v1/chat/completions", paths["/v1/chat/completions"]("hi", true))
		e := object(t, text)["error"].(map[string]any)
		assert.Equal(t, tt.kind, e["type"])
		assert.Equal(t, tt.code, e["code"])
	}
}

func TestS33AReaderThatStopsReadingIsCancelled(t *testing.T) {
	r := newRig(t, func(d *server.Deps) { d.WriteLimit = 200 * time.Millisecond })
	for path, body := range paths {
		conn, err := net.Dial("tcp", r.public.Listener.Addr().String())
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		b := body("[[endless]] [[say "+strings.Repeat("x ", 1000)+"]]", true)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: stalled%s\r\nContent-Length: %d\r\n\r\n%s",
			path, strings.ReplaceAll(path, "/", "-"), len(b), b)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			e, err := r.journal.Get("stalled" + strings.ReplaceAll(path, "/", "-"))
			return err == nil && e.State == "done" && e.Outcome == llm.OutcomeCancelled
		}, 2*time.Minute, 10*time.Millisecond, "%s: the stream goes on although nobody reads (the socket stays open)", path)
		conn.Close()
	}
}

func TestS31AClientThatLeavesWhileItWaitsIsCancelled(t *testing.T) {
	r := newRig(t)
	waiting, ended := make(chan struct{}), make(chan error, 1)
	r.before = func(ctx context.Context, _ dispatch.Call) error {
		close(waiting)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	conn, err := net.Dial("tcp", r.public.Listener.Addr().String())
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "POST /api/generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(chatBody), chatBody)
	require.NoError(t, err)
	<-waiting
	conn.Close()
	assert.ErrorIs(t, <-ended, context.Canceled)
}

func TestWaitingStreamsShowSignsOfLife(t *testing.T) {
	r := newRig(t, func(d *server.Deps) { d.PingEvery = 5 * time.Millisecond })
	release := make(chan struct{})
	r.decided = func(context.Context) { <-release }
	for path, want := range map[string]string{
		"/v1/chat/completions": ": ping",
		"/api/chat":            `"message":{"role":"assistant","content":""},"done":false}`,
		"/api/generate":        `"response":"","done":false}`,
		"/v1/completions":      ": ping",
		"/v1/responses":        `data: {"type":"response.in_progress","sequence_number":`,
		"/v1/messages":         `data: {"type":"ping"}`,
	} {
		b := paths[path]("hi", true)
		resp := raw(t, r.public, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, len(b), b))
		assert.NotEmpty(t, resp.Header.Get("X-NPU-Proxy-Token-Count"), "headers come before the first piece")
		in := bufio.NewReader(resp.Body)
		signs := 0
		for signs < 3 {
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			if strings.Contains(line, want) {
				signs++
			}
		}
		release <- struct{}{}
		rest, err := io.ReadAll(in)
		require.NoError(t, err)
		assert.Contains(t, string(rest), `"Thi"`, "%s: the answer follows", path)
		if path == "/v1/responses" {
			assert.Contains(t, string(rest), `"sequence_number":`)
		}
	}
}

func TestStoppingTheServerEndsStreamsWithAnErrorFrame(t *testing.T) {
	for path, body := range paths {
		r := newRig(t)
		b := body("[[endless]] [[slow 1]]", true)
		resp := raw(t, r.public, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, len(b), b))
		in := bufio.NewReader(resp.Body)
		_, err := in.ReadString('\n')
		require.NoError(t, err)
		r.stop(llm.Errorf(llm.CodeStopped, "the server was stopped"))
		rest, err := io.ReadAll(in)
		require.NoError(t, err, path)
		lines := strings.Split(strings.TrimSpace(string(rest)), "\n")
		last := lines[len(lines)-1]
		assert.Contains(t, last, "the server was stopped", path)
		assert.Contains(t, last, `"error":`, path)
		for _, good := range []string{"[DONE]", `"done":true`, "response.completed", "message_stop"} {
			assert.NotContains(t, string(rest), good, path)
		}
	}
}

func TestStoppingTheServerRefusesWhatHasNotBegun(t *testing.T) {
	r := newRig(t)
	waiting := make(chan struct{})
	r.before = func(ctx context.Context, _ dispatch.Call) error {
		close(waiting)
		<-ctx.Done()
		return ctx.Err()
	}
	go func() {
		<-waiting
		r.stop(llm.Errorf(llm.CodeStopped, "the server was stopped"))
	}()
	resp, text := do(t, "POST", r.public.URL+"/api/generate", chatBody)
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, "the server was stopped", object(t, text)["error"])
}

func TestS35SamplingReachesTheEngineStreamedOrNot(t *testing.T) {
	r := newRig(t)
	for _, stream := range []bool{true, false} {
		_, _ = do(t, "POST", r.public.URL+"/v1/chat/completions", fmt.Sprintf(
			`{"model":%q,"messages":[{"role":"user","content":"hi"}],"top_p":0.3,"max_tokens":5,"stop":"END","seed":7,"stream":%t}`, chatModel, stream))
		call := r.last(t)
		assert.Equal(t, 0.3, call.Request.Sampling.TopP)
		assert.Equal(t, 1.0, call.Request.Sampling.Temperature, "unset is OpenAI's 1")
		assert.Equal(t, int64(7), *call.Request.Sampling.Seed)
		assert.Equal(t, []string{"END"}, call.Request.Stop)
		assert.Equal(t, 5, call.Request.MaxTokens)
		_, _ = do(t, "POST", r.public.URL+"/api/chat", fmt.Sprintf(
			`{"model":%q,"messages":[{"role":"user","content":"hi"}],"options":{"top_p":0.3,"num_ctx":2048,"device":"NPU"},"keep_alive":"10m","stream":%t}`, chatModel, stream))
		call = r.last(t)
		assert.Equal(t, 0.3, call.Request.Sampling.TopP)
		assert.Equal(t, 0.8, call.Request.Sampling.Temperature)
		assert.Equal(t, 2048, call.Request.ContextLimit)
		assert.Equal(t, "npu", call.Request.Device)
		assert.Equal(t, 10*time.Minute, *call.Request.KeepAlive)
		assert.Equal(t, "/api/chat", call.Route)
	}
}

func TestCallsSayWhoAsks(t *testing.T) {
	r := newRig(t)
	_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody, "User-Agent", "GitHubCopilotChat/0.38")
	assert.Equal(t, "GitHub Copilot", r.last(t).Client)
	assert.Equal(t, "api", r.last(t).Request.Owner)
	_, _ = do(t, "POST", r.public.URL+"/api/generate", strings.Replace(chatBody, "135m", "135m@gpu.1", 1), "User-Agent", "evil\u009b31m/1")
	assert.Equal(t, "evil31m/1", r.last(t).UserAgent)
	assert.Equal(t, chatModel, r.last(t).Request.Model)
	assert.Equal(t, "gpu:1", r.last(t).Request.Device)
	_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody, "X-Signalbox-Device", "NPU")
	assert.Equal(t, "npu", r.last(t).Request.Device)

	_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody, "User-Agent", "ls/JS 5.23.2", "X-Stainless-Lang", "js")
	assert.Equal(t, "openai-js", r.last(t).Client)
	for name, headers := range map[string][]string{ // as Copilot CLI 1.0.102 and Roo Code send them
		"GitHub Copilot": {"User-Agent", "OpenAI/JS 5.20.1", "X-Stainless-Lang", "js", "X-Initiator", "user", "X-Interaction-Type", "conversation-user"},
		"Roo Code":       {"User-Agent", "OpenAI/JS 5.12.2", "X-Title", "Roo Code", "HTTP-Referer", "https://github.com/RooVetGit/Roo-Cline"},
		"openai-js":      {"User-Agent", "OpenAI/JS 6.26.0", "X-Title", "something amazed", "X-Initiator", "user"},
	} {
		_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody, headers...)
		assert.Equal(t, name, r.last(t).Client)
	}

	resp := raw(t, r.ui, fmt.Sprintf("POST /api/generate HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nUser-Agent: Mozilla/5.0\r\nContent-Length: %d\r\n\r\n%s",
		r.access.Host(), enter(t, r), len(chatBody), chatBody))
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, "Signalbox", r.last(t).Client)
	assert.Equal(t, "window", r.last(t).Request.Owner)
}

func TestA25TraceIDsAreUnique(t *testing.T) {
	r := newRig(t)
	get := func(headers ...string) string {
		resp, _ := do(t, "GET", r.public.URL+"/api/version", "", headers...)
		return resp.Header.Get("X-Request-ID")
	}
	assert.Equal(t, "my-id_1.2", get("X-Request-ID", "my-id_1.2"))
	for _, bad := range []string{"a b", strings.Repeat("x", 129), "a/b", "é"} {
		if id := get("X-Request-ID", bad); assert.Len(t, id, 36) {
			assert.NotEqual(t, bad, id)
		}
	}
	assert.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", get("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	assert.Len(t, get("Traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"), 36)

	_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody, "X-Request-ID", "used")
	resp, _ := do(t, "POST", r.public.URL+"/api/generate", chatBody, "X-Request-ID", "used")
	assert.NotEqual(t, "used", resp.Header.Get("X-Request-ID"), "an earlier request's record must not be overwritten")
}

func TestA25TwoAtOnceWithOneID(t *testing.T) {
	r := newRig(t)
	b := paths["/api/chat"]("[[endless]] [[slow 1]]", true)
	start := func() (id string, body *bufio.Reader) {
		resp := raw(t, r.public, fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: twin\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(b), b))
		return resp.Header.Get("X-Request-ID"), bufio.NewReader(resp.Body)
	}
	first, firstBody := start()
	second, secondBody := start()
	assert.Equal(t, "twin", first)
	require.NotEqual(t, first, second)
	resp, _ := do(t, "POST", r.ui.URL+"/ui/requests/"+second+"/cancel", "", "Authorization", "Bearer "+token)
	assert.Equal(t, 204, resp.StatusCode)
	rest, err := io.ReadAll(secondBody)
	require.NoError(t, err)
	assert.Contains(t, string(rest), `{"error":"the request was cancelled in the Signalbox window"}`)
	for range 5 { // the other one goes on
		_, err := firstBody.ReadString('\n')
		require.NoError(t, err)
	}
}

func TestLogprobsComeInEachDialectsShape(t *testing.T) {
	r := newRig(t)
	_, text := do(t, "POST", r.public.URL+"/v1/chat/completions", fmt.Sprintf(
		`{"model":%q,"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":2,"max_tokens":2}`, chatModel))
	choice := object(t, text)["choices"].([]any)[0].(map[string]any)
	content := choice["logprobs"].(map[string]any)["content"].([]any)
	require.Len(t, content, 2)
	assert.Len(t, content[0].(map[string]any)["top_logprobs"], 2)
	_, text = do(t, "POST", r.public.URL+"/api/generate", fmt.Sprintf(
		`{"model":%q,"prompt":"hi","logprobs":true,"top_logprobs":2,"stream":false,"options":{"num_predict":2}}`, chatModel))
	probs := object(t, text)["logprobs"].([]any)
	require.Len(t, probs, 2)
	assert.Len(t, probs[0].(map[string]any)["top_logprobs"], 2)
}

func TestB23APanicIsOneRequestsError(t *testing.T) {
	r := newRig(t)
	r.before = func(context.Context, dispatch.Call) error { panic("boom") }
	resp, text := do(t, "POST", r.public.URL+"/v1/chat/completions", paths["/v1/chat/completions"]("hi", true))
	assert.Equal(t, 500, resp.StatusCode)
	assert.NotContains(t, text, "boom")
	assert.Contains(t, text, resp.Header.Get("X-Request-ID"))
	r.before = nil
	r.decided = func(context.Context) { panic("boom") }
	resp2 := raw(t, r.public, fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(paths["/api/chat"]("hi", true)), paths["/api/chat"]("hi", true)))
	_, err := io.ReadAll(resp2.Body)
	assert.Error(t, err, "half an answer must not look whole")
	resp, _ = do(t, "GET", r.public.URL+"/api/version", "")
	assert.Equal(t, 200, resp.StatusCode)
}

func TestF28ToolsThatNobodyKnowsAreLeftOutAndNamed(t *testing.T) {
	var log strings.Builder
	r := newRig(t, func(d *server.Deps) { d.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for path, body := range map[string]string{
		"/v1/responses":        `{"model":"smollm2:135m","input":"x","tools":[{"type":"namespace","name":"n"},{"type":"function","name":"f","parameters":{}}]}`,
		"/v1/chat/completions": `{"model":"smollm2:135m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"namespace"},{"type":"function","function":{"name":"f"}}]}`,
		"/v1/messages":         `{"model":"smollm2:135m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"namespace","name":"n"},{"name":"f","input_schema":{}}]}`,
	} {
		log.Reset()
		resp, text := do(t, "POST", r.public.URL+path, body)
		assert.Equal(t, 200, resp.StatusCode, text)
		assert.Contains(t, text, `"ignored":["tools[0] (namespace)"]`, path)
		assert.Contains(t, log.String(), "tools[0] (namespace)", path)
		assert.Contains(t, string(r.last(t).Request.Tools), `"name":"f"`)
	}
}
