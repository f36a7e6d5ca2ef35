//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bomb is a request that would cost the engine, or the server, minutes or gigabytes if nobody bounded it.
type bomb struct {
	name, path string
	body       string
	header     http.Header
	clamped    bool // it is answered, with less than it asks for; else it is refused
}

func nested(open, end string, depth int, inside string) string {
	return strings.Repeat(open, depth) + inside + strings.Repeat(end, depth)
}

func repeated(part string, n int, sep string) string {
	return strings.TrimSuffix(strings.Repeat(part+sep, n), sep)
}

// bombs are those of A18, A19, A21 and A22.
func bombs(t testing.TB) (list []bomb) {
	quote := func(s string) string {
		q, err := json.Marshal(s)
		require.NoError(t, err)
		return string(q)
	}
	for name, template := range map[string]string{
		"recursion":       `{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}`,
		"doubling":        `{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}`,
		"nested loops":    `{% for i in range(10000) %}{% for j in range(10000) %}{% for k in range(10000) %}{% endfor %}{% endfor %}{% endfor %}`,
		"100,000 nested":  nested("{% if true %}", "{% endif %}", 100_000, ""),
		"a large product": `{{ 'x' * 9999999999 }}`,
	} {
		list = append(list, bomb{name: "template: " + name, path: "/api/generate", body: `{"model":"smollm2:135m","prompt":"x","template":` + quote(template) + `}`})
	}
	list = append(list, bomb{name: "template of a model", path: "/api/create", body: `{"model":"bomb","from":"smollm2:135m","template":` + quote(nested("{% if true %}", "{% endif %}", 100_000, "")) + `}`})

	for name, schema := range map[string]string{
		"1,000 arrays":    nested(`{"type":"array","items":`, `}`, 1000, `{"type":"null"}`),
		"150 arrays":      nested(`{"type":"array","items":`, `}`, 150, `{"type":"null"}`),
		"10,000 branches": `{"anyOf":[` + repeated(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, 10_000, ",") + `]}`,
		"a million words": `{"enum":[` + repeated(`"0123456789"`, 100_000, ",") + `]}`,
		"a long pattern":  `{"type":"string","pattern":"^(a{1,900}b{1,900}c{1,900}){1,900}$"}`,
		"nested counts":   `{"type":"string","pattern":"^([a-z]{0,30}){0,30}$"}`,
		"long words":      `{"enum":[` + repeated(`"`+strings.Repeat("x", 100)+`"`, 1990, ",") + `]}`,
		"a circle":        `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		"long counts":     `{"type":"array","minItems":1000000000,"items":{"type":"string","minLength":1000000000}}`,
	} {
		const hi = `"model":"smollm2:135m","messages":[{"role":"user","content":"x"}]`
		list = append(list,
			bomb{name: "schema: " + name, path: "/api/chat", body: `{` + hi + `,"format":` + schema + `}`},
			bomb{name: "schema: " + name, path: "/v1/chat/completions", body: `{` + hi + `,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":` + schema + `}}}`},
			bomb{name: "schema: " + name, path: "/v1/responses", body: `{"model":"smollm2:135m","input":"x","text":{"format":{"type":"json_schema","name":"x","strict":true,"schema":` + schema + `}}}`},
			bomb{name: "schema: " + name, path: "/v1/messages", body: `{` + hi + `,"max_tokens":9,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`},
			bomb{name: "strict tool: " + name, path: "/v1/chat/completions", body: `{` + hi + `,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":` + schema + `},"required":["a"],"additionalProperties":false}}}]}`},
		)
	}

	for name, b := range map[string]bomb{
		"n":            {path: "/v1/chat/completions", body: `{"model":"smollm2:135m","messages":[{"role":"user","content":"x"}],"n":1e9}`},
		"best_of":      {path: "/v1/completions", body: `{"model":"smollm2:135m","prompt":"x","best_of":1e9}`},
		"prompts":      {path: "/v1/completions", body: `{"model":"smollm2:135m","prompt":[` + repeated(`"x"`, 1_000_000, ",") + `]}`},
		"stops":        {path: "/v1/completions", body: `{"model":"smollm2:135m","prompt":"x","stop":[` + repeated(`"x"`, 1_000_000, ",") + `]}`},
		"top_logprobs": {path: "/api/generate", body: `{"model":"smollm2:135m","prompt":"x","top_logprobs":1e9}`},
		"texts":        {path: "/api/embed", body: `{"model":"all-minilm","input":[` + repeated(`"x"`, 1_000_000, ",") + `]}`},
		"the window":   {path: "/api/generate", clamped: true, body: `{"model":"smollm2:135m","prompt":"x","stream":false,"keep_alive":1e300,"options":{"num_ctx":1e12,"num_keep":-1e12,"num_predict":2,"top_k":1e300,"temperature":1e300,"seed":1e300,"repeat_last_n":1e300}}`},
		// Asked "x" the model may write thousands of digits, and no stop.
		"tokens wanted": {path: "/v1/messages", clamped: true, body: `{"model":"smollm2:135m","max_tokens":1e300,"stop_sequences":[" ","e","a"],"messages":[{"role":"user","content":"What is the capital of France?"}]}`},
	} {
		b.name = "number: " + name
		list = append(list, b)
	}

	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	require.NoError(t, err)
	blank := bytes.Repeat([]byte{' '}, 1<<20)
	for range 4096 {
		_, err = z.Write(blank)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.Less(t, packed.Len(), 1<<20)
	pixel := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n"))
	return append(list,
		bomb{name: "body: 4 GiB in zstd", path: "/v1/responses", body: packed.String(), header: http.Header{"Content-Encoding": {"zstd"}}},
		bomb{name: "body: 10,000 deep", path: "/v1/chat/completions", body: `{"model":"smollm2:135m","messages":[{"role":"user","content":"x"}],"tools":` + nested("[", "]", 10_000, "") + `}`},
		bomb{name: "body: images", path: "/api/chat", body: `{"model":"smollm2:135m","messages":[{"role":"user","content":"x","images":[` + repeated(`"`+pixel+`"`, 10_000, ",") + `]}]}`},
		bomb{name: "body: messages", path: "/v1/chat/completions", body: `{"model":"smollm2:135m","messages":[` + repeated(`{"role":"user","content":"word word word"}`, 300_000, ",") + `]}`},
		bomb{name: "body: one word of 10 MB", path: "/api/generate", body: `{"model":"smollm2:135m","prompt":"` + strings.Repeat("a", 10<<20) + `"}`},
	)
}

// TestBombsBesideALiveStream is check 6: every request has its budget before native code or a template sees it. Each bomb is
// refused quickly, or answered with what is possible; streams go on in the same engine process, and nothing is quarantined.
func TestBombsBesideALiveStream(t *testing.T) {
	s := Start(t, nil)
	s.mustAnswer()
	engines := children(s.Cmd.Process.Pid)
	require.NotEmpty(t, engines)

	over := make(chan struct{})
	streams := 0
	var live sync.WaitGroup
	live.Go(func() {
		for {
			resp, err := s.open(context.Background(), "/api/chat", chat("Count from 1 to 50.", map[string]any{"num_predict": 120}))
			if !assert.NoError(t, err) {
				return
			}
			lines := stream(t, resp.Body)
			resp.Body.Close()
			if !assert.NotEmpty(t, lines) || !assert.True(t, lines[len(lines)-1].Done, "a stream beside the bombs broke off: %+v", lines[len(lines)-1]) {
				return
			}
			streams++
			select {
			case <-over:
				return
			default:
			}
		}
	})

	// 2 s is what a bomb may take on a laptop; the machines of tests are slower, and do other things.
	const limit = 30 * time.Second
	list := bombs(t)
	before := resident(s.Cmd.Process.Pid)
	for _, b := range list {
		began := time.Now()
		status, text := throw(t, s, b)
		if b.clamped {
			assert.Equal(t, 200, status, "%s at %s: %.300s", b.name, b.path, text)
		} else {
			assert.True(t, status >= 400 && status < 500, "%s at %s: %d %.300s", b.name, b.path, status, text)
		}
		if took := time.Since(began); took > limit {
			t.Errorf("%s at %s took %s", b.name, b.path, took)
		}
	}
	close(over)
	live.Wait()
	grew := (resident(s.Cmd.Process.Pid) - before) >> 20
	t.Logf("%d bombs beside %d streams; the server grew by %d MB", len(list), streams, grew)
	assert.Less(t, grew, int64(300), "what is refused is not kept")
	assert.Positive(t, streams)
	assert.Equal(t, engines, children(s.Cmd.Process.Pid), "an engine process was lost")
	var cards struct {
		Cards []struct {
			Model, Quarantined string
		}
	}
	s.Get("/ui/cards", &cards)
	require.NotEmpty(t, cards.Cards)
	for _, c := range cards.Cards {
		assert.Empty(t, c.Quarantined, c.Model)
	}
	s.mustAnswer()
}

// resident is the memory of the server's own process, without its engines.
func resident(pid int) int64 {
	total := memory(pid)
	for _, child := range children(pid) {
		total -= memory(child)
	}
	return total
}

func throw(t testing.TB, s *Server, b bomb) (status int, text string) {
	req, err := http.NewRequest("POST", s.URL+b.path, strings.NewReader(b.body))
	require.NoError(t, err)
	req.Header = http.Header{"Content-Type": {"application/json"}}
	for name, values := range b.header {
		req.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err, b.name)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err, b.name)
	return resp.StatusCode, string(answer)
}

