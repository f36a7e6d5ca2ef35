package wiretest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dialects are the routes that give text, each with a body for a prompt.
func (s *suite) dialects() map[string]func(prompt string, stream bool, most int) any {
	return map[string]func(string, bool, int) any{
		"/v1/chat/completions": func(p string, stream bool, most int) any {
			return s.openaiBody(p, stream, object{"max_tokens": most})
		},
		"/v1/completions": func(p string, stream bool, most int) any {
			return object{"model": s.o.Chat, "prompt": p, "stream": stream, "max_tokens": most, "temperature": 0}
		},
		"/v1/responses": func(p string, stream bool, most int) any {
			return object{"model": s.o.Chat, "input": p, "stream": stream, "max_output_tokens": most, "temperature": 0}
		},
		"/v1/messages": func(p string, stream bool, most int) any {
			return object{"model": s.o.Chat, "messages": s.message(p), "stream": stream, "max_tokens": most, "temperature": 0}
		},
		"/api/chat": func(p string, stream bool, most int) any {
			return s.chatBody(p, stream, object{"num_predict": most})
		},
		"/api/generate": func(p string, stream bool, most int) any {
			return s.generateBody(p, stream, object{"num_predict": most})
		},
	}
}

// each runs check for every dialect, streamed and whole.
func (s *suite) each(t *testing.T, check func(t *testing.T, path string, stream bool, body func(prompt string, most int) any)) {
	for path, body := range s.dialects() {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream=%t", strings.TrimPrefix(path, "/"), stream), func(t *testing.T) {
				check(t, path, stream, func(prompt string, most int) any { return body(prompt, stream, most) })
			})
		}
	}
}

// frames takes any answer apart: events, lines or one object.
func frames(t *testing.T, body string) (list []object) {
	t.Helper()
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		data, event := strings.CutPrefix(line, "data: ")
		if line == "" || data == "[DONE]" || !event && !strings.HasPrefix(line, "{") {
			continue
		}
		list = append(list, parse(t, data))
	}
	return list
}

// block finds the routing record in a frame, wherever the dialect has it.
func block(o any) object {
	switch v := o.(type) {
	case object:
		if found, ok := v["llmeu"].(object); ok {
			return found
		}
		for _, inside := range v {
			if found := block(inside); found != nil {
				return found
			}
		}
	case []any:
		for _, inside := range v {
			if found := block(inside); found != nil {
				return found
			}
		}
	}
	return nil
}

// requireRouted checks the headers S36 to S43 of one answer, and returns its trace id.
func requireRouted(t *testing.T, h http.Header) string {
	t.Helper()
	trace, device, routed := h.Get("X-Request-ID"), h.Get("X-NPU-Proxy-Execution-Device"), h.Get("X-NPU-Proxy-Routed-Device")
	require.NotEmpty(t, trace, "S36")
	assert.Equal(t, device, h.Get("X-NPU-Proxy-Device"), "S37")
	assert.NotEmpty(t, routed, "S38")
	assert.NotEmpty(t, device, "S39")
	fallback, there := h["X-Npu-Proxy-Fallback-Reason"]
	assert.Equal(t, device != routed, there, "S40: %v, routed %s, ran on %s", fallback, routed, device)
	if there {
		assert.Contains(t, []string{"busy", "device_fallback"}, fallback[0], "S41")
	}
	assert.NotEmpty(t, h.Get("X-NPU-Proxy-Route-Reason"), "S42")
	count, err := strconv.Atoi(h.Get("X-NPU-Proxy-Token-Count"))
	assert.NoError(t, err, "S43")
	assert.Positive(t, count, "S43")
	return trace
}

func (s *suite) successEverywhere(t *testing.T) {
	s.each(t, func(t *testing.T, path string, stream bool, body func(string, int) any) {
		before := s.totals(t)
		header, text := s.whole(t, path, body(s.o.Prompt, 200))
		trace := requireRouted(t, header)
		list := frames(t, text)
		at := -1
		for i, f := range list {
			if block(f) != nil {
				assert.Equal(t, -1, at, "L12: the block is there twice")
				at = i
			}
		}
		require.GreaterOrEqual(t, at, 0, "L12, L13: no block")
		if stream {
			assert.GreaterOrEqual(t, at, len(list)-2, "L15: the block is at the end")
			assert.Positive(t, at, "L15")
		}
		got := block(list[at])
		requireBlock(t, got, trace) // L14
		assert.Greater(t, got["prompt_tokens"], 0.0, "L16")
		assert.Greater(t, got["completion_tokens"], 0.0, "L16")
		rec := s.ended(t, trace)
		for _, field := range append(tenFields, "prompt_tokens", "completion_tokens", "outcome", "execution_device", "route_reason") {
			assert.Equal(t, rec[field], got[field], "L12, L18: %s differs in the journal", field)
		}
		assert.Equal(t, before.completed+1, s.totals(t).completed)
	})
}

