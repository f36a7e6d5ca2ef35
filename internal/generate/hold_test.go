package generate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/schema"
)

const person = `{"type":"object","properties":{"name":{"type":"string","maxLength":40},"age":{"type":"integer","minimum":0,"maximum":150},` +
	`"languages":{"type":"array","items":{"enum":["English","French","German"]},"minItems":1,"maxItems":3},"married":{"type":"boolean"}},` +
	`"required":["name","age","languages","married"]}`

// asked is a request whose answer must be a person.
func asked(t *testing.T) llm.GenerateRequest {
	return llm.GenerateRequest{
		Tokens:     prepare(t, runner(t), user("Invent a person. Answer with their name, age, languages, and whether they are married, as JSON.")),
		Constraint: &llm.Constraint{Schema: json.RawMessage(person)}, MaxTokens: 200,
	}
}

func TestGreedyAnswerKeepsToItsSchema(t *testing.T) {
	got := run(t, runner(t), asked(t))
	require.NoError(t, got.err)
	assert.Equal(t, llm.FinishStop, got.stats.Finish)
	assert.NoError(t, schema.Validate([]byte(person), got.text), got.text)
	assert.Less(t, got.stats.CompletionTokens, 200)
	t.Log(got.text)
}

func TestSampledAnswersKeepToTheirSchemaAndTheirSeed(t *testing.T) {
	differ := false
	var first string
	for seed := range int64(5) {
		req := asked(t)
		req.Sampling = llm.Sampling{Temperature: 1.5, TopP: 1, TypicalP: 1, RepeatPenalty: 1.3, RepeatLastN: 64, Seed: &seed, LogitBias: map[int]float64{100: 50}}
		got := run(t, runner(t), req)
		require.NoError(t, got.err)
		require.Equal(t, llm.FinishStop, got.stats.Finish, got.text)
		assert.NoError(t, schema.Validate([]byte(person), got.text), got.text)
		assert.Equal(t, got.text, run(t, runner(t), req).text, "the same seed")
		differ = differ || first != "" && got.text != first
		first = got.text
	}
	assert.True(t, differ, "seeds make a difference")
}

func TestAnswerOfAnyJSONIsAnObject(t *testing.T) {
	req := asked(t)
	req.Constraint = &llm.Constraint{JSON: true}
	got := run(t, runner(t), req)
	require.NoError(t, got.err)
	if got.stats.Finish == llm.FinishStop {
		assert.True(t, json.Valid([]byte(got.text)), got.text)
	}
	assert.Equal(t, byte('{'), got.text[0])
}

func TestAnswerKeepsToARegexAndToAGrammar(t *testing.T) {
	req := llm.GenerateRequest{Tokens: prepare(t, runner(t), user("Is Paris the capital of France?")), MaxTokens: 20}
	req.Constraint = &llm.Constraint{Regex: `(yes|no), [0-9]{2}%`}
	got := run(t, runner(t), req)
	require.NoError(t, got.err)
	assert.Regexp(t, `^(yes|no), [0-9]{2}%$`, got.text)

	req.Constraint = &llm.Constraint{EBNF: `root ::= "Answer: " ("true" | "false")`}
	got = run(t, runner(t), req)
	require.NoError(t, got.err)
	assert.Contains(t, []string{"Answer: true", "Answer: false"}, got.text)
	assert.Equal(t, llm.FinishStop, got.stats.Finish)
}

func TestForcedCallIsACall(t *testing.T) {
	call := `{"type":"structural_tag","format":{"type":"triggered_tags","at_least_one":true,"stop_after_first":true,"triggers":["<tool_call>"],"tags":[` +
		`{"type":"tag","begin":"<tool_call>","content":{"type":"json_schema","json_schema":{"type":"object","properties":{"name":{"const":"weather"},` +
		`"arguments":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},"required":["name","arguments"]}},"end":"</tool_call>"}]}}`
	got := run(t, runner(t), llm.GenerateRequest{
		Tokens:     prepare(t, runner(t), user("What is the weather in Rome?")),
		Constraint: &llm.Constraint{Structural: json.RawMessage(call)}, MaxTokens: 100,
	})
	require.NoError(t, got.err)
	assert.Regexp(t, `^<tool_call>\{\s*"name"\s*:\s*"weather"\s*,\s*"arguments"\s*:\s*\{\s*"city"\s*:\s*"[^"]*"\s*\}\s*\}</tool_call>$`, got.text)
}

func TestFreePartComesBeforeTheSchema(t *testing.T) {
	req := llm.GenerateRequest{Tokens: prepare(t, runner(t), user(france)), MaxTokens: 200}
	req.Constraint = &llm.Constraint{Schema: json.RawMessage(person), After: "Paris"}
	got := run(t, runner(t), req)
	require.NoError(t, got.err)
	free, rest, found := strings.Cut(got.text, "Paris")
	require.True(t, found, got.text)
	assert.Contains(t, free, "capital")
	assert.NoError(t, schema.Validate([]byte(person), rest), got.text)
}

func TestAnswerThatIsCutOffHasLength(t *testing.T) {
	req := asked(t)
	req.MaxTokens = 5
	got := run(t, runner(t), req)
	require.NoError(t, got.err)
	assert.Equal(t, llm.FinishLength, got.stats.Finish)
	assert.Equal(t, 5, got.stats.CompletionTokens)
}

func TestConstraintThatCannotBeHeldIsRefusedBeforeAnythingRuns(t *testing.T) {
	req := asked(t)
	req.Constraint = &llm.Constraint{Schema: json.RawMessage(`{"type":"object","properties":{"tags":{"type":"array","uniqueItems":true}}}`)}
	got := run(t, runner(t), req)
	require.Error(t, got.err)
	assert.Equal(t, llm.CodeInvalid, llm.CodeOf(got.err))
	assert.Contains(t, got.err.Error(), `"uniqueItems" at #/properties/tags`)
	assert.Zero(t, got.stats.CompletionTokens)
	assert.Zero(t, got.stats.Prefill)
}

func TestConstrainedAndFreeAnswersAtOnce(t *testing.T) {
	free := llm.GenerateRequest{Tokens: prepare(t, runner(t), user(france)), MaxTokens: 64}
	alone, held := run(t, runner(t), free), run(t, runner(t), asked(t))
	results := make(chan bool, 4)
	for i := range 4 {
		go func() {
			if i%2 == 0 {
				results <- run(t, runner(t), free).text == alone.text
			} else {
				results <- run(t, runner(t), asked(t)).text == held.text
			}
		}()
	}
	for range 4 {
		assert.True(t, <-results)
	}
}