// TestTwoKeysNeverShareASlot is check 10: how much of a prompt was there already says nothing about what others have asked.
func TestTwoKeysNeverShareASlot(t *testing.T) {
	s := Start(t, nil)
	ask := func(header, key, prompt string) int {
		t.Helper()
		body, err := json.Marshal(map[string]any{"model": model, "prompt": prompt, "raw": true, "stream": false, "options": map[string]any{"temperature": 0, "num_predict": 2}})
		require.NoError(t, err)
		req, err := http.NewRequest("POST", s.URL+"/api/generate", bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set(header, key)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		var l line
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&l))
		require.NotNil(t, l.Record)
		require.NotNil(t, l.Record.Cached)
		return *l.Record.Cached
	}
	var secret strings.Builder
	for i := range 60 {
		fmt.Fprintf(&secret, "The word number %d is %d. ", i, i*i)
	}
	right, wrong := secret.String(), "Other "+secret.String()
	const bearer = "Authorization"
	require.Zero(t, ask(bearer, "Bearer a", right))
	for _, other := range [][2]string{{bearer, "Bearer b"}, {"x-api-key", "b"}, {bearer, ""}} {
		guessed := ask(other[0], other[1], right)
		assert.Equal(t, ask(other[0], other[1], wrong+other[1]), guessed, "%v: a right guess looks like a wrong one", other)
		assert.Zero(t, guessed, "%v", other)
	}
	assert.Positive(t, ask(bearer, "Bearer a", right), "whose prompt it is goes on from it")
}