// failureEverywhere has the engine fail after a few tokens. outcome is what the record must say.
func (s *suite) failureEverywhere(prompt, outcome string) func(t *testing.T) {
	return func(t *testing.T) {
		s.each(t, func(t *testing.T, path string, stream bool, body func(string, int) any) {
			before := s.totals(t)
			resp := s.post(t, t.Context(), path, body(prompt, 200))
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			trace := resp.Header.Get("X-Request-ID")
			if stream {
				require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
				requireRouted(t, resp.Header)
				assert.NotContains(t, string(text), "[DONE]", "L11")
			} else {
				assert.GreaterOrEqual(t, resp.StatusCode, 500, "%s", text)
				require.NotEmpty(t, trace, "S36")
			}
			rec := s.ended(t, trace)
			assert.Equal(t, outcome, rec["outcome"], "L20")
			assert.Greater(t, rec["completion_tokens"], 0.0, "L18")
			assert.NotEmpty(t, rec["execution_device"], "S39")
			s.usedAndNotCompleted(t, before)
		})
	}
}

// cancelEverywhere leaves in the middle of each kind of answer.
func (s *suite) cancelEverywhere(t *testing.T) {
	s.each(t, func(t *testing.T, path string, stream bool, body func(string, int) any) {
		before := s.totals(t)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		trace := fmt.Sprintf("wire-%d", time.Now().UnixNano())
		left := make(chan struct{})
		go func() {
			defer close(left)
			payload, _ := json.Marshal(body(s.o.LongPrompt, 2000))
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.base+path, strings.NewReader(string(payload)))
			req.Header.Set("X-Request-ID", trace)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return // a whole answer: it left before the first byte
			}
			defer resp.Body.Close()
			if stream {
				assert.Equal(t, trace, requireRouted(t, resp.Header))
			}
			_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
		}()
		s.until(t, trace, "it never began to answer", func(rec object) bool {
			return rec["state"] == "decoding" && rec["tokens_so_far"].(float64) > 0
		})
		leave()
		<-left
		rec := s.ended(t, trace) // L17
		assert.Equal(t, "cancelled", rec["outcome"], "L20")
		assert.Greater(t, rec["completion_tokens"], 0.0, "L18")
		assert.Greater(t, rec["prompt_tokens"], 0.0, "L18")
		s.usedAndNotCompleted(t, before)
	})
}

// totals is what the journal has summed up.
type totals struct{ completed, tokens float64 }

func (s *suite) totals(t *testing.T) totals {
	t.Helper()
	var o object
	status := s.get(t, "/ui/requests/totals?since=2000-01-01T00:00:00Z", &o)
	require.Equal(t, http.StatusOK, status)
	return totals{o["completed"].(float64), o["prompt_tokens"].(float64) + o["completion_tokens"].(float64)}
}

func (s *suite) usedAndNotCompleted(t *testing.T, before totals) {
	t.Helper()
	now := s.totals(t)
	assert.Equal(t, before.completed, now.completed, "L20: it is not counted as completed")
	assert.Greater(t, now.tokens, before.tokens, "L19: it is counted as used")
}

// until waits for a request's record to be as wanted, and returns it.
func (s *suite) until(t *testing.T, trace, otherwise string, want func(rec object) bool) object {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var rec object
		if s.get(t, "/ui/requests/"+trace, &rec) == http.StatusOK && want(rec) {
			return rec
		}
		require.True(t, time.Now().Before(deadline), "%s: %v", otherwise, rec)
	}
}

// ended waits for a request's end and returns its record.
func (s *suite) ended(t *testing.T, trace string) object {
	t.Helper()
	return s.until(t, trace, "L17: the work goes on", func(rec object) bool { return rec["state"] == "done" })
}

// get reads JSON at the window's listener.
func (s *suite) get(t *testing.T, path string, out any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.o.UI+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.o.Token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode == http.StatusOK {
		require.NoError(t, json.Unmarshal(text, out), "%s", text)
	}
	return resp.StatusCode
}
