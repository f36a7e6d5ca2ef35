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
		`"response_format":{"type":"json_schema"}`:                                        "response_format.schema is required",
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":[]}}`: "Invalid type for 'response_format.json_schema.schema': expected an object, but got an array instead.",
		`"response_format":{"type":"xml"}`:                                                "response_format.type must be text, json_object or json_schema",
		`"response_format":"json"`:                                                        "Invalid type for 'response_format': expected an object, but got a string instead.",
		`"tool_choice":"required"`:                                                        "tool_choice asks for a tool, but there are no tools",
		`"tool_choice":{"type":"function"}`:                                               "tool_choice.name is required",
		`"tool_choice":{"type":"function","function":{"name":"x"}},"tools":[{"type":"function","function":{"name":"f"}}]`: `tool_choice names the tool "x", which is not in tools`,
		`"tool_choice":"sometimes"`:                   "tool_choice must be none, auto, required",
		`"tool_choice":7`:                             "Invalid type for 'tool_choice': expected a string or object",
		`"tools":[{"type":"function"}]`:               "tools[0].function is required",
		`"tools":[{"type":"function","function":{}}]`: "tools[0].function.name is required",
		`"reasoning_effort":"extreme"`:                "reasoning_effort must be none, minimal, low, medium, high or xhigh",
		`"n":3`:                                       "n > 1 is not supported: send the request 3 times",
		`"n":1000000000`:                              "n must be between 1 and 128",
		`"n":0`:                                       "n must be between 1 and 128",
		`"modalities":["text","audio"]`:               "answers other than text",
		`"audio":{}`:                                  "audio answers are not supported",
		`"top_logprobs":2`:                            "top_logprobs needs logprobs",
		`"max_tokens":"many"`:                         "Invalid type for 'max_tokens': expected an integer, but got a string instead.",
		`"max_tokens":1.5`:                            "expected an integer, but got a number with a fraction instead.",
		`"logit_bias":{"hello":1}`:                    "keys must be token ids",
		`"stop":[1]`:                                  "Invalid type for 'stop[0]'",
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
	c, err := chat(`"tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}},{"type":"custom"}],"tool_choice":"auto","metadata":{},"store":true,"unknown_thing":1,"temperature":3,"stream_options":{"include_obfuscation":true}`)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"tools[0] (web_search)", "tools[2] (custom)", "metadata", "store", "unknown_thing", "stream_options.include_obfuscation"}, c.LLM.Ignored)
	assert.Equal(t, []string{"temperature"}, c.LLM.Clamped)
	assert.Equal(t, `[{"type":"function","function":{"name":"f"}}]`, string(c.LLM.Tools))
	c, err = chat(`"tools":[],"tool_choice":"none","n":1,"stop":null`)
	require.NoError(t, err)
	assert.Empty(t, c.LLM.Ignored)
	assert.Nil(t, c.LLM.Tools)
}

