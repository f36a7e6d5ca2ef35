package server_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/anthropic"
	"signalbox/backend/models"
	"signalbox/backend/ollama"
	"signalbox/backend/openai"
	"signalbox/backend/server"
	"signalbox/backend/wire"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &o), text)
	return o
}

func TestErrorsByCaseAreOllamas(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		path, body string
		status     int
		text       string
	}{
		{"/api/chat", "", 400, "missing request body"},
		{"/api/generate", " ", 400, "missing request body"},
		{"/api/chat", "}", 400, "invalid character '}' looking for beginning of value"},
		{"/api/chat", `{"model":`, 400, "it ends in the middle"},
		{"/api/chat", `{}`, 400, "model is required"},
		{"/api/show", `{}`, 400, "model is required"},
		{"/api/generate", `{}`, 404, "model '' not found"},
		{"/api/generate", `{"model":"a b"}`, 400, "invalid model name"},
		{"/api/chat", `{"model":"a b"}`, 400, "invalid model name"},
		{"/api/chat", `{"model":"x","messages":[{"role":"user","content":"hi"}]}`, 404, "model 'x' not found: there is smollm2:135m"},
		{"/api/chat", `{"model":"x"}`, 404, "model 'x' not found: there is smollm2:135m"},
		{"/api/generate", `{"model":"x","keep_alive":0}`, 404, "model 'x' not found"},
		{"/api/show", `{"model":"x"}`, 404, "model 'x' not found: there is smollm2:135m"},
		{"/api/show", `{"name":"../../etc/passwd"}`, 404, "model '../../etc/passwd' not found"},
		{"/api/generate", `{"model":"smollm2:135m","prompt":"x","raw":true,"system":"y"}`, 400, "raw mode does not support template, system, or context"},
		{"/api/chat", `{"model":"smollm2:135m","top_logprobs":21}`, 400, "top_logprobs must be between 0 and 20"},
		{"/api/chat", `{"model":"smollm2:135m","keep_alive":true}`, 400, "Unsupported type: 'bool'"},
		{"/api/chat", `{"model":"smollm2:135m","think":"x"}`, 400, `invalid think value: "x" (must be "high", "medium", "low", "max", true, or false)`},
		{"/api/chat", `{"model":"smollm2:135m","messages":[{"role":"user","content":"x"}],"think":true}`, 400, `"smollm2:135m" does not support thinking`},
		{"/api/generate", `{"model":"smollm2:135m","prompt":"x","suffix":"y"}`, 400, `"smollm2:135m" does not support insert`},
		{"/api/me", `{}`, 501, "a route of Ollama's cloud"},
		{"/api/chat", `{"model":"smollm2:135m","options":{"num_ctx":"2048"}}`, 400, `option "num_ctx" must be of type integer`},
		{"/api/chat", `{"model":"smollm2:135m","options":{"temperature":"hot"}}`, 400, `option "temperature" must be of type float32`},
		{"/api/embed", `{"model":"all-minilm","input":7}`, 400, "invalid input type"},
		{"/api/embed", `{"model":"all-minilm","input":[7]}`, 400, "invalid input type"},
	} {
		resp, text := do(t, "POST", r.public.URL+tt.path, tt.body)
		assert.Equal(t, tt.status, resp.StatusCode, "%s %s", tt.path, tt.body)
		if !assert.Contains(t, object(t, text)["error"], tt.text) {
			t.Log(tt.path, tt.body)
		}
	}
}

