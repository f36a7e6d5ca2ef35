package ollama_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/ollama"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func chat(t *testing.T, fields string) ollama.Generation {
	t.Helper()
	g, err := ollama.ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],` + fields + `}`))
	require.NoError(t, err, fields)
	return g
}

func TestRequestsOfRealClients(t *testing.T) {
	for name, body := range map[string]string{
		"python":    `{"model":"smollm2:135m","stream":false,"options":{},"messages":[{"role":"user","content":"hi"}],"tools":[]}`,
		"aider":     `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"u","images":[]}],"options":{"num_ctx":8192,"temperature":0},"stream":true}`,
		"continue":  `{"model":"m","messages":[{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"b":1,"a":2}}}]},{"role":"tool","content":"r"}],"options":{"num_ctx":8192,"num_predict":4096,"stop":["<|im_end|>"],"num_thread":4},"keep_alive":1800}`,
		"zed":       `{"model":"m","messages":[{"role":"user","content":"u"}],"stream":true,"keep_alive":-1,"options":{"num_ctx":4096,"stop":[]},"think":false,"tools":[{"type":"function","function":{"name":"f"}}]}`,
		"assistant": `{"model":"m","messages":[{"role":"Developer","content":"s"},{"role":"user","content":"u"}],"keep_alive":"300s","format":null,"options":{"seed":-1,"num_gpu":99,"mirostat_tau":5}}`,
		"pinned":    `{"model":"m:1b@npu","messages":[{"role":"user","content":"u"}],"options":{"device":"GPU.1"},"shift":true,"truncate":false,"logprobs":true,"top_logprobs":3}`,
	} {
		g, err := ollama.ParseChat([]byte(body))
		require.NoError(t, err, name)
		got, err := json.MarshalIndent(g, "", "  ")
		require.NoError(t, err)
		golden(t, "request-"+name+".json", string(got)+"\n")
	}
	g, err := ollama.ParseGenerate([]byte(`{"model":"m","prompt":"<PRE>x","raw":true,"stream":false,"suffix":"","template":"","system":"","context":[],"images":[],"options":{"stop":["<EOT>"],"num_predict":64}}`))
	require.NoError(t, err)
	got, err := json.MarshalIndent(g, "", "  ")
	require.NoError(t, err)
	golden(t, "request-raw.json", string(got)+"\n")
}

func TestStreamsUnlessToldOtherwise(t *testing.T) {
	assert.True(t, chat(t, `"x":1`).Stream)
	assert.True(t, chat(t, `"stream":null`).Stream)
	assert.False(t, chat(t, `"stream":false`).Stream)
}

func TestKeepAlive(t *testing.T) {
	const forever = -time.Second
	for raw, want := range map[string]time.Duration{
		"0": 0, "-0": 0, "300": 5 * time.Minute, "0.5": 500 * time.Millisecond, "-1": forever, "1e308": forever, "1e999": forever,
		"9223372036854775808": forever, `"5m"`: 5 * time.Minute, `"0"`: 0, `"-1m"`: forever, `"1h30m"`: 90 * time.Minute,
	} {
		g := chat(t, `"keep_alive":`+raw)
		if assert.NotNil(t, g.KeepAlive, raw) {
			assert.Equal(t, want, *g.KeepAlive, raw)
		}
	}
	assert.Nil(t, chat(t, `"keep_alive":null`).KeepAlive)
}

func TestFieldsThatWouldChangeTheAnswerAreRefused(t *testing.T) {
	for fields, want := range map[string]string{
		`"format":"json"`:              "not supported yet",
		`"format":{"type":"object"}`:   "not supported yet",
		`"format":"xml"`:               `invalid format: "xml"; expected "json" or a valid JSON Schema object`,
		`"format":7`:                   "invalid format: 7",
		`"images":["aGk="]`:            "images are not supported yet",
		`"suffix":"}"`:                 `"m" does not support insert`,
		`"template":"{{ .Prompt }}"`:   "a template in the request is not supported",
		`"keep_alive":{}`:              "Unsupported type: 'map[string]interface {}'",
		`"keep_alive":"soon"`:          `time: invalid duration "soon"`,
		`"options":[]`:                 "options must be of type object, not array",
		`"options":{"num_keep":"all"}`: `option "num_keep" must be of type integer`,
		`"options":{"stop":[1]}`:       `option "stop[0]" must be of type string`,
		`"options":{"device":"tpu"}`:   `option "device" must be npu, gpu or cpu`,
		`"stream":"yes"`:               "stream must be of type boolean, not string",
		`"prompt":["a"]`:               "prompt must be of type string, not array",
		`"prompt":"a\u0000b"`:          "NUL",
	} {
		_, err := ollama.ParseGenerate([]byte(`{"model":"m","prompt":"p",` + fields + `}`))
		assert.ErrorContains(t, err, want, fields)
		assert.NotEmpty(t, err.(*llm.Error).Message)
	}
	_, err := ollama.ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"u","images":["aGk="]}]}`))
	assert.ErrorContains(t, err, "images are not supported yet")
	assert.Equal(t, llm.CodeUnsupported, llm.CodeOf(err))
	_, err = ollama.ParseChat([]byte(`{"model":"m","messages":[{"role":"robot","content":"u"}]}`))
	assert.ErrorContains(t, err, "messages[0].role must be system, user, assistant or tool")
	_, err = ollama.ParseChat([]byte(`{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`))
	assert.ErrorContains(t, err, "messages[0].tool_calls[0].function.arguments must be of type object, not string")
}

