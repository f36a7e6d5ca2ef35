package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// goWords are what the JSON decoder says to programmers.
var goWords = []string{"EOF", "json:", "Go struct", "Go value", "unmarshal", "config.", "struct", "float64", "invalid duration"}

func TestNoOneIsToldInTheWordsOfOurLanguage(t *testing.T) {
	r := newRig(t)
	for path := range askers {
		for _, body := range []string{`{`, `{"model":`, `{"model":"smollm2:135m"`, `[]`, `"`, `nul`, `{"model":1}`, `{"model":"smollm2:135m","keep_alive":"soon"}`, `{"model":"smollm2:135m","stream":"yes"}`} {
			_, text := do(t, "POST", r.public.URL+path, body)
			for _, word := range goWords {
				assert.NotContains(t, text, word, "%s %s", path, body)
			}
		}
	}
	for body, want := range map[string]string{
		``:                           "missing request body",
		`{`:                          "the request body is no whole JSON: it ends in the middle",
		`{"port":`:                   "the request body is no whole JSON: it ends in the middle",
		`{"port":1`:                  "the request body is no whole JSON: it ends in the middle",
		`x`:                          "the request body is not JSON: invalid character 'x' looking for beginning of value",
		`[]`:                         "the request body must be an object, not an array",
		`{"port":"one"}`:             "port must be a whole number, not a string",
		`{"port":1.5}`:               "port must be a whole number, not 1.5",
		`{"port":1e300}`:             "port must be a whole number, not 1e300",
		`{"emulate_npu":1}`:          "emulate_npu must be a boolean, not a number",
		`{"origins":"x"}`:            "origins must be an array, not a string",
		`{"pins":[{"device":true}]}`: "pins.device must be a string, not a boolean",
		`{"prot":1}`:                 `there is no field called \"prot\" here`,
		`{"` + strings.Repeat("x", 1<<20) + `":1}`: "there is no field called",
	} {
		status, text := r.call(t, "PUT", "/ui/settings", body)
		assert.Equal(t, 400, status, "%.40s", body)
		assert.Contains(t, text, want, "%.40s", body)
		assert.Less(t, len(text), 200, "%.40s", body)
	}
	resp, text := do(t, "POST", r.public.URL+"/api/route/explain", `{"model":`)
	assert.Equal(t, 400, resp.StatusCode)
	assert.Contains(t, text, "it ends in the middle")
}

func TestALongNameIsNotSentBackWhole(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("x", 1<<20)
	for path, body := range map[string]string{
		"/api/show": `{"model":"` + long + `"}`, "/v1/embeddings": `{"model":"` + long + `","input":"x"}`, "/api/embed": `{"model":"` + long + `","input":"x"}`,
		"/api/route/explain": `{"model":"` + long + `","prompt":"x"}`,
	} {
		_, text := do(t, "POST", r.public.URL+path, body)
		assert.Less(t, len(text), 1000, path)
	}
	for path, body := range askers {
		resp, text := do(t, "POST", r.public.URL+path, strings.Replace(strings.Replace(body, "%t", "false", 1), "smollm2:135m", long, 1))
		assert.Contains(t, []int{400, 404}, resp.StatusCode, path)
		assert.Less(t, len(text), 1000, path)
	}
}
