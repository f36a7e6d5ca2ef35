package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// packers write a body in each Content-Encoding there is.
var packers = map[string]func(testing.TB, io.Writer) io.WriteCloser{
	"gzip": func(_ testing.TB, w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"zstd": func(t testing.TB, w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		require.NoError(t, err)
		return z
	},
}

func packed(t testing.TB, coding string, write func(io.Writer)) string {
	var b bytes.Buffer
	z := packers[coding](t, &b)
	write(z)
	require.NoError(t, z.Close())
	return b.String()
}

func TestPackedBodiesAreUnpackedInEveryDialect(t *testing.T) {
	r := newRig(t)
	for coding := range packers {
		for path, body := range map[string]string{
			"/v1/responses":        `{"model":"smollm2:135m","input":"hi"}`,
			"/v1/chat/completions": `{"model":"smollm2:135m","messages":[{"role":"user","content":"hi"}]}`,
			"/v1/messages":         `{"model":"smollm2:135m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
			"/api/chat":            `{"model":"smollm2:135m","stream":false,"messages":[{"role":"user","content":"hi"}]}`,
			"/api/embed":           `{"model":"all-minilm","input":"` + strings.Repeat("long ", 1<<18) + `"}`,
		} {
			small := packed(t, coding, func(w io.Writer) { _, _ = io.WriteString(w, body) })
			resp, text := do(t, "POST", r.public.URL+path, small, "Content-Encoding", coding)
			assert.Equal(t, 200, resp.StatusCode, "%s %s: %s", coding, path, text)
		}
		for name, body := range map[string]string{"nothing": "", "no such thing": "{}", "half": packed(t, coding, func(w io.Writer) { _, _ = io.WriteString(w, strings.Repeat("{", 1000)) })[:12]} {
			resp, text := do(t, "POST", r.public.URL+"/v1/responses", body, "Content-Encoding", coding)
			assert.Equal(t, 400, resp.StatusCode, "%s of %s: %s", coding, name, text)
		}
	}
}

// TestA22PackedBombsTakeNoMemory: 4 GiB of blanks in a body of a few megabytes: what both packers write may follow itself.
func TestA22PackedBombsTakeNoMemory(t *testing.T) {
	r := newRig(t)
	for coding := range packers {
		bomb := strings.Repeat(packed(t, coding, func(w io.Writer) { _, _ = w.Write(bytes.Repeat([]byte{' '}, 1<<20)) }), 4096)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		resp, text := do(t, "POST", r.public.URL+"/v1/responses", bomb, "Content-Encoding", coding)
		runtime.ReadMemStats(&after)
		assert.Equal(t, 413, resp.StatusCode, "%s: %s", coding, text)
		assert.Contains(t, text, "larger than 64 MiB")
		assert.Less(t, int64(after.TotalAlloc-before.TotalAlloc), int64(400<<20), "%s: all that was ever held, in turn", coding)
	}
}

func TestA22AZstdWindowHasALimit(t *testing.T) {
	r := newRig(t)
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
	require.NoError(t, err)
	_, err = z.Write(bytes.Repeat([]byte("window "), 2<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	resp, text := do(t, "POST", r.public.URL+"/v1/responses", b.String(), "Content-Encoding", "zstd")
	assert.Equal(t, 400, resp.StatusCode)
	assert.Contains(t, text, "window size")
}