func TestErrorsByCaseAreOpenAIs(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		path, body        string
		status            int
		text, param, code any
	}{
		{"/v1/chat/completions", `{"model":"smollm2:135m","messages":[]}`, 400, "[] is too short - 'messages'", "messages", nil},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, 400, "you must provide a model parameter", "model", nil},
		{"/v1/chat/completions", `{"model":"gpt 4","messages":[{"role":"user","content":"x"}]}`, 404, "model 'gpt 4' not found: there is smollm2:135m", "model", "model_not_found"},
		{"/v1/chat/completions", `{"model":"x","messages":"hi"}`, 400, "Invalid type for 'messages': expected an array, but got a string instead.", "messages", nil},
		{"/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"x"}],"temperature":"hot"}`, 400, "Invalid type for 'temperature': expected a decimal, but got a string instead.", "temperature", nil},
		{"/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"x"}],"n":2}`, 400, "n > 1 is not supported: send the request 2 times", "n", "not_supported"},
		{"/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}]}`, 400, "images are not supported yet: send text only", "messages[0].content[0].type", "not_supported"},
		{"/v1/embeddings", `{"model":"all-minilm","input":[[1,2]]}`, 400, "input as token ids is not supported: send text (LangChain: check_embedding_ctx_length=False)", "input", nil},
		{"/v1/completions", `{"model":"smollm2:135m","prompt":"x","suffix":"y"}`, 400, `"smollm2:135m" does not support insert`, nil, "not_supported"},
		{"/v1/embeddings", `{"model":"all-minilm","input":"x","stream":true}`, 400, "stream: this route answers with one JSON object and cannot stream", "stream", nil},
		{"/v1/embeddings", `{"model":"all-minilm","input":""}`, 400, "invalid input", "input", nil},
		{"/v1/embeddings", `{"model":"all-minilm","input":"x","encoding_format":"int8"}`, 400, "encoding_format must be float or base64", "encoding_format", nil},
	} {
		resp, text := do(t, "POST", r.public.URL+tt.path, tt.body)
		assert.Equal(t, tt.status, resp.StatusCode, "%s", tt.body)
		e, _ := object(t, text)["error"].(map[string]any)
		assert.Equal(t, tt.text, e["message"])
		assert.Equal(t, tt.param, e["param"])
		assert.Equal(t, tt.code, e["code"])
	}
	resp, text := do(t, "GET", r.public.URL+"/v1/models/nothing/here", "")
	assert.Equal(t, 404, resp.StatusCode)
	assert.Equal(t, "model_not_found", object(t, text)["error"].(map[string]any)["code"])
	resp, text = do(t, "GET", r.public.URL+"/v1/models/smollm2:135m", "")
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, map[string]any{"id": chatModel, "object": "model", "created": 1785585600.0, "owned_by": "library"}, object(t, text))
}

func TestEmptyPromptsLoadAndUnload(t *testing.T) {
	r := newRig(t)
	for path, bodies := range map[string][2]string{
		"/api/generate": {`{"model":"smollm2:135m"}`, `{"model":"smollm2:135m","keep_alive":"0s"}`},
		"/api/chat":     {`{"model":"smollm2:135m","messages":[]}`, `{"model":"smollm2:135m","messages":[],"keep_alive":0}`},
	} {
		for i, reason := range []string{"load", "unload"} {
			resp, text := do(t, "POST", r.public.URL+path, bodies[i])
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, "application/json; charset=utf-8", resp.Header.Get("Content-Type"))
			o := object(t, text)
			assert.Equal(t, true, o["done"])
			assert.Equal(t, reason, o["done_reason"])
			assert.Equal(t, chatModel, o["model"])
		}
	}
}

func TestEmbeddingsInEveryShape(t *testing.T) {
	r := newRig(t)
	_, text := do(t, "POST", r.public.URL+"/v1/embeddings", `{"model":"all-minilm","input":"one"}`)
	floats := object(t, text)["data"].([]any)[0].(map[string]any)["embedding"].([]any)
	_, text = do(t, "POST", r.public.URL+"/v1/embeddings", `{"model":"all-minilm","input":["one"],"encoding_format":"base64"}`)
	encoded := object(t, text)["data"].([]any)[0].(map[string]any)["embedding"].(string)
	b, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err)
	require.Len(t, b, 4*len(floats))
	assert.InDelta(t, floats[0], math.Float32frombits(binary.LittleEndian.Uint32(b)), 1e-6)

	for body, want := range map[string]string{
		`{"model":"all-minilm","input":[]}`: `[]`, `{"model":"all-minilm","input":""}`: `[]`, `{"model":"all-minilm"}`: `[]`,
	} {
		resp, text := do(t, "POST", r.public.URL+"/api/embed", body)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Contains(t, text, `"embeddings":`+want)
	}
	_, text = do(t, "POST", r.public.URL+"/api/embeddings", `{"model":"all-minilm","prompt":""}`)
	assert.Contains(t, text, `"embedding":[]`)
}

