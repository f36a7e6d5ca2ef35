package server_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
)

// say makes an answer of deltas.
func say(finish llm.Finish, deltas ...llm.Delta) func(emit func(llm.Delta) error) (llm.Stats, error) {
	return func(emit func(llm.Delta) error) (llm.Stats, error) {
		for i, d := range deltas {
			d.Tokens = i + 1
			if err := emit(d); err != nil {
				return llm.Stats{CompletionTokens: i}, err
			}
		}
		return llm.Stats{CompletionTokens: len(deltas), Finish: finish}, nil
	}
}

// outcomes are the ways in which an answer can come and end.
var outcomes = []struct {
	name string
	says func(emit func(llm.Delta) error) (llm.Stats, error)
}{
	{"text", say(llm.FinishStop, llm.Delta{Text: "Hé"}, llm.Delta{Text: " <b>"})},
	{"length", say(llm.FinishLength, llm.Delta{Text: "cut sho"})},
	{"empty", say(llm.FinishStop)},
	{"stop string", func(emit func(llm.Delta) error) (llm.Stats, error) {
		err := emit(llm.Delta{Text: "before"})
		return llm.Stats{CompletionTokens: 2, Finish: llm.FinishStop, StopString: "END"}, err
	}},
	{"thinking", say(llm.FinishStop, llm.Delta{Thinking: "hm"}, llm.Delta{Thinking: "m"}, llm.Delta{Text: "so"})},
	{"tools", say(llm.FinishTools,
		llm.Delta{Text: "Let me see."},
		llm.Delta{ToolCalls: []llm.ToolCallDelta{{Index: 0, ID: "call_a1b2c3d4", Name: "get_weather"}}},
		llm.Delta{ToolCalls: []llm.ToolCallDelta{{Index: 0, Arguments: `{"city":`}}},
		llm.Delta{ToolCalls: []llm.ToolCallDelta{{Index: 0, Arguments: `"Oslo"}`, Done: true}}},
		llm.Delta{ToolCalls: []llm.ToolCallDelta{{Index: 1, ID: "call_e5f6a7b8", Name: "now", Done: true}}})},
	{"tool cut short", say(llm.FinishLength,
		llm.Delta{ToolCalls: []llm.ToolCallDelta{{Index: 0, ID: "call_a1b2c3d4", Name: "get_weather", Arguments: `{"city":`}}})},
	{"error at once", func(func(llm.Delta) error) (llm.Stats, error) { return llm.Stats{}, errors.New("it broke") }},
	{"error later", func(emit func(llm.Delta) error) (llm.Stats, error) {
		return llm.Stats{CompletionTokens: 1}, errors.Join(emit(llm.Delta{Text: "half"}), llm.Errorf(llm.CodeEngine, "it broke"))
	}},
}

// askers are the six routes that answer.
var askers = map[string]string{
	"/api/chat":            `{"model":"smollm2:135m","messages":[{"role":"user","content":"hi"}],"stream":%t}`,
	"/api/generate":        `{"model":"smollm2:135m","prompt":"hi","stream":%t}`,
	"/v1/chat/completions": `{"model":"smollm2:135m","messages":[{"role":"user","content":"hi"}],"stream":%t,"stream_options":{"include_usage":true}}`,
	"/v1/completions":      `{"model":"smollm2:135m","prompt":"hi","stream":%t,"echo":true}`,
	"/v1/responses":        `{"model":"smollm2:135m","input":"hi","instructions":"be brief","stream":%t,"tools":[{"type":"function","name":"now","parameters":{"type":"object"}},{"type":"web_search"}]}`,
	"/v1/messages":         `{"model":"smollm2:135m","max_tokens":99,"messages":[{"role":"user","content":"hi"}],"stream":%t,"stop_sequences":["END"]}`,
}

var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`"created_at":"[^"]+"`), `"created_at":"TIME"`},
	{regexp.MustCompile(`"(created|created_at)":\d+`), `"$1":0`},
	{regexp.MustCompile(`"(total_duration|load_duration)":\d+`), `"$1":1`},
	{regexp.MustCompile(`"llmeu":\{.*?"outcome":"(\w+)"\}`), `"llmeu":{"outcome":"$1"}`},
}

func TestAnswersOfEveryDialectAndOutcomeAreThese(t *testing.T) {
	r := newRig(t)
	for path, body := range askers {
		var b strings.Builder
		for _, o := range outcomes {
			r.says = o.says
			for _, stream := range []bool{true, false} {
				id := fmt.Sprintf("%s-%s-%t", strings.Trim(strings.ReplaceAll(path, "/", "-"), "-"), strings.ReplaceAll(o.name, " ", "-"), stream)
				resp, text := do(t, "POST", r.public.URL+path+"?beta=true", fmt.Sprintf(body, stream), "X-Request-ID", id)
				for _, v := range volatile {
					text = v.pattern.ReplaceAllString(text, v.with)
				}
				fmt.Fprintf(&b, "=== %s, stream %t: %d %s\n%s\n", o.name, stream, resp.StatusCode, resp.Header.Get("Content-Type"), text)
			}
		}
		golden(t, "answers"+strings.ReplaceAll(path, "/", "-")+".txt", b.String())
	}
}

func TestF26StreamsThatFailHaveNoGoodEnd(t *testing.T) {
	r := newRig(t)
	for path, body := range askers {
		for _, o := range outcomes {
			if !strings.HasPrefix(o.name, "error") {
				continue
			}
			r.says = o.says
			_, text := do(t, "POST", r.public.URL+path, fmt.Sprintf(body, true))
			for _, good := range []string{"[DONE]", `"done":true`, "response.completed", "message_stop", `"finish_reason":"`} {
				assert.NotContains(t, text, good, "%s %s", path, o.name)
			}
			last := text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:]
			assert.Contains(t, last, "it broke", "%s %s", path, o.name)
		}
	}
}

func TestF25CountTokensEqualsUsage(t *testing.T) {
	r := newRig(t)
	for _, fields := range []string{
		`"messages":[{"role":"user","content":"one two three"}]`,
		`"system":"be brief","messages":[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":"y"},{"role":"user","content":"z"}]`,
		`"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","description":"a longer description","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}]`,
	} {
		resp, text := do(t, "POST", r.public.URL+"/v1/messages/count_tokens?beta=true", `{"model":"smollm2:135m",`+fields+`}`)
		require.Equal(t, 200, resp.StatusCode, text)
		counted := object(t, text)["input_tokens"]
		_, text = do(t, "POST", r.public.URL+"/v1/messages", `{"model":"smollm2:135m","max_tokens":5,`+fields+`}`)
		assert.Equal(t, counted, object(t, text)["usage"].(map[string]any)["input_tokens"])
		_, text = do(t, "POST", r.public.URL+"/v1/messages", `{"model":"smollm2:135m","max_tokens":5,"stream":true,`+fields+`}`)
		assert.Contains(t, text[:strings.Index(text, "\n\n")], fmt.Sprintf(`"input_tokens":%v,`, counted), "message_start has it")
	}
	resp, text := do(t, "POST", r.public.URL+"/v1/messages/count_tokens", `{"model":"nobody","messages":[{"role":"user","content":"x"}]}`)
	assert.Equal(t, 404, resp.StatusCode)
	assert.Equal(t, "not_found_error", object(t, text)["error"].(map[string]any)["type"])
	assert.Equal(t, resp.Header.Get("request-id"), object(t, text)["request_id"])
}
