package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/models"
)

// Templates that stand for kinds of models.
const (
	qwen    = `{{ tools }} tool_calls <tool_call> <think> enable_thinking`
	distill = `<think>`
	gptOss  = `{{ tools }} tool_calls <|channel|> <|message|> reasoning_effort`
	gemma   = `{{ tools }} <|tool_call>`
)

var tools = json.RawMessage(`[{"type":"function","function":{"name":"now","parameters":{"type":"object"}}}]`)

// bench is a dispatcher over one model, whose engine says what it is told and keeps what it was asked.
type bench struct {
	template string
	tail     string
	says     []string
	stats    llm.Stats

	prepared llm.PrepareRequest
	job      engine.Job
	heard    []llm.Delta
}

type benchEngine struct {
	fakeEngine
	b *bench
}

func (e *benchEngine) Prepare(_ context.Context, req llm.PrepareRequest) (llm.Prompt, error) {
	e.b.prepared = req
	return llm.Prompt{Tokens: make([]int32, 10), Tail: e.b.tail}, nil
}

func (b *bench) ask(t *testing.T, req llm.Request) (llm.Record, llm.Stats, error) {
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	eng := &benchEngine{b: b}
	eng.devices = []engine.State{{Device: cpu}}
	eng.run = func(_ context.Context, job engine.Job) (llm.Stats, error) {
		b.job = job
		job.OnState(engine.Progress{State: engine.Prefill})
		stats := llm.Stats{PromptTokens: 10, Finish: llm.FinishStop, Prefill: time.Second, Decode: time.Second}
		for _, text := range b.says {
			stats.CompletionTokens++
			if err := job.OnDelta(llm.Delta{Text: text, Tokens: stats.CompletionTokens, Logprobs: []llm.TokenLogprob{{Token: text}}}); err != nil {
				stats.Cancel, stats.Finish = time.Millisecond, ""
				return stats, err
			}
		}
		if b.stats.Finish != "" {
			stats.Finish, stats.StopString = b.stats.Finish, b.stats.StopString
		}
		return stats, nil
	}
	lib := library{"m": {Name: "m:1", Kind: models.KindChat, ContextLength: 8192, Template: b.template}}
	d := New(lib, eng, j, func() Policy { return Policy{} })
	c := call()
	req.Model = "m"
	if req.Messages == nil && req.Prompt == "" {
		req.Messages = []llm.Message{{Role: "user", Content: "hi"}}
	}
	c.Request = req
	return d.Generate(t.Context(), c, Answer{
		Begin: func(llm.Record) error { return nil },
		Delta: func(d llm.Delta) error { b.heard = append(b.heard, d); return nil },
	})
}

func (b *bench) text() (text, thinking, calls string) {
	for _, d := range b.heard {
		text += d.Text
		thinking += d.Thinking
		for _, c := range d.ToolCalls {
			calls += c.Name + c.Arguments
			if c.Done {
				calls += ";"
			}
		}
	}
	return text, thinking, calls
}

const callNow = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"

func TestCallsAreFoundInWhatTheModelWrites(t *testing.T) {
	b := &bench{template: qwen, says: strings.SplitAfter("<think>Hm.</think>Look: "+callNow, " ")}
	record, stats, err := b.ask(t, llm.Request{Tools: tools})
	require.NoError(t, err)
	text, thinking, calls := b.text()
	assert.Equal(t, []string{"Look:", "Hm.", "now{};"}, []string{text, thinking, calls})
	assert.Equal(t, llm.FinishTools, stats.Finish)
	assert.Equal(t, llm.OutcomeCompleted, record.Outcome)
	assert.Equal(t, 5, *record.CompletionTokens)
	assert.Equal(t, tools, b.prepared.Tools)
	assert.Equal(t, []string{"</think>", "</tool_call>", "<think>", "<tool_call>"}, b.job.Generate.Markers)
	assert.Nil(t, b.job.Generate.Constraint)
	n := 0
	for _, d := range b.heard {
		assert.Positive(t, d.Tokens)
		n += len(d.Logprobs)
	}
	assert.Equal(t, 5, n, "no probability is lost")
}

