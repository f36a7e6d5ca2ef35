package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/cards"
	"signalbox/backend/dispatch"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/router"
	"signalbox/backend/server"
)

// told is a Routing with two devices; it remembers what it was asked.
type told struct {
	calls    []dispatch.Call
	released []string
}

func (r *told) Explain(_ context.Context, call dispatch.Call) (e dispatch.Explanation, err error) {
	r.calls = append(r.calls, call)
	if call.Request.Model == "nobody" {
		return e, llm.Errorf(llm.CodeModelNotFound, "no model is called %q", call.Request.Model)
	}
	tokens := len(call.Request.Prompt)
	for _, m := range call.Request.Messages {
		tokens += len(m.Content)
	}
	e.Model = models.Model{Name: chatModel}
	e.Facts = router.Facts{
		Request: router.Request{Pinned: call.Request.Device, PromptTokens: tokens},
		Model:   router.Model{Name: chatModel, ContextLength: 4096},
		Devices: []router.DeviceFacts{
			{Device: llm.Device{Class: llm.CPU}, ContextLimit: 4096}, {Device: llm.Device{Class: llm.NPU}, PromptLimit: 1024, ContextLimit: 1151},
		},
	}
	e.Decision, err = router.Decide(e.Facts)
	return e, err
}

func (r *told) Cards() []cards.Card {
	return []cards.Card{{Model: chatModel, Device: "npu:0", Assumed: true}}
}
func (r *told) CardsOf(m models.Model) []cards.Card {
	return []cards.Card{
		{Model: m.Name, Device: "cpu:0", Label: "CPU", ContextLimit: 4096, Decode: 12.5, Loads: true},
		{Model: m.Name, Device: "npu:0", Label: "NPU", Assumed: true, PromptLimit: 1024, ContextLimit: 1151},
		{Model: m.Name, Device: "gpu:0", Label: "GPU", ContextLimit: 4096, LoadError: "out of memory"},
	}
}
func (r *told) Rules() []router.Rule { return router.Rules(router.Policy{}) }
func (r *told) Compiled() server.Compiled {
	return server.Compiled{Bytes: 7, Models: []server.CompiledModel{{Model: chatModel, Device: "npu:0", Bytes: 7, Again: "its driver changed (1, now 2)"}}}
}
func (r *told) Compile(_ context.Context, model, device string, tell func(server.Compiling) error) (server.CompiledModel, error) {
	if device != "npu" {
		return server.CompiledModel{}, llm.Errorf(llm.CodeInvalid, "there is no device called %q", device)
	}
	err := tell(server.Compiling{Status: "compiling for NPU", ElapsedS: 1.5})
	return server.CompiledModel{Model: model, Device: "npu:0", Label: "NPU", Bytes: 7}, err
}
func (r *told) RemoveCompiled(device, model string) (int64, error) {
	r.released = append(r.released, "compiled "+device+" "+model)
	return 7, nil
}
func (r *told) Release(device, model string) (int, error) {
	if device != "npu:0" {
		return 0, llm.Errorf(llm.CodeModelNotFound, "there is no device %q here", device)
	}
	r.released = append(r.released, model)
	return 1, nil
}
func (r *told) ContextLength(models.Model) int { return 1151 }

