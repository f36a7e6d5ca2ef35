package server_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// FuzzBodies sends anything as anything: packed or not, to the route that takes all dialects. Nothing of it is our fault.
func FuzzBodies(f *testing.F) {
	r := newRig(f)
	for _, seed := range []string{
		`{"model":"smollm2:135m","messages":[{"role":"user","content":"hi"}]}`, `{"model":"smollm2:135m","max_tokens":1,"system":"s","messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"smollm2:135m","input":"hi","instructions":"x"}`, `{"model":"all-minilm","input":["a"]}`, `{"model":"smollm2:135m","prompt":["a","b"],"echo":true}`, `[]`, `{`, "\x1f\x8b\x08\x00", "\x28\xb5\x2f\xfd\x04\x00",
	} {
		for _, coding := range []string{"", "gzip", "zstd"} {
			f.Add(seed, coding, "/v1/chat/completions")
			f.Add(seed, coding, "")
		}
	}
	f.Fuzz(func(t *testing.T, body, coding, as string) {
		if coding != "" && coding != "gzip" && coding != "zstd" {
			t.Skip()
		}
		path := "/api/route/explain"
		if _, known := map[string]bool{"/api/chat": true, "/v1/messages": true, "/v1/responses": true, "/v1/completions": true, "/v1/chat/completions": true}[as]; known {
			path += "?as=" + as
		}
		headers := []string{}
		if coding != "" {
			headers = []string{"Content-Encoding", coding}
		}
		resp, text := do(t, "POST", r.public.URL+path, body, headers...)
		assert.True(t, resp.StatusCode < 500 || resp.StatusCode == 501, "%d %s", resp.StatusCode, text)
	})
}
