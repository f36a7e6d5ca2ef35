package server_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSeveralPromptsAreSeveralRequestsWithTrueCounts(t *testing.T) {
	r := newRig(t)
	resp, text := do(t, "POST", r.public.URL+"/v1/completions",
		`{"model":"smollm2:135m","prompt":["one","one two three four","[[say yes]] x"],"max_tokens":3}`, "X-Request-ID", "mine")
	require.Equal(t, 200, resp.StatusCode, text)
	o := object(t, text)
	assert.Nil(t, o["llmeu"], "there is none of all")
	assert.Equal(t, "cmpl-mine", o["id"])
	usage := o["usage"].(map[string]any)
	prompt, completion := 0.0, 0.0
	traces := map[any]bool{}
	for i, c := range o["choices"].([]any) {
		choice := c.(map[string]any)
		assert.EqualValues(t, i, choice["index"])
		record := choice["llmeu"].(map[string]any)
		prompt += record["prompt_tokens"].(float64)
		completion += record["completion_tokens"].(float64)
		traces[record["trace_id"]] = true
		status, entry := r.call(t, "GET", "/ui/requests/"+record["trace_id"].(string), "")
		require.Equal(t, 200, status)
		assert.Equal(t, record["prompt_tokens"], object(t, entry)["prompt_tokens"])
	}
	assert.Len(t, traces, 3)
	assert.True(t, traces["mine"], "the first has the answer's id")
	assert.Equal(t, usage["prompt_tokens"], prompt)
	assert.Equal(t, usage["completion_tokens"], completion)
	assert.Equal(t, strconv.Itoa(int(prompt)), resp.Header.Get("X-NPU-Proxy-Token-Count"))
	assert.Equal(t, "mock", resp.Header.Get("X-NPU-Proxy-Execution-Device"))

	_, text = do(t, "POST", r.public.URL+"/v1/completions", `{"model":"smollm2:135m","prompt":["one"]}`)
	o = object(t, text)
	assert.NotNil(t, o["llmeu"])
	assert.NotContains(t, o["choices"].([]any)[0], "llmeu")
}