func TestF23ToolChoicesOfAllShapes(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"b":{},"a":{}}}}}],`
	no := false
	for fields, want := range map[string]llm.ToolChoice{
		`"x":1`:                {Strict: true},
		`"tool_choice":"none"`: {Mode: "none", Strict: true},
		`"tool_choice":"required","parallel_tool_calls":false`: {Mode: "required", Strict: true, Parallel: &no},
		`"tool_choice":"any"`: {Mode: "required", Strict: true},
		`"tool_choice":{"type":"function","function":{"name":"f"}}`:                             {Mode: "named", Name: "f", Strict: true},
		`"tool_choice":{"type":"function","name":"f"}`:                                          {Mode: "named", Name: "f", Strict: true},
		`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}`: {Mode: "required", Strict: true},
	} {
		c, err := chat(tools + fields)
		require.NoError(t, err, fields)
		assert.Equal(t, want, c.LLM.ToolChoice, fields)
	}
}

func TestThinkingAndFormatsInTheirManyWords(t *testing.T) {
	for fields, want := range map[string]*llm.Think{
		`"x":1`:                      nil,
		`"reasoning_effort":"none"`:  {},
		`"reasoning_effort":"high"`:  {Enabled: true, Effort: "high"},
		`"reasoning_effort":"xhigh"`: {Enabled: true, Effort: "max"},
		`"reasoning":{"effort":"minimal","max_tokens":99}`:       {Enabled: true, Effort: "low", Budget: 99},
		`"reasoning":{"enabled":false}`:                          {},
		`"chat_template_kwargs":{"enable_thinking":false,"x":1}`: {},
		`"think":true`: {Enabled: true},
	} {
		c, err := chat(fields)
		require.NoError(t, err, fields)
		assert.Equal(t, want, c.LLM.Think, fields)
	}
	for fields, want := range map[string]*llm.Constraint{
		`"response_format":{"type":"text"}`:        nil,
		`"response_format":{"type":"json_object"}`: {JSON: true},
		`"response_format":{"type":"json_schema","json_schema":{"name":"R","strict":true,"schema":{"b":1,"a":2}}}`: {Schema: json.RawMessage(`{"b":1,"a":2}`)},
	} {
		c, err := chat(fields)
		require.NoError(t, err, fields)
		assert.Equal(t, want, c.LLM.Constraint, fields)
	}
}

func TestResponsesOfRealClients(t *testing.T) {
	for name, body := range map[string]string{
		"codex": `{"model":"m","instructions":"You are Codex.","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"perm"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"ls"}]},
			{"type":"reasoning","summary":[{"type":"summary_text","text":"think"}],"encrypted_content":null},{"type":"function_call","call_id":"c1","name":"shell","arguments":"{\"cmd\":\"ls\"}"},{"type":"function_call","call_id":"c2","name":"read","arguments":"{}"},
			{"type":"function_call_output","call_id":"c1","output":"a b"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"x"}]},{"type":"web_search_call","id":"w"}],
			"tools":[{"type":"function","name":"shell","description":"d","strict":false,"parameters":{"type":"object","properties":{"cmd":{}}}},{"type":"namespace","name":"n"},{"type":"web_search"}],
			"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","client_metadata":{}}`,
		"plain":  `{"model":"m","input":"hi","max_output_tokens":16,"temperature":0.5,"text":{"format":{"type":"json_schema","name":"R","schema":{"type":"object"}},"verbosity":"low"},"metadata":{"a":"b"},"truncation":"auto"}`,
		"assist": `{"model":"m@cpu","input":[{"role":"user","content":"a"},{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"b","annotations":[]}]},{"role":"user","content":"c"}]}`,
	} {
		r, err := openai.ParseResponses([]byte(body))
		require.NoError(t, err, name)
		got, err := json.MarshalIndent(r, "", "  ")
		require.NoError(t, err)
		golden(t, "responses-"+name+".json", string(got)+"\n")
	}
	for fields, want := range map[string]string{
		`"input":"x","previous_response_id":"resp_1"`:                  "previous_response_id is not supported: no answers are kept here, so send the whole conversation in input",
		`"input":"x","conversation":"c"`:                               "conversation is not supported",
		`"input":"x","background":true`:                                "background is not supported",
		`"input":"x","prompt":{"id":"p"}`:                              "prompt is not supported",
		`"input":[]`:                                                   "input is required",
		`"input":7`:                                                    "Invalid type for 'input': expected a string or array",
		`"input":[{"type":"item_reference","id":"x"}]`:                 "input[0].id refers to an earlier answer",
		`"input":[{"role":"user","content":[{"type":"input_image"}]}]`: "images are not supported yet",
		`"input":"x","text":{"format":{"type":"json_schema"}}`:         "text.format.schema is required",
	} {
		_, err := openai.ParseResponses([]byte(`{"model":"m",` + fields + `}`))
		assert.ErrorContains(t, err, want, fields)
	}
}

func TestCompletionsTakeTextAsItIs(t *testing.T) {
	c, err := openai.ParseCompletions([]byte(`{"model":"m","prompt":["a","b"],"echo":true,"max_tokens":5}`))
	require.NoError(t, err)
	assert.True(t, c.LLM.Raw)
	assert.Equal(t, "b", c.Request(1).Prompt)
	c, err = openai.ParseCompletions([]byte(`{"model":"m","prompt":"def f(","suffix":"return","logprobs":2}`))
	require.NoError(t, err)
	assert.False(t, c.LLM.Raw, "the model's own form joins both")
	assert.Equal(t, "return", c.LLM.Suffix)
	assert.Equal(t, 2, c.LLM.TopLogprobs)
	for fields, want := range map[string]string{
		`"prompt":[[1,2]]`:                      "a prompt as token ids is not supported: send text",
		`"prompt":[1]`:                          "a prompt as token ids is not supported",
		`"prompt":[]`:                           "[] is too short - 'prompt'",
		`"x":1`:                                 "prompt must be a string or a list of strings",
		`"prompt":["a","b"],"stream":true`:      "a stream answers one prompt, not 2",
		`"prompt":"a","echo":true,"logprobs":1`: "echo with logprobs is not supported",
		`"prompt":"a","best_of":2`:              "best_of > 1 is not supported",
		`"prompt":"a","n":2`:                    "n > 1 is not supported",
	} {
		_, err := openai.ParseCompletions([]byte(`{"model":"m",` + fields + `}`))
		assert.ErrorContains(t, err, want, fields)
	}
}

func parts(deltas ...llm.Delta) *wire.Parts {
	var p wire.Parts
	for _, d := range deltas {
		p.Add(d)
	}
	p.End()
	return &p
}

func TestFramesAreThese(t *testing.T) {
	probs := []llm.TokenLogprob{{Token: "hé", Bytes: []int{104, 195, 169}, Logprob: -0.5, Top: []llm.TokenLogprob{{Token: "x", Bytes: []int{120}, Logprob: -1}}}}
	rec := llm.Record{TraceID: "t", ModelUsed: "m", RoutedDevice: "NPU", ExecutionDevice: "NPU"}
	stats := llm.Stats{PromptTokens: 10, CompletionTokens: 3, CachedTokens: 4, Finish: "weird"}
	plain := openai.Completion{ID: "chatcmpl-1", Created: 1785585600, Model: "m:latest", IncludeUsage: true}
	full := plain
	full.Logprobs = true
	var frames [][]byte
	frames = append(frames, plain.Begin())
	frames = append(frames, plain.Piece(llm.Delta{Text: "<b>\"hé\"</b>\n"})...)
	frames = append(frames, full.Piece(llm.Delta{Text: "hé", Logprobs: probs})...)
	frames = append(frames, plain.Done(rec, stats)...)
	frames = append(frames, plain.Whole(parts(llm.Delta{Text: "all"}), rec, llm.Stats{Finish: llm.FinishLength}), full.Whole(parts(llm.Delta{Text: "all", Logprobs: probs}), rec, stats))
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
	f.Add(`{"model":"m","prompt":["a","b"],"suffix":"x","echo":true,"logprobs":1}`)
	f.Add(`{"model":"m","input":[{"type":"reasoning","summary":[{"text":"x"}]},{"type":"function_call","name":"f","arguments":"{"},{"role":"user","content":[{"type":"input_text","text":"x"}]}],"tools":[{"type":"function","name":"f"}],"text":{"format":{"type":"json_object"}}}`)
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
		_, _ = openai.ParseCompletions([]byte(body))
		_, _ = openai.ParseResponses([]byte(body))
	})
}
