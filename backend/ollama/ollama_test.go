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
	"signalbox/backend/wire"
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
		`"format":"xml"`:                                  `invalid format: "xml"; expected "json" or a valid JSON Schema object`,
		`"format":7`:                                      "invalid format: 7",
		`"images":["aGk="]`:                               "images are not supported yet",
		`"template":"{{ .Prompt }}"`:                      "template is in Go's template language",
		`"template":"{{- if .System }}"`:                  "template is in Go's template language",
		`"template":"` + strings.Repeat("x", 70000) + `"`: "template has 70000 bytes",
		`"context":[1,-1]`:                                "context[1] must be a token id",
		`"context":["x"]`:                                 "context[0] must be a token id",
		`"raw":true,"context":[1]`:                        "raw mode does not support template, system, or context",
		`"think":"hard"`:                                  `invalid think value: "hard" (must be "high", "medium", "low", "max", true, or false)`,
		`"think":1`:                                       `invalid think value: 1 (must be`,
		`"keep_alive":{}`:                                 "Unsupported type: 'map[string]interface {}'",
		`"keep_alive":"soon"`:                             `keep_alive: "soon" is no duration: write seconds as a number, or 5m, or 1h30m`,
		`"options":[]`:                                    "options must be of type object, not array",
		`"options":{"num_keep":"all"}`:                    `option "num_keep" must be of type integer`,
		`"options":{"stop":[1]}`:                          `option "stop[0]" must be of type string`,
		`"options":{"device":"tpu"}`:                      `option "device" must be npu, gpu or cpu`,
		`"stream":"yes"`:                                  "stream must be of type boolean, not string",
		`"prompt":["a"]`:                                  "prompt must be of type string, not array",
		`"prompt":"a\u0000b"`:                             "NUL",
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
	g := chat(t, `"tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}}],"shift":true,"truncate":true,"temprature":1,"options":{"num_keep":4,"use_mmap":true,"num_ctx":1e12,"top_p":7,"mirostat":1}`)
	assert.Equal(t, []string{"options.num_keep", "options.mirostat", "options.use_mmap", "truncate", "shift", "tools[0] (web_search)", "temprature"}, g.LLM.Ignored)
	assert.Equal(t, []string{"options.num_ctx", "options.top_p"}, g.LLM.Clamped)
	assert.JSONEq(t, `[{"type":"function","function":{"name":"f"}}]`, string(g.LLM.Tools))
}

func TestWhatTheAnswerMustBeIsRead(t *testing.T) {
	assert.Equal(t, &llm.Constraint{JSON: true}, chat(t, `"format":"json"`).LLM.Constraint)
	assert.Equal(t, `{"type":"object","properties":{"b":{},"a":{}}}`, string(chat(t, `"format": {"type":"object","properties":{"b":{},"a":{}}} `).LLM.Constraint.Schema))
	assert.Nil(t, chat(t, `"format":""`).LLM.Constraint)
	assert.Equal(t, &llm.Think{Enabled: true}, chat(t, `"think":true`).LLM.Think)
	assert.Equal(t, &llm.Think{}, chat(t, `"think":false`).LLM.Think)
	assert.Equal(t, &llm.Think{Enabled: true, Effort: "high"}, chat(t, `"think":"high"`).LLM.Think)
	assert.Nil(t, chat(t, `"think":null`).LLM.Think)
	assert.Equal(t, "required", chat(t, `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"any"`).LLM.ToolChoice.Mode)
	g, err := ollama.ParseGenerate([]byte(`{"name":"m","prompt":"def f(","suffix":"return","template":"{{ prompt }}","context":[1,2]}`))
	require.NoError(t, err)
	assert.Equal(t, "m", g.Model, "older clients say name")
	assert.Equal(t, "return", g.LLM.Suffix)
	assert.Equal(t, "{{ prompt }}", g.LLM.Template)
	assert.Equal(t, []int32{1, 2}, g.LLM.Context)
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
		for _, lines := range [][][]byte{
			l.Piece(llm.Delta{Text: "<b>hé</b> \u2028"}), l.Piece(llm.Delta{Text: "hé", Logprobs: probs}), {l.Wait()}, l.Done(time.Second, rec, stats),
			{l.Whole(parts(llm.Delta{Text: "all", Logprobs: probs}), time.Second, rec, llm.Stats{Finish: llm.FinishLength}), l.Loaded(time.Second, rec), l.Unloaded()},
		} {
			for _, line := range lines {
				b.Write(append(line, '\n'))
			}
		}
	}
	b.Write(append(ollama.ErrorBody(llm.PromptTooLong(2068, 1024)), '\n'))
	b.Write(append(ollama.EmbedBody("e", time.Second, rec, llm.Embedded{Vectors: [][]float32{{0.25, -1}}, Tokens: 3}), '\n'))
	b.Write(append(ollama.EmbeddingsBody(rec, llm.Embedded{Vectors: [][]float32{{0.1}}}), '\n'))
	golden(t, "lines.ndjson", b.String())
}