func TestModelsWithoutToolsAreTold(t *testing.T) {
	b := &bench{template: "chatml", says: []string{callNow}}
	_, stats, err := b.ask(t, llm.Request{Tools: tools, Prompt: "What time is it?"})
	require.NoError(t, err)
	assert.Nil(t, b.prepared.Tools)
	assert.Contains(t, b.prepared.Messages[0].Content, `"name":"now"`)
	_, _, calls := b.text()
	assert.Equal(t, "now{};", calls)
	assert.Equal(t, llm.FinishTools, stats.Finish)
}

func TestToolChoice(t *testing.T) {
	off := false
	for name, c := range map[string]struct {
		choice      llm.ToolChoice
		says        string
		text, calls string
		finish      llm.Finish
		constrained bool
		tokens      int
	}{
		"none":     {choice: llm.ToolChoice{Mode: "none"}, says: "It is " + callNow, text: "It is " + callNow, finish: llm.FinishStop, tokens: 1},
		"auto":     {choice: llm.ToolChoice{Mode: "auto"}, says: callNow + "|" + callNow, calls: "now{};now{};", finish: llm.FinishTools, tokens: 2},
		"required": {choice: llm.ToolChoice{Mode: "required"}, says: callNow, calls: "now{};", finish: llm.FinishTools, constrained: true, tokens: 1},
		"named":    {choice: llm.ToolChoice{Mode: "named", Name: "now"}, says: callNow + "|" + callNow, calls: "now{};", finish: llm.FinishTools, constrained: true, tokens: 1},
		"one only": {choice: llm.ToolChoice{Parallel: &off}, says: callNow + "|" + callNow + "|and so on", calls: "now{};", finish: llm.FinishTools, tokens: 1},
		"strict":   {choice: llm.ToolChoice{Strict: true}, says: "No.", text: "No.", finish: llm.FinishStop, constrained: true, tokens: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{template: qwen, says: strings.Split(c.says, "|")}
			record, stats, err := b.ask(t, llm.Request{Tools: tools, ToolChoice: c.choice})
			require.NoError(t, err)
			text, _, calls := b.text()
			assert.Equal(t, c.text, text)
			assert.Equal(t, c.calls, calls)
			assert.Equal(t, c.finish, stats.Finish)
			assert.Equal(t, c.tokens, stats.CompletionTokens, "what was really done")
			assert.Nil(t, record.CancelMS, "nobody wished to stop")
			if c.constrained {
				require.NotNil(t, b.job.Generate.Constraint)
				assert.NotNil(t, b.job.Generate.Constraint.Structural)
			} else {
				assert.Nil(t, b.job.Generate.Constraint)
			}
			if c.choice.Mode == "none" {
				assert.Nil(t, b.prepared.Tools, "tools are not rendered")
			}
		})
	}
	b := &bench{template: qwen}
	_, _, err := b.ask(t, llm.Request{Tools: tools, ToolChoice: llm.ToolChoice{Mode: "named", Name: "nope"}})
	assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
}

