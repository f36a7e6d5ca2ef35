package openai_test

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
	"signalbox/backend/openai"
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

func chat(fields string) (openai.Chat, error) {
	return openai.ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],` + fields + `}`))
}

func TestRequestsOfRealClients(t *testing.T) {
	for name, body := range map[string]string{
		"opencode": `{"model":"m","max_tokens":32000,"stream":true,"stream_options":{"include_usage":true},"tool_choice":"auto","tools":[{"type":"function","function":{"name":"read"}}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`,
		"pi":       `{"model":"m","max_completion_tokens":16384,"store":false,"stream":true,"messages":[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}}]},{"role":"tool","tool_call_id":"call_1","content":"r"}]}`,
		"cn":       `{"model":"m@npu","stream":true,"temperature":0.2,"top_p":0.9,"stop":"END","seed":42,"user":"u","metadata":{"a":1},"parallel_tool_calls":true,"messages":[{"role":"user","content":"u"}]}`,
		"sampling": `{"model":"m","messages":[{"role":"user","content":"u"}],"temperature":9,"frequency_penalty":-3,"logit_bias":{"50256":-100,"7":200},"logprobs":true,"top_logprobs":5,"top_k":20,"reasoning_effort":"low","n":1,"response_format":{"type":"text"}}`,
		"garbled":  `{"model":"m","messages":[{"role":"user","content":"u"},{"role":"assistant","reasoning_content":"hm","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{not json"}},{"id":"2","function":{"name":"g","arguments":""}},{"id":"3","function":{"name":"h","arguments":{"x":1}}}]}]}`,
	} {
		c, err := openai.ParseChat([]byte(body))
		require.NoError(t, err, name)
		got, err := json.MarshalIndent(c, "", "  ")
		require.NoError(t, err)
		golden(t, "request-"+name+".json", string(got)+"\n")
	}
}

func TestF23F24FieldsThatWouldChangeTheAnswerAreRefused(t *testing.T) {
	for fields, want := range map[string]string{
		`"response_format":{"type":"json_object"}`: "not supported yet",
		`"response_format":{"type":"json_schema"}`: "not supported yet",
		`"response_format":{"type":"xml"}`:         "response_format.type must be text, json_object or json_schema",
		`"response_format":"json"`:                 "Invalid type for 'response_format': expected an object, but got a string instead.",
		`"tool_choice":"required"`:                 "not supported yet",
		`"tool_choice":{"type":"function"}`:        "not supported yet",
		`"tool_choice":"any"`:                      "tool_choice must be none, auto, required",
		`"n":3`:                                    "n > 1 is not supported yet",
		`"n":1000000000`:                           "n must be between 1 and 128",
		`"n":0`:                                    "n must be between 1 and 128",
		`"modalities":["text","audio"]`:            "answers other than text",
		`"audio":{}`:                               "audio answers are not supported",
		`"top_logprobs":2`:                         "top_logprobs needs logprobs",
		`"max_tokens":"many"`:                      "Invalid type for 'max_tokens': expected an integer, but got a string instead.",
		`"max_tokens":1.5`:                         "expected an integer, but got a number with a fraction instead.",
		`"logit_bias":{"hello":1}`:                 "keys must be token ids",
		`"stop":[1]`:                               "Invalid type for 'stop[0]'",
	} {
		_, err := chat(fields)
		assert.ErrorContains(t, err, want, fields)
	}
	for content, want := range map[string]string{
		`[{"type":"input_audio"}]`: "only parts of type text",
		`[{"type":"image_url"}]`:   "images are not supported yet",
		`7`:                        "expected a string or array",
		`null`:                     "messages[0].content is required",
		`[{"type":"text"},"x"]`:    "Invalid type for 'messages[0].content[1]'",
	} {
		_, err := openai.ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":` + content + `}]}`))
		assert.ErrorContains(t, err, want, content)
	}
}

func TestF24BothNamesOfTheLimitWork(t *testing.T) {
	for fields, want := range map[string]int{
		`"max_tokens":7`: 7, `"max_completion_tokens":7`: 7, `"max_tokens":9,"max_completion_tokens":7`: 7, `"max_tokens":0`: 0, `"max_tokens":-1`: 0,
		`"max_tokens":1e18`: 1 << 24,
	} {
		c, err := chat(fields)
		require.NoError(t, err)
		assert.Equal(t, want, c.LLM.MaxTokens, fields)
	}
}