// TestA21NumbersAreInOneTable writes the tables of all dialects into one file: what a field may be, and what happens beyond.
func TestA21NumbersAreInOneTable(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-20s %-8s %22s %22s  %s\n", "dialect", "field", "type", "least", "most", "beyond")
	for _, d := range []struct {
		name string
		rows []wire.Number
	}{{"ollama", ollama.Numbers}, {"openai", openai.Numbers}, {"anthropic", anthropic.Numbers}} {
		for _, n := range d.rows {
			kind, beyond := "number", "clamped"
			if n.Integer {
				kind = "integer"
			}
			if n.Refuse {
				beyond = "400"
			}
			fmt.Fprintf(&b, "%-10s %-20s %-8s %22.10g %22.10g  %s\n", d.name, n.Name, kind, n.Min, n.Max, beyond)
		}
	}
	fmt.Fprintf(&b, "%-10s %-20s %-8s %22s %22s  %s\n", "all", "keep_alive", "number", "0 s", "292 years", "for ever")
	golden(t, "numbers.txt", b.String())
}

func TestOneTextOfManyNeverFailsTheBatch(t *testing.T) {
	r := newRig(t)
	for path, key := range map[string]string{"/api/embed": "embeddings", "/v1/embeddings": "data"} {
		resp, text := do(t, "POST", r.public.URL+path, `{"model":"all-minilm","input":["a\ud800b","\udfff","\ud83d\ude00",""," "]}`)
		assert.Equal(t, 200, resp.StatusCode, text)
		assert.Len(t, object(t, text)[key], 5, "lone surrogates are no reason")
		resp, text = do(t, "POST", r.public.URL+path, `{"model":"all-minilm","input":[`+strings.Repeat(`"a text of a corpus",`, 1999)+`"last"]}`)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Len(t, object(t, text)[key], 2000)
	}
}

func TestR20ModelsHaveTheShapeOfWhoAsks(t *testing.T) {
	r := newRig(t)
	_, text := do(t, "GET", r.public.URL+"/v1/models", "", "anthropic-version", "2023-06-01")
	o := object(t, text)
	assert.Equal(t, false, o["has_more"])
	assert.Equal(t, chatModel, o["first_id"])
	_, text = do(t, "GET", r.public.URL+"/v1/models/"+chatModel, "", "anthropic-version", "2023-06-01")
	assert.Equal(t, chatModel, object(t, text)["display_name"])
	resp, text := do(t, "GET", r.public.URL+"/v1/models/nobody", "", "anthropic-version", "2023-06-01")
	assert.Equal(t, 404, resp.StatusCode)
	assert.Equal(t, "error", object(t, text)["type"])
}

func TestClientsFindModelsAsTheyExpect(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/api/tags", "/api/ps", "/api/version", "/v1/models"} {
		_, text := do(t, "GET", r.public.URL+path, "")
		golden(t, strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")+".json", text+"\n")
	}
	_, text := do(t, "POST", r.public.URL+"/api/show", `{"name":"smollm2:135m"}`)
	golden(t, "api-show.json", text+"\n")
	_, text = do(t, "POST", r.public.URL+"/api/show", `{"model":"smollm2:135m"}`, "User-Agent", "GitHubCopilotChat/1")
	assert.Equal(t, "smollm2:135m", object(t, text)["model_info"].(map[string]any)["general.basename"])
	_, version := do(t, "GET", r.public.URL+"/api/version", "")
	assert.Regexp(t, `^\d+\.\d+\.\d+$`, object(t, version)["version"])
}

func TestWithoutModelsListsAreEmptyAndNotNull(t *testing.T) {
	r := newRig(t, func(d *server.Deps) { d.Models = library{} })
	_, text := do(t, "GET", r.public.URL+"/v1/models", "")
	assert.Equal(t, `{"object":"list","data":[]}`, text)
	_, text = do(t, "GET", r.public.URL+"/api/tags", "")
	assert.Equal(t, `{"models":[]}`, text)
	assert.Equal(t, `{"models":[]}`, string(ollama.PsBody(nil)))
	assert.NotContains(t, string(ollama.ShowBody(models.Model{}, "", nil)), "null")
}

