package anthropic_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/anthropic"
	"signalbox/backend/llm"
	"signalbox/backend/models"
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

func TestRequestsOfRealClients(t *testing.T) {
	for name, body := range map[string]string{
		"claude-code": `{"model":"m","max_tokens":32000,"stream":true,"thinking":{"type":"adaptive"},"output_config":{"effort":"medium"},"context_management":{"edits":[]},"metadata":{"user_id":"u"},
			"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2"},{"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be brief."}],
			"messages":[{"role":"user","content":[{"type":"text","text":"ls"}]},{"role":"system","content":"reminder"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"ok"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls","a":1}},{"type":"tool_use","id":"t2","name":"Read","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a b"},{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"x"}],"is_error":true},{"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}]}],
			"tools":[{"name":"Bash","description":"d","input_schema":{"type":"object","properties":{"command":{"type":"string"}}}},{"name":"Read","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],
			"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`,
		"sdk": `{"model":"m@npu","max_tokens":8,"system":"s","messages":[{"role":"user","content":"hi"}],"stop_sequences":["END",""],"temperature":0,"top_k":5,"top_p":0.5,"thinking":{"type":"enabled","budget_tokens":2000},"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}}`,
	} {
		m, err := anthropic.ParseMessages([]byte(body))
		require.NoError(t, err, name)
		got, err := json.MarshalIndent(m, "", "  ")
		require.NoError(t, err)
		golden(t, "request-"+name+".json", string(got)+"\n")
		counted, err := anthropic.ParseCount([]byte(body))
		if m.Stream {
			assert.ErrorContains(t, err, "cannot stream")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, m.LLM, counted.LLM, "what is counted is what is asked")
	}
}

func TestErrorsAreAnthropics(t *testing.T) {
	for fields, want := range map[string]string{
		`"max_tokens":8`: "messages: at least one message is required",
		`"messages":[{"role":"user","content":"x"}]`:                                                                                       "max_tokens is required and must be positive",
		`"messages":[{"role":"user","content":"x"}],"max_tokens":0`:                                                                        "max_tokens is required and must be positive",
		`"messages":[{"role":"user","content":"x"}],"max_tokens":"many"`:                                                                   "max_tokens: Input should be a valid integer, not string",
		`"max_tokens":8,"messages":[{"role":"robot","content":"x"}]`:                                                                       "messages[0].role: must be user, assistant or system",
		`"max_tokens":8,"messages":[{"role":"user"}]`:                                                                                      "messages[0].content: Field required",
		`"max_tokens":8,"messages":[{"role":"user","content":7}]`:                                                                          "messages[0].content: Input should be a valid string or array, not number",
		`"max_tokens":8,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"http://169.254.169.254/"}}]}]`: "images are not supported yet",
		`"max_tokens":8,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64"}}]}]`:                           "only documents of plain text",
		`"max_tokens":8,"messages":[{"role":"user","content":"x"}],"thinking":{"type":"hard"}`:                                             "thinking.type: must be enabled, disabled or adaptive",
		`"max_tokens":8,"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"any"}`:                                           "tool_choice asks for a tool, but there are no tools",
		`"max_tokens":8,"messages":[{"role":"user","content":"x"}],"tools":[{"description":"d"}]`:                                          "tools[0].name is required",
		`"max_tokens":8,"messages":[{"role":"user","content":"x"}],"output_format":{"type":"xml"}`:                                         "output_format.type: must be json_schema",
		`"max_tokens":8,"messages":[{"role":"user","content":"a\u0000b"}]`:                                                                 "NUL",
	} {
		_, err := anthropic.ParseMessages([]byte(`{"model":"m",` + fields + `}`))
		assert.ErrorContains(t, err, want, fields)
	}
	assert.JSONEq(t, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2068 tokens > 1024 maximum"},"request_id":"req_t"}`,
		string(anthropic.ErrorBody(llm.PromptTooLong(2068, 1024), "t")))
	for code, want := range map[llm.Code]string{
		llm.CodeModelNotFound: "not_found_error", llm.CodeForbidden: "permission_error", llm.CodeOverloaded: "overloaded_error",
		llm.CodeStopped: "overloaded_error", llm.CodeEngine: "api_error", llm.CodeTimeout: "timeout_error",
	} {
		assert.Contains(t, string(anthropic.ErrorBody(llm.Errorf(code, "x"), "t")), `"type":"`+want+`"`)
	}
}