func TestNothingIsLostInSilence(t *testing.T) {
	g := chat(t, `"tools":[{"type":"function"}],"think":true,"shift":true,"truncate":true,"temprature":1,"options":{"num_keep":4,"use_mmap":true,"num_ctx":1e12,"top_p":7,"mirostat":1}`)
	assert.Equal(t, []string{"options.num_keep", "options.mirostat", "options.use_mmap", "think", "truncate", "shift", "tools", "temprature"}, g.LLM.Ignored)
	assert.Equal(t, []string{"options.num_ctx", "options.top_p"}, g.LLM.Clamped)
	assert.Nil(t, g.LLM.Tools)
	gen, err := ollama.ParseGenerate([]byte(`{"model":"m","prompt":"p","context":[1,2]}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"context"}, gen.LLM.Ignored)
}

var (
	at    = time.Date(2026, 8, 1, 12, 0, 0, 123456789, time.UTC)
	ms    = 41.5
	rec   = llm.Record{TraceID: "t", ModelUsed: "m", LoadMS: &ms, RoutedDevice: "NPU", ExecutionDevice: "CPU", FallbackReason: "busy"}
	stats = llm.Stats{PromptTokens: 10, CompletionTokens: 3, Finish: "weird", Prefill: time.Millisecond, Decode: 2 * time.Millisecond}
)

func TestLinesAreThese(t *testing.T) {
	var b strings.Builder
	for _, generate := range []bool{false, true} {
		l := ollama.Lines{Model: "m:latest", Generate: generate, Now: func() time.Time { return at }}
		probs := []llm.TokenLogprob{{Token: "hé", Bytes: []int{104, 195, 169}, Logprob: -0.5, Top: []llm.TokenLogprob{{Token: "x", Logprob: -1}}}}
		for _, line := range [][]byte{
			l.Piece(llm.Delta{Text: "<b>hé</b> \u2028"}), l.Piece(llm.Delta{Text: "hé", Logprobs: probs}), l.Wait(), l.Done(time.Second, rec, stats),
			l.Whole("all", probs, time.Second, rec, llm.Stats{Finish: llm.FinishLength}), l.Loaded(time.Second, rec), l.Unloaded(),
		} {
			b.Write(append(line, '\n'))
		}
	}
	b.Write(append(ollama.ErrorBody(llm.PromptTooLong(2068, 1024)), '\n'))
	b.Write(append(ollama.EmbedBody("e", time.Second, rec, llm.Embedded{Vectors: [][]float32{{0.25, -1}}, Tokens: 3}), '\n'))
	b.Write(append(ollama.EmbeddingsBody(rec, llm.Embedded{Vectors: [][]float32{{0.1}}}), '\n'))
	golden(t, "lines.ndjson", b.String())
}

func TestModelsAreShownWithTheirParameters(t *testing.T) {
	m := models.Model{Name: "m", Family: "qwen3", Template: "{{ x }}", Capabilities: []string{"completion"}, ModifiedAt: at, Parameters: []models.Parameter{
		{Name: "temperature", Value: json.RawMessage("0.6")}, {Name: "stop", Value: json.RawMessage(`["<|im_end|>","<|endoftext|>"]`)},
	}}
	golden(t, "show.json", string(ollama.ShowBody(m, ""))+"\n")
}

func TestPsTellsWhereAModelReallyIs(t *testing.T) {
	device := func(class string, emulated bool) llm.Device { return llm.Device{Class: class, Emulated: emulated} }
	golden(t, "ps.json", string(ollama.PsBody([]ollama.Loaded{
		{Model: models.Model{Name: "soon"}, Device: device(llm.CPU, false), Bytes: 7, ExpiresAt: at},
		{Model: models.Model{Name: "never"}, Device: device(llm.GPU, false), Bytes: 7},
		{Model: models.Model{Name: "later"}, Device: device(llm.NPU, true), Bytes: 7, ExpiresAt: at.Add(time.Hour)},
	}))+"\n")
}

func FuzzRequests(f *testing.F) {
	f.Add(`{"model":"m","messages":[{"role":"user","content":"hi","tool_calls":[{"function":{"arguments":{}}}]}],"options":{"stop":"x","num_ctx":1e9},"keep_alive":"5m","think":"high"}`)
	f.Add(`{"model":"m","prompt":"p","suffix":"s","context":[1],"images":["x"],"format":{"type":"object"}}`)
	f.Add(`{"model":"m","input":["a","b"],"truncate":false,"dimensions":3}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, parse := range []func([]byte) (ollama.Generation, error){ollama.ParseChat, ollama.ParseGenerate} {
			g, err := parse([]byte(body))
			check(t, g.LLM, err)
		}
		for _, parse := range []func([]byte) (ollama.Embedding, error){ollama.ParseEmbed, ollama.ParseEmbeddings} {
			e, err := parse([]byte(body))
			check(t, e.LLM, err)
		}
		_, _ = ollama.ParseShow([]byte(body))
	})
}

// check holds what every decoded request promises.
func check(t *testing.T, req llm.Request, err error) {
	if err != nil {
		code := llm.CodeOf(err)
		if code != llm.CodeInvalid && code != llm.CodeUnsupported && code != llm.CodeModelNotFound {
			t.Fatalf("%v is %s", err, code)
		}
		return
	}
	s := req.Sampling
	if s.Temperature < 0 || s.TopP < 0 || s.TopP > 1 || s.RepeatPenalty <= 0 || req.MaxTokens < 0 || req.ContextLimit < 0 || req.Model == "" {
		t.Fatalf("out of range: %+v", req)
	}
}