func parts(deltas ...llm.Delta) *wire.Parts {
	var p wire.Parts
	for _, d := range deltas {
		p.Add(d)
	}
	p.End()
	return &p
}

// called is an answer that thinks, speaks, calls twice and is cut short in a third call.
var called = []llm.Delta{
	{Thinking: "hm"}, {Text: "Let me "}, {Text: "see."},
	{ToolCalls: []llm.ToolCallDelta{{Index: 0, ID: "call_a", Name: "f"}}}, {ToolCalls: []llm.ToolCallDelta{{Index: 0, Arguments: `{"b":1,`}}},
	{ToolCalls: []llm.ToolCallDelta{{Index: 0, Arguments: `"a":"<"}`, Done: true}}},
	{ToolCalls: []llm.ToolCallDelta{{Index: 1, ID: "call_b", Name: "g", Done: true}}},
	{ToolCalls: []llm.ToolCallDelta{{Index: 2, ID: "call_c", Name: "h", Arguments: `{"x":`}}},
}

func TestR04ToolCallsGoOutWholeWithAnObject(t *testing.T) {
	l := ollama.Lines{Model: "m", Now: func() time.Time { return at }}
	var b strings.Builder
	for _, d := range called {
		for _, line := range l.Piece(d) {
			b.Write(append(line, '\n'))
		}
	}
	for _, line := range l.Done(time.Second, rec, llm.Stats{Finish: llm.FinishTools}) {
		b.Write(append(line, '\n'))
	}
	b.Write(append(l.Whole(parts(called...), time.Second, rec, llm.Stats{Finish: llm.FinishTools}), '\n'))
	golden(t, "tools.ndjson", b.String())
}

func TestR19FillInTheMiddleShowsInTheTemplate(t *testing.T) {
	m := models.Model{Name: "m", Template: "{{ x }}", Capabilities: []string{"completion"}}
	assert.NotContains(t, string(ollama.ShowBody(m, "", nil)), ".Suffix")
	m.Capabilities = append(m.Capabilities, "insert")
	assert.Contains(t, string(ollama.ShowBody(m, "", nil)), ".Suffix")
}

func TestModelsAreShownWithTheirParameters(t *testing.T) {
	m := models.Model{Name: "m", Family: "qwen3", Template: "{{ x }}", Capabilities: []string{"completion"}, ModifiedAt: at, Digest: strings.Repeat("0a", 32), Parameters: []models.Parameter{
		{Name: "temperature", Value: json.RawMessage("0.6")}, {Name: "stop", Value: json.RawMessage(`["<|im_end|>","<|endoftext|>"]`)},
	}}
	golden(t, "show.json", string(ollama.ShowBody(m, "", []ollama.OnDevice{
		{Device: "cpu:0", Label: "CPU", ContextLength: 8192, TokensPerSecond: 12.5, Measured: true},
		{Device: "npu:0", Label: "NPU", ContextLength: 1151, PromptLimit: 1024},
	}))+"\n")
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