func TestNothingIsLostInSilence(t *testing.T) {
	c, err := chat(`"tools":[{}],"tool_choice":"auto","metadata":{},"store":true,"unknown_thing":1,"temperature":3,"stream_options":{"include_obfuscation":true}`)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"tools", "tool_choice", "metadata", "store", "unknown_thing", "stream_options.include_obfuscation"}, c.LLM.Ignored)
	assert.Equal(t, []string{"temperature"}, c.LLM.Clamped)
	c, err = chat(`"tools":[],"tool_choice":"none","n":1,"stop":null`)
	require.NoError(t, err)
	assert.Empty(t, c.LLM.Ignored)
}

func TestFramesAreThese(t *testing.T) {
	probs := []llm.TokenLogprob{{Token: "hé", Bytes: []int{104, 195, 169}, Logprob: -0.5, Top: []llm.TokenLogprob{{Token: "x", Bytes: []int{120}, Logprob: -1}}}}
	rec := llm.Record{TraceID: "t", ModelUsed: "m", RoutedDevice: "NPU", ExecutionDevice: "NPU"}
	stats := llm.Stats{PromptTokens: 10, CompletionTokens: 3, CachedTokens: 4, Finish: "weird"}
	plain := openai.Completion{ID: "chatcmpl-1", Created: 1785585600, Model: "m:latest", IncludeUsage: true}
	full := plain
	full.Logprobs = true
	frames := [][]byte{plain.Begin(), plain.Piece(llm.Delta{Text: "<b>\"hé\"</b>\n"}), full.Piece(llm.Delta{Text: "hé", Logprobs: probs})}
	frames = append(frames, plain.Done(rec, stats)...)
	frames = append(frames, plain.Whole("all", nil, rec, llm.Stats{Finish: llm.FinishLength}), full.Whole("all", probs, rec, stats))
	tooLong := llm.PromptTooLong(2068, 1024)
	tooLong.Param = "messages"
	at := time.Unix(1785585600, 0)
	frames = append(frames, openai.ErrorBody(tooLong), openai.ErrorBody(llm.Errorf(llm.CodeInternal, "x")),
		openai.ModelsBody(nil), openai.ModelsBody([]models.Model{{Name: "m", ModifiedAt: at}}), openai.ModelBody("M", models.Model{ModifiedAt: at}),
		openai.EmbeddingsBody(openai.Embeddings{Model: "e"}, rec, llm.Embedded{Vectors: [][]float32{{0.25, -1}}, Tokens: 2}),
		openai.EmbeddingsBody(openai.Embeddings{Model: "e", Base64: true}, rec, llm.Embedded{Vectors: [][]float32{{0.25, -1}}, Tokens: 2}))
	var b strings.Builder
	for _, f := range frames {
		require.True(t, json.Valid(f), "%s", f)
		require.NotContains(t, string(f), "\n", "a frame is one line")
		b.Write(append(f, '\n'))
	}
	golden(t, "frames.ndjson", b.String())
}

func FuzzRequests(f *testing.F) {
	f.Add(`{"model":"m","messages":[{"role":"assistant","content":[{"type":"text","text":"x"}],"tool_calls":[{"function":{"arguments":"{"}}]}],"logit_bias":{"1":2},"tool_choice":"auto","stop":["x"]}`)
	f.Add(`{"model":"m","input":["a"],"encoding_format":"base64","dimensions":2}`)
	f.Fuzz(func(t *testing.T, body string) {
		c, err := openai.ParseChat([]byte(body))
		if err == nil {
			s := c.LLM.Sampling
			if s.Temperature < 0 || s.Temperature > 2 || s.TopP < 0 || s.TopP > 1 || c.LLM.MaxTokens < 0 || len(c.LLM.Messages) == 0 {
				t.Fatalf("out of range: %+v", c.LLM)
			}
			for _, m := range c.LLM.Messages {
				for _, call := range m.ToolCalls {
					if !json.Valid(call.Arguments) || call.Arguments[0] != '{' {
						t.Fatalf("arguments are no object: %s", call.Arguments)
					}
				}
			}
		} else if code := llm.CodeOf(err); code != llm.CodeInvalid && code != llm.CodeUnsupported {
			t.Fatalf("%v is %s", err, code)
		}
		_, _ = openai.ParseEmbeddings([]byte(body))
	})
}