func TestThinking(t *testing.T) {
	on, off := true, false
	for name, c := range map[string]struct {
		template         string
		think            *llm.Think
		thinking         *bool
		effort           string
		most             int // -1: no limit
		ignored, clamped []string
	}{
		"as the model likes":              {template: qwen, most: -1},
		"on":                              {template: qwen, think: &llm.Think{Enabled: true}, thinking: &on, most: -1},
		"off":                             {template: qwen, think: &llm.Think{}, thinking: &off, most: -1},
		"a budget":                        {template: qwen, think: &llm.Think{Enabled: true, Budget: 9}, thinking: &on, most: 9},
		"a level it does not have":        {template: qwen, think: &llm.Think{Enabled: true, Effort: "high"}, thinking: &on, most: -1, ignored: []string{"think"}},
		"off where there is no switch":    {template: distill, think: &llm.Think{}, most: 0},
		"on where there is no switch":     {template: distill, think: &llm.Think{Enabled: true}, most: -1},
		"a level":                         {template: gptOss, think: &llm.Think{Enabled: true, Effort: "low"}, effort: "low", most: -1},
		"the highest":                     {template: gptOss, think: &llm.Think{Enabled: true, Effort: "max"}, effort: "high", most: -1, clamped: []string{"think"}},
		"off where it cannot be":          {template: gptOss, think: &llm.Think{}, effort: "low", most: -1, ignored: []string{"think"}},
		"on where there are no thoughts":  {template: "chatml", think: &llm.Think{Enabled: true, Budget: 3}, most: -1, ignored: []string{"think"}},
		"off where there are no thoughts": {template: "chatml", think: &llm.Think{}, most: -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{template: c.template}
			record, _, err := b.ask(t, llm.Request{Think: c.think})
			require.NoError(t, err)
			assert.Equal(t, c.thinking, b.prepared.Thinking)
			assert.Equal(t, c.effort, b.prepared.Effort)
			assert.Equal(t, c.ignored, record.Ignored)
			assert.Equal(t, c.clamped, record.Clamped)
			if c.most < 0 {
				assert.Nil(t, b.job.Generate.Thought)
			} else {
				require.NotNil(t, b.job.Generate.Thought)
				assert.Equal(t, c.most, b.job.Generate.Thought.Most)
			}
		})
	}
}

func TestThoughtsThatThePromptOpensAreThoughts(t *testing.T) {
	b := &bench{template: distill, tail: "<think>\n", says: []string{"Hm.\n</th", "ink>\n\nYes."}}
	_, _, err := b.ask(t, llm.Request{})
	require.NoError(t, err)
	text, thinking, _ := b.text()
	assert.Equal(t, "Hm.", thinking)
	assert.Equal(t, "Yes.", text)
}

func TestAFormatComesAfterTheThought(t *testing.T) {
	schema := &llm.Constraint{Schema: json.RawMessage(`{"type":"object"}`)}
	b := &bench{template: distill, tail: "<think>\n", says: []string{"Hm.</think>", "{}"}}
	_, _, err := b.ask(t, llm.Request{Constraint: schema})
	require.NoError(t, err)
	assert.Equal(t, "</think>", b.job.Generate.Constraint.After)
	b = &bench{template: "chatml", says: []string{"{", "}"}}
	_, _, err = b.ask(t, llm.Request{Constraint: schema})
	require.NoError(t, err)
	assert.Equal(t, schema, b.job.Generate.Constraint)
}

func TestWhatNoGrammarHoldsIsRefusedBeforeADeviceIsAsked(t *testing.T) {
	odd := json.RawMessage(`{"type":"array","uniqueItems":true}`)
	oddTools := json.RawMessage(`[{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{"a":{"not":{"pattern":"a"}}}}}}]`)
	for name, c := range map[string]struct {
		req                llm.Request
		keyword, parameter string
	}{
		"a schema":            {llm.Request{Constraint: &llm.Constraint{Schema: odd}}, `"uniqueItems" at #`, "format"},
		"a schema, raw":       {llm.Request{Raw: true, Prompt: "a", Constraint: &llm.Constraint{Schema: odd}}, `"uniqueItems" at #`, "format"},
		"a schema with tools": {llm.Request{Tools: tools, Constraint: &llm.Constraint{Schema: odd}}, `"uniqueItems" at #`, "format"},
		"a regex":             {llm.Request{Constraint: &llm.Constraint{Regex: "(?=a)b"}}, "(?", "format"},
		"strict tools":        {llm.Request{Tools: oddTools, ToolChoice: llm.ToolChoice{Strict: true}}, `"not" at #`, "tools"},
	} {
		b := &bench{template: qwen, says: []string{"[]"}}
		record, _, err := b.ask(t, c.req)
		require.Error(t, err, name)
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), name)
		assert.Contains(t, err.Error(), c.keyword, name)
		e, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, name)
		assert.Equal(t, c.parameter, e.Param, name)
		assert.Equal(t, llm.OutcomeRejected, record.Outcome, name)
		assert.Zero(t, b.job, "%s: nothing was queued", name)
	}
}