func TestFormatsAndThinking(t *testing.T) {
	parse := func(fields string) llm.Request {
		m, err := anthropic.ParseMessages([]byte(`{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"x"}],` + fields + `}`))
		require.NoError(t, err, fields)
		return m.LLM
	}
	assert.Equal(t, &llm.Think{}, parse(`"x":1`).Think, "who does not ask for thinking gets none")
	assert.Nil(t, parse(`"thinking":{"type":"adaptive"}`).Think)
	assert.Equal(t, &llm.Think{Enabled: true, Budget: 99, Effort: "high"}, parse(`"thinking":{"type":"enabled","budget_tokens":99},"output_config":{"effort":"high"}`).Think)
	assert.Equal(t, &llm.Think{}, parse(`"thinking":{"type":"disabled"},"output_config":{"effort":"high"}`).Think)
	const schema = `{"type":"object"}`
	assert.Equal(t, schema, string(parse(`"output_format":{"type":"json_schema","schema":`+schema+`}`).Constraint.Schema))
	assert.Equal(t, schema, string(parse(`"output_config":{"format":{"type":"json_schema","schema":`+schema+`}}`).Constraint.Schema))
	assert.Equal(t, 1<<24, parse(`"max_tokens":1e12`).MaxTokens)
	prefill, err := anthropic.ParseMessages([]byte(`{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"{"}]}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"messages[1] (prefill)"}, prefill.LLM.Ignored)
}

func TestModelsHaveAnthropicsShape(t *testing.T) {
	assert.Equal(t, `{"data":[],"has_more":false,"first_id":null,"last_id":null}`, string(anthropic.ModelsBody(nil)))
	body := string(anthropic.ModelsBody([]models.Model{{Name: "a"}, {Name: "b"}}))
	assert.Contains(t, body, `{"type":"model","id":"a","display_name":"a","created_at":"0001-01-01T00:00:00Z"}`)
	assert.Contains(t, body, `"first_id":"a","last_id":"b"`)
}

func FuzzRequests(f *testing.F) {
	f.Add(`{"model":"m","max_tokens":8,"system":[{"text":"x"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"y"}]},{"type":"document","source":{"type":"text","data":"z"}}]}],"tools":[{"name":"f","input_schema":{"a":1}}],"tool_choice":{"type":"tool","name":"f"},"thinking":{"type":"enabled","budget_tokens":1}}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, parse := range []func([]byte) (anthropic.Messages, error){anthropic.ParseMessages, anthropic.ParseCount} {
			m, err := parse([]byte(body))
			if err != nil {
				if code := llm.CodeOf(err); code != llm.CodeInvalid && code != llm.CodeUnsupported {
					t.Fatalf("%v is %s", err, code)
				}
				continue
			}
			if m.LLM.Tools != nil && !json.Valid(m.LLM.Tools) {
				t.Fatalf("tools are no JSON: %s", m.LLM.Tools)
			}
			for _, msg := range m.LLM.Messages {
				for _, call := range msg.ToolCalls {
					if !json.Valid(call.Arguments) || call.Arguments[0] != '{' {
						t.Fatalf("arguments are no object: %s", call.Arguments)
					}
				}
			}
		}
	})
}

func TestAnAnswerThatTheContextEndedIsToldFromOneThatTheLimitDid(t *testing.T) {
	for name, c := range map[string]struct {
		clamped []string
		finish  llm.Finish
		want    string
	}{
		"the limit":                   {nil, llm.FinishLength, "max_tokens"},
		"another field was cut":       {[]string{"top_p"}, llm.FinishLength, "max_tokens"},
		"the context":                 {[]string{"max_tokens"}, llm.FinishLength, "model_context_window_exceeded"},
		"less room, and its own end":  {[]string{"max_tokens"}, llm.FinishStop, "end_turn"},
		"less room, and a tool calls": {[]string{"max_tokens"}, llm.FinishTools, "tool_use"},
	} {
		rec, stats := llm.Record{Clamped: c.clamped}, llm.Stats{Finish: c.finish}
		want := `"stop_reason":"` + c.want + `"`
		assert.Contains(t, string((&anthropic.Message{}).Whole(new(wire.Parts), rec, stats)), want, name)
		assert.Contains(t, string((&anthropic.Message{}).Done(rec, stats)), want, name)
	}
}
