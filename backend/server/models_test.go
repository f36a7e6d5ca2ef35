package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/downloads"
	"signalbox/backend/hub"
	"signalbox/backend/hub/hubtest"
	"signalbox/backend/models"
	"signalbox/backend/server"
	"signalbox/internal/testenv"
)

const pulled = "OpenVINO/Qwen3-8B-int4-cw-ov"

// shop is a server over a real library, an empty one beside the starter model, and a hub for tests.
type shop struct {
	url  string
	dir  string
	hub  *hubtest.Hub
	shop *server.Shop
}

func newShop(t *testing.T) *shop {
	h := hubtest.New(t)
	dir := filepath.Join(t.TempDir(), "models")
	library := models.Open(dir, filepath.Dir(testenv.ChatModel(t)))
	connect := func() (*hub.Client, error) {
		return hub.New(hub.Options{Endpoint: h.URL, Retries: 1, Backoff: time.Millisecond, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
	}
	plenty := func(string) (int64, int64, error) { return 1 << 50, 1 << 50, nil }
	s := &shop{dir: dir, hub: h, shop: &server.Shop{
		Library: library, Hub: connect, Table: models.Builtin, Space: plenty,
		Downloads: downloads.New(downloads.Options{Library: library, Hub: connect, Space: plenty}),
	}}
	srv := httptest.NewServer(server.New(server.Deps{Models: library, Shop: s.shop}).Public())
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

func (s *shop) do(t *testing.T, method, path, body string) (int, string) {
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func TestS23ToS26PullFramesAreOllamas(t *testing.T) {
	s := newShop(t)
	s.hub.Add(pulled, hubtest.Small(300_000))
	status, text := s.do(t, "POST", "/api/pull", `{"model":"qwen3"}`)
	require.Equal(t, 200, status, text)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	assert.Equal(t, `{"status":"pulling manifest"}`, lines[0])
	n := len(lines)
	assert.Equal(t, []string{`{"status":"verifying sha256 digest"}`, `{"status":"writing manifest"}`, `{"status":"success"}`}, lines[n-3:])
	sum := sha256.Sum256(hubtest.Small(300_000)["openvino_model.bin"])
	assert.Contains(t, text, fmt.Sprintf(`{"status":"pulling openvino_model.bin","digest":"sha256:%x","total":300000,"completed":0}`, sum))
	assert.Contains(t, text, fmt.Sprintf(`{"status":"pulling openvino_model.bin","digest":"sha256:%x","total":300000,"completed":300000}`, sum))
	status, text = s.do(t, "POST", "/api/pull", `{"name":"qwen3","stream":false}`)
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"status":"success"}`, text)
	_, text = s.do(t, "GET", "/api/tags", "")
	assert.Contains(t, text, `"name":"qwen3:8b"`)
}

func TestModelManagementAnswersInOllamasWords(t *testing.T) {
	s := newShop(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/api/pull", ``, 400, `{"error":"missing request body"}`},
		{"POST", "/api/pull", `{}`, 400, `{"error":"invalid model name"}`},
		{"POST", "/api/pull", `{"model":"a b"}`, 400, `{"error":"invalid model name"}`},
		{"POST", "/api/pull", `{"model":"http://evil/x"}`, 400, `{"error":"invalid model name"}`},
		{"POST", "/api/pull", `{"model":"nothing-like-it"}`, 404, `pull model manifest: file does not exist`},
		{"POST", "/api/pull", `{"model":"Some/Thing-ov"}`, 200, `{"error":"pull model manifest: file does not exist`},
		{"POST", "/api/pull", `{"model":"Some/Thing-ov","stream":false}`, 404, `{"error":"pull model manifest: file does not exist`},
		{"DELETE", "/api/delete", `{"model":"x"}`, 404, `{"error":"model 'x' not found`},
		{"DELETE", "/api/delete", `{"model":"../x"}`, 400, `{"error":"name \"../x\" is invalid"}`},
		{"DELETE", "/api/delete", `{"model":"smollm2:135m"}`, 403, `came with Signalbox`},
		{"POST", "/api/copy", `{"source":"x","destination":"y"}`, 404, `{"error":"model \"x\" not found"}`},
		{"POST", "/api/copy", `{"source":"a b","destination":"y"}`, 400, `{"error":"source \"a b\" is invalid"}`},
		{"POST", "/api/copy", `{"source":"smollm2:135m","destination":"C:\\x"}`, 400, `{"error":"destination \"C:\\\\x\" is invalid"}`},
		{"POST", "/api/push", `{}`, 400, `{"error":"model is required"}`},
		{"POST", "/api/push", `{"model":"x"}`, 400, `Signalbox sends no models anywhere`},
		{"POST", "/api/create", `{"model":"x"}`, 400, `neither 'from' or 'files' was specified`},
		{"POST", "/api/create", `{"model":"x","from":"nothing"}`, 404, `model 'nothing' not found`},
		{"POST", "/api/create", `{"model":"../x","from":"smollm2:135m"}`, 400, `invalid model name`},
		{"POST", "/api/create", `{"model":"x","from":"../../etc"}`, 400, `is invalid`},
		{"POST", "/api/create", `{"model":"x","from":"smollm2:135m","adapters":{"a":"sha256:00"}}`, 400, `adapters are not supported`},
		{"POST", "/api/create", `{"model":"x","from":"smollm2:135m","parameters":{"temperature":"hot"}}`, 400, `temperature`},
		{"POST", "/api/create", `{"model":"x","from":"smollm2:135m","parameters":{"nonsense":1}}`, 400, `unknown parameter 'nonsense'`},
		{"POST", "/api/create", `{"model":"x","from":"smollm2:135m","template":"{{ .Prompt }}"}`, 400, `Jinja`},
		{"POST", "/api/blobs/sha256:../../x", `x`, 404, ``},
		{"POST", "/api/blobs/sha256:..%2f..%2fx", `x`, 404, ``},
		{"POST", "/api/blobs/sha256:xyz", `x`, 400, `invalid digest format`},
		{"POST", "/api/blobs/sha256:" + strings.Repeat("0", 64), `x`, 400, `digest mismatch, expected "sha256:` + strings.Repeat("0", 64)},
		{"HEAD", "/api/blobs/sha256:" + strings.Repeat("0", 64), ``, 404, ``},
	} {
		status, text := s.do(t, c.method, c.path, c.body)
		assert.Equal(t, c.status, status, "%s %s %s: %s", c.method, c.path, c.body, text)
		var said struct{ Error string }
		_ = json.Unmarshal([]byte(strings.TrimSpace(text)), &said)
		assert.Contains(t, text+said.Error, c.says, "%s %s", c.path, c.body)
	}
	outside, err := os.ReadDir(filepath.Dir(s.dir))
	require.NoError(t, err)
	for _, e := range outside {
		assert.Equal(t, "models", e.Name(), "a file outside the library")
	}
}

func TestAVariantIsCreatedCopiedShownAndDeleted(t *testing.T) {
	s := newShop(t)
	status, text := s.do(t, "POST", "/api/create", `{"model":"pirate","from":"smollm2:135m","system":"You are a pirate.","parameters":{"temperature":0.1,"stop":["x","y"]},"license":["A","B"]}`)
	require.Equal(t, 200, status, text)
	assert.True(t, strings.HasPrefix(text, `{"status":"reading model metadata"}`+"\n"+`{"status":"creating system layer"}`+"\n"+`{"status":"using already created layer sha256:`), text)
	assert.True(t, strings.HasSuffix(text, `{"status":"writing manifest"}`+"\n"+`{"status":"success"}`+"\n"))
	_, text = s.do(t, "POST", "/api/show", `{"model":"pirate"}`)
	assert.Contains(t, text, `temperature                    0.1`)
	assert.Contains(t, text, `A\nB`)
	assert.Contains(t, text, `"system":"You are a pirate."`)
	assert.Contains(t, text, `"parent_model":"smollm2:135m"`)
	status, text = s.do(t, "POST", "/api/copy", `{"source":"pirate","destination":"corsair"}`)
	assert.Equal(t, 200, status)
	assert.Empty(t, text)
	status, text = s.do(t, "DELETE", "/api/delete", `{"name":"pirate"}`)
	assert.Equal(t, 200, status)
	assert.Empty(t, text)
	_, text = s.do(t, "GET", "/api/tags", "")
	assert.NotContains(t, text, `"pirate`)
	assert.Contains(t, text, `"corsair`)
	status, text = s.do(t, "POST", "/api/create", `{"model":"old","modelfile":"FROM smollm2:135m\nSYSTEM hi","stream":false}`)
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"status":"success"}`, text)
}

func TestBlobsAreTakenUntilTheFloorAndCollected(t *testing.T) {
	s := newShop(t)
	blob := []byte("GGUF\x03\x00\x00\x00" + strings.Repeat("\x00", 8) + "\x01" + strings.Repeat("\x00", 7) +
		"\x14" + strings.Repeat("\x00", 7) + "general.architecture" + "\x08\x00\x00\x00" + "\x05" + strings.Repeat("\x00", 7) + "qwen3")
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(blob))
	status, _ := s.do(t, "POST", "/api/blobs/"+digest, string(blob))
	assert.Equal(t, 201, status)
	status, _ = s.do(t, "POST", "/api/blobs/"+digest, string(blob))
	assert.Equal(t, 200, status)
	status, _ = s.do(t, "HEAD", "/api/blobs/"+digest, "")
	assert.Equal(t, 200, status)
	status, text := s.do(t, "POST", "/api/create", fmt.Sprintf(`{"model":"x","files":{"m.gguf":%q}}`, digest))
	assert.Equal(t, 400, status)
	assert.Contains(t, text, `architecture \"qwen3\"`)
	assert.Contains(t, text, "signalbox pull qwen3:")

	old := time.Now().Add(-25 * time.Hour)
	path := filepath.Join(s.dir, ".blobs", strings.Replace(digest, ":", "-", 1))
	require.NoError(t, os.Chtimes(path, old, old))
	free := int64(models.Reserve + 40<<20)
	s.shop.Space = func(string) (int64, int64, error) { free -= 4 << 20; return free, 1 << 40, nil }
	req, err := http.NewRequestWithContext(context.Background(), "POST", s.url+"/api/blobs/sha256:"+strings.Repeat("0", 64), io.LimitReader(zeros{}, 100<<30))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusInsufficientStorage, resp.StatusCode)
	left, err := os.ReadDir(filepath.Join(s.dir, ".blobs"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{0}, len(p))), nil }

func TestClientsMayBeKeptFromDownloading(t *testing.T) {
	s := newShop(t)
	s.shop.MayPull = func() bool { return false }
	status, text := s.do(t, "POST", "/api/pull", `{"model":"qwen3"}`)
	assert.Equal(t, 403, status)
	assert.Contains(t, text, "in the Signalbox window")
	assert.Empty(t, s.hub.Requests())
}

func TestSearchAndTheKnownModels(t *testing.T) {
	s := newShop(t)
	s.hub.Add(pulled, nil)
	_, text := s.do(t, "GET", "/api/search?q=qwen3&npu=true", "")
	assert.Contains(t, text, `"repo":"`+pulled+`"`)
	_, text = s.do(t, "GET", "/api/models/known", "")
	assert.Contains(t, text, `"name":"qwen3:8b"`)
	s.hub.Set(func(f *hubtest.Faults) {
		f.Before = func(_ string, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
	})
	status, text := s.do(t, "GET", "/api/search?q=x", "")
	assert.Equal(t, 502, status)
	assert.Contains(t, text, "has a fault")
}