func TestAnAnswerThatIsNotWhatTheSchemaAsksForIsAnError(t *testing.T) {
	want := &llm.Constraint{Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)}
	for name, c := range map[string]struct {
		says  []string
		stats llm.Stats
		want  *llm.Constraint
		tools json.RawMessage
		wrong string
	}{
		"as asked":            {says: []string{`{"a"`, `: 1}`}, want: want},
		"another type":        {says: []string{`{"a"`, `: "1"}`}, want: want, wrong: "got string, want integer"},
		"no JSON":             {says: []string{`{"a"`}, want: want, wrong: "not valid JSON"},
		"no object":           {says: []string{`[]`}, want: &llm.Constraint{JSON: true}, wrong: "got array, want object"},
		"cut by its length":   {says: []string{`{"a"`}, want: want, stats: llm.Stats{Finish: llm.FinishLength}},
		"cut by a stop":       {says: []string{`{"a"`}, want: want, stats: llm.Stats{Finish: llm.FinishStop, StopString: "END"}},
		"a call in its place": {says: []string{callNow}, want: want, tools: tools},
	} {
		b := &bench{template: qwen, says: c.says, stats: c.stats}
		record, _, err := b.ask(t, llm.Request{Constraint: c.want, Tools: c.tools, Stop: []string{"END"}})
		if c.wrong == "" {
			require.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, c.wrong, name)
		assert.Equal(t, llm.CodeInternal, llm.CodeOf(err), name)
		assert.Equal(t, llm.OutcomeError, record.Outcome, name)
	}
}

func TestRawPromptsAndGapsAreNotRead(t *testing.T) {
	for name, req := range map[string]llm.Request{
		"raw": {Raw: true, Prompt: "a", Tools: tools, Think: &llm.Think{}}, "a gap": {Prompt: "a", Suffix: "b"},
	} {
		b := &bench{template: qwen, says: []string{"<think>", callNow}}
		_, stats, err := b.ask(t, req)
		require.NoError(t, err)
		text, _, _ := b.text()
		assert.Equal(t, "<think>"+callNow, text, name)
		assert.Equal(t, llm.FinishStop, stats.Finish)
		assert.Nil(t, b.prepared.Messages, name)
		assert.Equal(t, "a", b.prepared.Prompt)
		assert.Equal(t, req.Suffix, b.prepared.Suffix)
	}
}

func TestTheRequestsTemplateDecides(t *testing.T) {
	b := &bench{template: qwen, says: []string{"<think>a</think>"}}
	_, _, err := b.ask(t, llm.Request{Template: "chatml", Context: []int32{1}})
	require.NoError(t, err)
	assert.Equal(t, "chatml", b.prepared.Template)
	assert.Equal(t, []int32{1}, b.prepared.Context)
	text, _, _ := b.text()
	assert.Equal(t, "<think>a</think>", text)
}

func TestStopsOfTheFamilyAreNotTheCallers(t *testing.T) {
	b := &bench{template: gemma, says: []string{"<|tool_call>call:now{}<tool_call|>"}, stats: llm.Stats{Finish: llm.FinishStop, StopString: "<|tool_response>"}}
	_, stats, err := b.ask(t, llm.Request{Tools: tools, Stop: []string{"END"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"END", "<|tool_response>"}, b.job.Generate.Stop)
	assert.Empty(t, stats.StopString)
	assert.Equal(t, llm.FinishTools, stats.Finish)
}

func TestACallThatWasCutIsNoToolCallsFinish(t *testing.T) {
	b := &bench{template: qwen, says: []string{`<tool_call>{"name":"now","arguments":{"a":"b`}, stats: llm.Stats{Finish: llm.FinishLength}}
	record, stats, err := b.ask(t, llm.Request{Tools: tools})
	require.NoError(t, err)
	assert.Equal(t, llm.FinishLength, stats.Finish)
	assert.Equal(t, llm.OutcomeLength, record.Outcome)
}