func TestA22BodiesHaveLimits(t *testing.T) {
	r := newRig(t)
	deep := `{"model":"smollm2:135m","tools":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`
	resp, text := do(t, "POST", r.public.URL+"/api/chat", deep)
	assert.Equal(t, 400, resp.StatusCode)
	assert.Contains(t, text, "nested deeper than 200 levels")
	resp, text = do(t, "POST", r.public.URL+"/api/chat", "x", "Content-Encoding", "br")
	assert.Equal(t, 415, resp.StatusCode)
	assert.Contains(t, text, "gzip or zstd")

	conn, err := net.Dial("tcp", r.public.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	go func() {
		_, _ = fmt.Fprintf(conn, "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
		chunk := strings.Repeat(" ", 1<<20)
		for range 80 {
			if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", len(chunk), chunk); err != nil {
				return // the server has had enough
			}
		}
	}()
	answer, err := io.ReadAll(io.LimitReader(conn, 400))
	if len(answer) == 0 {
		require.NoError(t, err)
	}
	assert.Contains(t, string(answer), " 413 ")
	assert.Contains(t, string(answer), "larger than 64 MiB")
}

// TestA21NumbersNeverBreakAnything sends the ends of every row and what lies beyond, in all dialects.
func TestA21NumbersNeverBreakAnything(t *testing.T) {
	r := newRig(t)
	values := func(n wire.Number) []string {
		list := []string{"1e308", "-1e308", "1e999", "-0", "0", "9223372036854775808", "-9223372036854775809", "0.5", "-1", "1e12", "null", `"7"`, "[]", "{}", "true"}
		for _, v := range []float64{n.Min, n.Max, n.Min - 1, n.Max + 1} {
			list = append(list, fmt.Sprintf("%.0f", v))
		}
		return list
	}
	try := func(path, body string) {
		resp, text := do(t, "POST", r.public.URL+path, body)
		assert.Less(t, resp.StatusCode, 500, "%s %s %s", path, body, text)
	}
	for _, n := range openai.Numbers {
		for _, v := range values(n) {
			try("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"x"}],%q:%s}`, chatModel, n.Name, v))
			try("/v1/embeddings", fmt.Sprintf(`{"model":%q,"input":"x",%q:%s}`, embedModel, n.Name, v))
		}
	}
	for _, n := range append([]wire.Number{{Name: "num_keep"}, {Name: "num_gpu"}, {Name: "num_batch"}}, ollama.Numbers...) {
		for _, v := range values(n) {
			try("/api/generate", fmt.Sprintf(`{"model":%q,"prompt":"x","stream":false,"options":{%q:%s}}`, chatModel, n.Name, v))
			try("/api/chat", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"x"}],%q:%s}`, chatModel, n.Name, v))
			try("/api/embed", fmt.Sprintf(`{"model":%q,"input":"x",%q:%s}`, embedModel, n.Name, v))
		}
	}
	for _, n := range append(openai.Numbers, anthropic.Numbers...) {
		for _, v := range values(n) {
			try("/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"x",%q:%s}`, chatModel, n.Name, v))
			try("/v1/responses", fmt.Sprintf(`{"model":%q,"input":"x",%q:%s}`, chatModel, n.Name, v))
			try("/v1/messages", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"x"}],"max_tokens":9,"thinking":{"type":"enabled",%q:%s},%q:%s}`, chatModel, n.Name, v, n.Name, v))
		}
	}
	for _, v := range values(wire.Number{Min: -1, Max: 1 << 40}) {
		try("/api/generate", fmt.Sprintf(`{"model":%q,"prompt":"x","keep_alive":%s}`, chatModel, v))
	}
	try("/api/generate", fmt.Sprintf(`{"model":%q,"prompt":"x","options":{"stop":[%s"x"]}}`, chatModel, strings.Repeat(`"x",`, 100000)))
	try("/v1/embeddings", fmt.Sprintf(`{"model":%q,"input":[%s"x"]}`, embedModel, strings.Repeat(`"x",`, 100000)))
}