func TestExplainTakesEveryDialectAndRunsNothing(t *testing.T) {
	var routing told
	r := newRig(t, func(d *server.Deps) { d.Routing = &routing })
	for _, c := range []struct{ query, body, as string }{
		{"", `{"model":"m","messages":[{"role":"user","content":"hello"}]}`, "/api/chat"},
		{"", `{"model":"m","messages":[{"role":"user","content":"hello"}],"options":{"temperature":0}}`, "/api/chat"},
		{"", `{"model":"m","prompt":"hello"}`, "/api/generate"},
		{"", `{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":5}`, "/v1/chat/completions"},
		{"", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]}`, "/v1/chat/completions"},
		{"", `{"model":"m","system":"","messages":[{"role":"user","content":"hello"}],"max_tokens":5}`, "/v1/messages"},
		{"", `{"model":"m","prompt":"hello","max_tokens":5}`, "/v1/completions"},
		{"", `{"model":"m","input":"hello","max_output_tokens":20}`, "/v1/responses"},
		{"", `{"model":"m","input":["hello"]}`, "/api/embed"},
		{"?as=/v1/embeddings", `{"model":"m","input":["hello"]}`, "/v1/embeddings"},
		{"?as=/v1/messages", `{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":5}`, "/v1/messages"},
	} {
		resp, text := do(t, "POST", r.public.URL+"/api/route/explain"+c.query, c.body)
		require.Equal(t, 200, resp.StatusCode, "%s: %s", c.body, text)
		got := object(t, text)
		assert.Equal(t, c.as, got["as"], c.body)
		assert.Equal(t, "run", got["would"], c.body)
		assert.Equal(t, "NPU", got["device"], c.body)
		assert.Equal(t, "preference/NPU,GPU,CPU", got["policy_id"], c.body)
		assert.Len(t, got["devices"], 2)
	}
	assert.Zero(t, r.count(), "nothing ran")
	entries, _, err := r.journal.List(journal.Query{})
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestExplainTellsOfRefusals(t *testing.T) {
	r := newRig(t, func(d *server.Deps) { d.Routing = &told{} })
	explain := func(body string, headers ...string) map[string]any {
		resp, text := do(t, "POST", r.public.URL+"/api/route/explain", body, headers...)
		require.Equal(t, 200, resp.StatusCode, text)
		return object(t, text)
	}
	long := explain(`{"model":"m","prompt":"` + strings.Repeat("x", 2000) + `"}`)
	assert.Equal(t, "CPU", long["device"])
	assert.Equal(t, "prompt_limit", long["route_rule"])
	pinned := explain(`{"model":"m","prompt":"`+strings.Repeat("x", 2000)+`"}`, "X-Signalbox-Device", "npu")
	assert.Equal(t, "refuse", pinned["would"])
	assert.EqualValues(t, 400, pinned["status"])
	assert.Contains(t, pinned["error"], "prompt is too long: 2000 tokens > 1024 maximum")
	for body, status := range map[string]int{
		`{"model":"nobody","prompt":"x"}`: 404, `{`: 400, `[]`: 400, `{"model":"m","prompt":7}`: 400, `{}`: 400,
	} {
		resp, text := do(t, "POST", r.public.URL+"/api/route/explain", body)
		assert.Equal(t, status, resp.StatusCode, "%s: %s", body, text)
	}
	resp, _ := do(t, "POST", r.public.URL+"/api/route/explain?as=/ui/settings", `{"model":"m","prompt":"x"}`)
	assert.Equal(t, 400, resp.StatusCode)
}

func TestCardsRulesAndReleases(t *testing.T) {
	var routing told
	r := newRig(t, func(d *server.Deps) { d.Routing = &routing })
	status, text := r.call(t, "GET", "/ui/cards", "")
	assert.Equal(t, 200, status)
	assert.Contains(t, text, `"device":"npu:0"`)
	_, text = r.call(t, "GET", "/ui/rules", "")
	assert.Contains(t, text, `"prompt_limit"`)
	_, text = r.call(t, "POST", "/ui/compile", `{"model":"`+chatModel+`","device":"npu"}`)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.Len(t, lines, 2, text)
	assert.JSONEq(t, `{"status":"compiling for NPU","elapsed_s":1.5}`, lines[0])
	assert.Contains(t, lines[1], `{"status":"success","kept":{"model":"`+chatModel+`","device":"npu:0","label":"NPU","bytes":7,`)
	status, text = r.call(t, "POST", "/ui/compile", `{"model":"m","device":"tpu"}`)
	assert.Equal(t, 400, status, text)
	_, text = r.call(t, "GET", "/ui/compiled", "")
	assert.Contains(t, text, `"again":"its driver changed (1, now 2)"`)
	status, text = r.call(t, "DELETE", "/ui/compiled?device=npu:0", "")
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"freed":7}`, text)
	assert.Equal(t, []string{"compiled npu:0 "}, routing.released)
	routing.released = nil
	status, _ = r.call(t, "POST", "/ui/devices/npu:0/release", `{"model":"smollm2:135m"}`)
	assert.Equal(t, 200, status)
	status, _ = r.call(t, "POST", "/ui/devices/npu:0/release", `{}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, []string{"smollm2:135m", ""}, routing.released)
	status, _ = r.call(t, "POST", "/ui/devices/gpu:3/release", `{}`)
	assert.Equal(t, 404, status)
	resp, _ := do(t, "POST", r.public.URL+"/ui/devices/npu:0/release", `{}`)
	assert.Equal(t, 404, resp.StatusCode, "not on the public port")
	_, text = do(t, "POST", r.public.URL+"/api/show", `{"model":"smollm2:135m"}`)
	var show struct {
		Info    map[string]any    `json:"model_info"`
		Devices []json.RawMessage `json:"devices"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &show))
	assert.Equal(t, 1151.0, show.Info["llama.context_length"], "the context that a device here takes")
	require.Len(t, show.Devices, 3)
	for i, want := range []string{
		`{"device":"cpu:0","label":"CPU","context_length":4096,"tokens_per_second":12.5,"measured":true}`,
		`{"device":"npu:0","label":"NPU","context_length":1151,"prompt_limit":1024,"measured":false}`,
		`{"device":"gpu:0","label":"GPU","context_length":4096,"measured":true,"problem":"does not run: out of memory"}`,
	} {
		assert.JSONEq(t, want, string(show.Devices[i]))
	}
}

func TestExportsGoOutWholeAndFiltered(t *testing.T) {
	r := newRig(t)
	for _, agent := range []string{"curl/8", "=HYPERLINK(\"x\")"} {
		_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody, "User-Agent", agent)
	}
	resp, text := do(t, "GET", r.ui.URL+"/ui/requests/export", "", "Authorization", "Bearer "+token)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Contains(t, resp.Header.Get("Content-Disposition"), ".jsonl")
	assert.Equal(t, 2, strings.Count(text, "\n"))
	resp, text = do(t, "GET", r.ui.URL+"/ui/requests/export?format=csv&client=curl", "", "Authorization", "Bearer "+token)
	assert.Equal(t, "text/csv; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Equal(t, 2, strings.Count(text, "\n"), text)
	_, text = do(t, "GET", r.ui.URL+"/ui/requests/export?format=csv", "", "Authorization", "Bearer "+token)
	assert.NotContains(t, text, ",=HYPERLINK")
	for _, query := range []string{"?format=xml", "?since=yesterday", "?before=1"} {
		status, _ := r.call(t, "GET", "/ui/requests/export"+query, "")
		assert.Equal(t, 400, status, query)
	}
	_, text = r.call(t, "GET", "/ui/requests/totals", "")
	assert.EqualValues(t, 2, object(t, text)["requests"])
	status, _ := r.call(t, "GET", "/ui/requests?q=hyperlink", "")
	assert.Equal(t, 200, status)
}

func TestReplayRunsAKeptRequestOnAnotherDevice(t *testing.T) {
	r := newRig(t)
	record := func(id string) {
		l := r.journal.Begin(journal.Entry{Record: llm.Record{TraceID: id, ExecutionDevice: "CPU"}, StartedAt: time.Now()})
		l.Asked(llm.Request{Model: chatModel, Messages: []llm.Message{{Role: "user", Content: "hello"}}, Sampling: llm.DefaultSampling()})
		l.Answered("as it was")
		l.End(nil)
	}
	record("unkept")
	r.journal.SetBodies(time.Hour)
	record("kept")
	status, text := r.call(t, "POST", "/ui/requests/kept/replay", `{"device":"NPU"}`)
	require.Equal(t, 200, status, text)
	type side struct {
		Record llm.Record
		Text   string
		Error  string
	}
	var both struct {
		Original, Replay side
	}
	pieces, lines := "", strings.Split(strings.TrimSpace(text), "\n")
	require.Greater(t, len(lines), 3, "the new answer comes piece by piece")
	for _, line := range lines {
		var l struct {
			Original, Replay *side
			Text             string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		pieces += l.Text
		if l.Original != nil {
			assert.Empty(t, pieces, "the old one comes first")
			both.Original = *l.Original
		}
		if l.Replay != nil {
			both.Replay = *l.Replay
		}
	}
	assert.Equal(t, pieces, both.Replay.Text)
	assert.Equal(t, "as it was", both.Original.Text)
	assert.Equal(t, "CPU", both.Original.Record.ExecutionDevice)
	assert.NotEmpty(t, both.Replay.Text)
	assert.NotEqual(t, "kept", both.Replay.Record.TraceID)
	assert.Equal(t, "npu", r.last(t).Request.Device)
	status, text = r.call(t, "GET", "/ui/requests/kept/body", "")
	assert.Equal(t, 200, status)
	assert.Contains(t, text, "hello")
	for path, want := range map[string]int{"unkept": 404, "never": 404} {
		status, _ := r.call(t, "POST", "/ui/requests/"+path+"/replay", `{"device":"cpu"}`)
		assert.Equal(t, want, status, path)
	}
	status, _ = r.call(t, "POST", "/ui/requests/kept/replay", `{"device":"tpu"}`)
	assert.Equal(t, 400, status)
	resp, _ := do(t, "GET", r.public.URL+"/ui/requests/kept/body", "")
	assert.Equal(t, 404, resp.StatusCode, "prompts are not on the public port")
}
