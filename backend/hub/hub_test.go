package hub_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"signalbox/backend/hub"
	"signalbox/backend/hub/hubtest"
	"signalbox/backend/llm"
	"signalbox/internal/testenv"
)

const repo = "OpenVINO/Small-int4-ov"

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

func quick(h *hubtest.Hub) hub.Options {
	return hub.Options{Endpoint: h.URL, Proxy: noProxy, Stall: 20 * time.Second, Backoff: time.Millisecond, Chunk: 64 << 10}
}

func client(t *testing.T, o hub.Options) *hub.Client {
	c, err := hub.New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// fetch downloads one file, and checks that progress never goes back.
func fetch(t *testing.T, c *hub.Client, name, path string) (string, error) {
	s, err := c.Snapshot(t.Context(), repo, "")
	require.NoError(t, err)
	f, ok := s.File(name)
	require.True(t, ok)
	last := int64(-1)
	return c.Download(t.Context(), s, f, path, func(done int64) {
		assert.GreaterOrEqual(t, done, last, "progress runs backwards")
		assert.LessOrEqual(t, done, f.Size)
		last = done
	})
}

func TestTheStarterModelComesWholeThroughTheRedirect(t *testing.T) {
	h := hubtest.New(t)
	h.AddFolder(t, repo, testenv.ChatModel(t))
	c := client(t, hub.Options{Endpoint: h.URL, Proxy: noProxy, Chunk: 8 << 20, Token: func(string) string { return "hf_secret" }})
	s, err := c.Snapshot(t.Context(), repo, "main")
	require.NoError(t, err)
	assert.Equal(t, hubtest.Commit, s.Commit)
	assert.Equal(t, "apache-2.0", s.License)
	dir := t.TempDir()
	for _, f := range s.Files {
		path := filepath.Join(dir, filepath.Base(f.Name))
		sum, err := c.Download(t.Context(), s, f, path, func(int64) {})
		require.NoError(t, err, f.Name)
		assert.Len(t, sum, 64)
		want, err := os.ReadFile(filepath.Join(testenv.ChatModel(t), f.Name))
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), f.Name)
		assert.NoFileExists(t, path+".state")
	}
	for _, r := range h.Requests() {
		if r.Where == "store" {
			assert.Empty(t, r.Authorization, "the token went to the store")
		} else {
			assert.Equal(t, "Bearer hf_secret", r.Authorization)
			assert.NotContains(t, r.Path, "/resolve/main", "files are fetched by commit")
		}
	}
}

func TestOnlyFilesOfTheListAreTaken(t *testing.T) {
	h := hubtest.New(t)
	files := hubtest.Small(100)
	for _, name := range []string{`..\x`, "../x", "aux.json", "a/openvino_model.xml", "/etc/passwd", "OPENVINO_MODEL.XML", "config.json.", "signalbox.json", "run.py"} {
		files[name] = []byte("x")
	}
	h.Add(repo, files)
	h.PageSize = 3
	s, err := client(t, quick(h)).Snapshot(t.Context(), repo, "")
	require.NoError(t, err)
	var names []string
	for _, f := range s.Files {
		names = append(names, f.Name)
	}
	assert.ElementsMatch(t, []string{"openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml", "openvino_tokenizer.bin", "config.json", "chat_template.jinja"}, names)
}

func TestACutIsResumedAtTheByte(t *testing.T) {
	h := hubtest.New(t)
	files := hubtest.Small(500_000)
	h.Add(repo, files)
	var cut atomic.Bool
	h.Before = func(where string, w http.ResponseWriter, r *http.Request) bool {
		if where != "store" || !cut.CompareAndSwap(false, true) {
			return false
		}
		w.Header().Set("Content-Range", "bytes 0-499999/500000")
		w.Header().Set("Content-Length", "500000")
		w.Write(files["openvino_model.bin"][:185_000])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	o := quick(h)
	o.Chunk = 1 << 20
	_, err := fetch(t, client(t, o), "openvino_model.bin", filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	var ranges []string
	for _, r := range h.Requests() {
		if r.Where == "store" {
			ranges = append(ranges, r.Range)
		}
	}
	assert.Equal(t, []string{"", "bytes=185000-499999"}, ranges)
}

func TestAStopIsResumedByTheNextCall(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(1_000_000))
	h.Pace = 5 * time.Millisecond
	c := client(t, quick(h))
	s, err := c.Snapshot(t.Context(), repo, "")
	require.NoError(t, err)
	f, _ := s.File("openvino_model.bin")
	path := filepath.Join(t.TempDir(), "f")
	ctx, cancel := context.WithCancel(t.Context())
	var had int64
	_, err = c.Download(ctx, s, f, path, func(done int64) {
		had = done
		if done > 370_000 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	first := int64(-1)
	_, err = c.Download(t.Context(), s, f, path, func(done int64) {
		if first < 0 {
			first = done
		}
	})
	require.NoError(t, err)
	assert.Equal(t, had, first, "not a byte twice")
}

func TestAHubWithoutRangesIsReadInOneStream(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(400_000))
	h.NoRanges = true
	path := filepath.Join(t.TempDir(), "f")
	_, err := fetch(t, client(t, quick(h)), "openvino_model.bin", path)
	require.NoError(t, err)
}

func TestAChangedETagStartsThatFileOver(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(400_000))
	var n atomic.Int32
	h.ETag = func(string) string { return fmt.Sprint("v", min(n.Add(1), 4)/4) }
	_, err := fetch(t, client(t, quick(h)), "openvino_model.bin", filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
}

func TestAStallIsTriedAgain(t *testing.T) {
	h := hubtest.New(t)
	files := hubtest.Small(300_000)
	h.Add(repo, files)
	var stalled atomic.Bool
	h.Before = func(where string, w http.ResponseWriter, r *http.Request) bool {
		if where != "store" || !stalled.CompareAndSwap(false, true) {
			return false
		}
		w.Header().Set("Content-Length", "300000")
		w.Write(files["openvino_model.bin"][:1000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	o := quick(h)
	o.Stall, o.Chunk = time.Second, 1<<20
	_, err := fetch(t, client(t, o), "openvino_model.bin", filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
}

func TestWrongBytesAreDeletedAndNamed(t *testing.T) {
	for name, file := range map[string]string{"of a large file": "openvino_model.bin", "of a plain file": "chat_template.jinja"} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.New(t)
			h.Add(repo, hubtest.Small(300_000))
			h.Content = func(_ string, content []byte) []byte {
				changed := bytes.Clone(content)
				changed[len(changed)/2] ^= 1
				return changed
			}
			path := filepath.Join(t.TempDir(), "f")
			_, err := fetch(t, client(t, quick(h)), file, path)
			assert.ErrorContains(t, err, file)
			assert.ErrorContains(t, err, "is not what the hub declares")
			assert.NoFileExists(t, path)
			assert.NoFileExists(t, path+".state")
		})
	}
}

func TestZerosOfTheRightSizeAreNotTheFile(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(300_000))
	c := client(t, quick(h))
	path := filepath.Join(t.TempDir(), "f")
	ctx, cancel := context.WithCancel(t.Context())
	s, err := c.Snapshot(t.Context(), repo, "")
	require.NoError(t, err)
	f, _ := s.File("openvino_model.bin")
	_, err = c.Download(ctx, s, f, path, func(done int64) {
		if done > 100_000 {
			cancel()
		}
	})
	require.Error(t, err)
	require.NoError(t, os.WriteFile(path, make([]byte, f.Size), 0o600)) // what a power cut can leave
	sum, err := fetch(t, c, "openvino_model.bin", path)
	require.NoError(t, err)
	assert.Equal(t, f.SHA256, sum)
}

func TestWrongSizesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		content func([]byte) []byte
		says    string
	}{
		"truncated": {func(b []byte) []byte { return b[:len(b)-10] }, "are declared"},
		"longer":    {func(b []byte) []byte { return append(bytes.Clone(b), 'x') }, "are declared"},
		"LFS pointer": {func([]byte) []byte {
			return []byte("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n")
		}, "only a Git LFS pointer"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.New(t)
			h.Add(repo, hubtest.Small(50_000))
			h.Content = func(_ string, content []byte) []byte { return c.content(content) }
			_, err := fetch(t, client(t, quick(h)), "openvino_model.bin", filepath.Join(t.TempDir(), "f"))
			assert.ErrorContains(t, err, c.says)
		})
	}
}

func TestAnEndlessAnswerStopsAtTheDeclaredSize(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(50_000))
	var sent atomic.Int64
	h.Before = func(where string, w http.ResponseWriter, r *http.Request) bool {
		if where != "store" {
			return false
		}
		for r.Context().Err() == nil {
			n, err := w.Write(make([]byte, 64<<10))
			if sent.Add(int64(n)); err != nil {
				return true
			}
		}
		return true
	}
	path := filepath.Join(t.TempDir(), "f")
	_, err := fetch(t, client(t, quick(h)), "openvino_model.bin", path)
	assert.ErrorContains(t, err, "sends more of openvino_model.bin than the 50000 bytes it declares")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.LessOrEqual(t, info.Size(), int64(50_000))
	assert.Less(t, sent.Load(), int64(20<<20))
}

func TestAnotherPartThanAskedForIsRefused(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(300_000))
	h.Before = func(where string, w http.ResponseWriter, r *http.Request) bool {
		if where != "store" {
			return false
		}
		w.Header().Set("Content-Range", "bytes 5-9/300000")
		w.WriteHeader(http.StatusPartialContent)
		w.Write([]byte("12345"))
		return true
	}
	_, err := fetch(t, client(t, quick(h)), "openvino_model.bin", filepath.Join(t.TempDir(), "f"))
	assert.ErrorContains(t, err, "another part")
}

func TestStatusesHaveTheirMeaning(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		code   string
		token  string
		want   llm.Code
		says   string
	}{
		"unknown":         {401, "RepoNotFound", "", llm.CodeModelNotFound, "pull model manifest: file does not exist"},
		"gone":            {404, "", "", llm.CodeModelNotFound, "pull model manifest: file does not exist"},
		"revision":        {404, "RevisionNotFound", "", llm.CodeModelNotFound, "no such revision"},
		"gated":           {401, "GatedRepo", "", llm.CodeForbidden, "accept its license"},
		"gated, token":    {403, "GatedRepo", "hf_x", llm.CodeForbidden, "license must be accepted first"},
		"token is wrong":  {401, "", "hf_x", llm.CodeForbidden, "does not accept the token"},
		"too many":        {429, "", "", llm.CodeUnavailable, "asks to slow down"},
		"hub is down":     {503, "", "", llm.CodeUnavailable, "has a fault"},
		"something other": {418, "", "", llm.CodeUnavailable, "418"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.New(t)
			h.Before = func(_ string, w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("X-Error-Code", c.code)
				if c.status == 429 {
					w.Header().Set("Retry-After", "7200") // longer than anyone waits
				}
				w.WriteHeader(c.status)
				return true
			}
			o := quick(h)
			o.Retries, o.Token = 1, func(string) string { return c.token }
			_, err := client(t, o).Snapshot(t.Context(), repo, "")
			assert.Equal(t, c.want, llm.CodeOf(err))
			assert.ErrorContains(t, err, c.says)
		})
	}
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(10))
	var asked atomic.Int32
	h.Before = func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		if asked.Add(1) > 1 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	began := time.Now()
	_, err := client(t, quick(h)).Snapshot(t.Context(), repo, "")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(began), time.Second)
}

func TestWhatAHubMaySayHasBounds(t *testing.T) {
	info := fmt.Sprintf(`{"sha":%q}`, hubtest.Commit)
	for name, c := range map[string]struct {
		tree func(h *hubtest.Hub, w http.ResponseWriter, r *http.Request)
		says string
	}{
		"pages for ever": {func(h *hubtest.Hub, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?cursor=x>; rel="next"`, h.URL, r.URL.Path))
			fmt.Fprint(w, `[]`)
		}, "more than 50 pages"},
		"a page elsewhere": {func(_ *hubtest.Hub, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<http://127.0.0.1:9/x>; rel="next"`)
			fmt.Fprint(w, `[]`)
		}, "continues its list at another place"},
		"too many entries": {func(_ *hubtest.Hub, w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "["+strings.Repeat(`{"type":"file","path":"x"},`, 10_001)+`{}]`)
		}, "more than 10000 files"},
		"too much": {func(_ *hubtest.Hub, w http.ResponseWriter, r *http.Request) {
			w.Write(bytes.Repeat([]byte(" "), 17<<20))
		}, "more than 16 MiB"},
		"a gzip bomb": {func(_ *hubtest.Hub, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(make([]byte, 32<<20))
			z.Close()
		}, "does not answer as a hub"},
		"no hash":     {entries(`{"type":"file","path":"config.json","size":1}`), "declares no hash"},
		"a bad hash":  {entries(`{"type":"file","path":"openvino_model.bin","size":1,"lfs":{"oid":"../../x","size":1}}`), "declares no hash"},
		"twice":       {entries(`{"type":"file","path":"config.json","size":1,"oid":"` + hubtest.Commit + `"},{"type":"file","path":"config.json","size":2,"oid":"` + hubtest.Commit + `"}`), "twice"},
		"huge":        {entries(`{"type":"file","path":"config.json","size":9223372036854775807,"oid":"` + hubtest.Commit + `"}`), "declares 9223372036854775807 bytes"},
		"negative":    {entries(`{"type":"file","path":"config.json","size":-1,"oid":"` + hubtest.Commit + `"}`), "declares -1 bytes"},
		"no JSON":     {func(_ *hubtest.Hub, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "does not answer as a hub"},
		"only links":  {entries(`{"type":"symlink","path":"openvino_model.xml","size":1,"oid":"` + hubtest.Commit + `"}`), "is not an OpenVINO model"},
		"GGUF":        {entries(`{"type":"file","path":"m-q4.gguf","size":1,"oid":"` + hubtest.Commit + `"}`), "it has GGUF files"},
		"safetensors": {entries(`{"type":"file","path":"model.safetensors","size":1,"oid":"` + hubtest.Commit + `"}`), "weights for PyTorch"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.New(t)
			h.Before = func(_ string, w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "/revision/") {
					fmt.Fprint(w, info)
				} else {
					c.tree(h, w, r)
				}
				return true
			}
			o := quick(h)
			o.Stall = time.Minute // compressing a bomb takes a while on a busy machine
			_, err := client(t, o).Snapshot(t.Context(), repo, "")
			assert.ErrorContains(t, err, c.says)
		})
	}
}

func entries(list string) func(*hubtest.Hub, http.ResponseWriter, *http.Request) {
	return func(_ *hubtest.Hub, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "["+list+"]") }
}

// public makes the hub's servers look like machines on the internet: hub.test and store.test.
func public(h *hubtest.Hub, o hub.Options) (hub.Options, *[]string) {
	where, _ := url.Parse(h.URL)
	dialled := &[]string{}
	o.Endpoint = "http://hub.test"
	o.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "hub.test":
			return []netip.Addr{netip.MustParseAddr("198.51.100.7")}, nil
		case "inside.test":
			return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
		}
		return nil, &net.DNSError{Name: host, Err: "no such host", IsNotFound: true}
	}
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		*dialled = append(*dialled, address)
		return new(net.Dialer).DialContext(ctx, network, where.Host)
	}
	return o, dialled
}

func TestAHubOnTheInternetCannotLeadInside(t *testing.T) {
	for _, to := range []string{
		"http://127.0.0.1:9/", "http://[::1]:9/", "http://[::ffff:a9fe:a9fe]/", "http://169.254.169.254/", "http://10.0.0.1/", "http://192.168.1.1/",
		"http://172.16.0.1/", "http://[fe80::1]/", "http://[fd00::1]/", "http://0.0.0.0/", "http://100.64.0.1/", "http://[64:ff9b::7f00:1]/",
		"http://[2002:7f00:1::]/", "http://inside.test/", "file:///etc/passwd", "gopher://x/", "http://user:pass@hub.test/",
	} {
		t.Run(to, func(t *testing.T) {
			h := hubtest.New(t)
			h.Before = func(_ string, w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Location", to)
				w.WriteHeader(http.StatusFound)
				return true
			}
			o, dialled := public(h, quick(h))
			o.Retries, o.Token = 1, func(string) string { return "hf_secret" }
			_, err := client(t, o).Snapshot(t.Context(), repo, "")
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "does not answer as a hub")
			for _, address := range *dialled {
				assert.Equal(t, "198.51.100.7:80", address)
			}
			assert.Len(t, h.Requests(), 1, "the token was seen once")
		})
	}
}

func TestFromHTTPSNothingGoesOnInTheOpen(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://hub.test/x", http.StatusFound)
	}))
	defer srv.Close()
	o := hub.Options{Endpoint: srv.URL, Proxy: noProxy, Retries: 1, Backoff: time.Millisecond}
	_, err := client(t, o).Snapshot(t.Context(), repo, "")
	assert.ErrorContains(t, err, "which this computer does not trust")
	assert.ErrorContains(t, err, "Acme Co", "the issuer is named")

	file := filepath.Join(t.TempDir(), "company.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", file)
	_, err = client(t, o).Snapshot(t.Context(), repo, "")
	assert.ErrorContains(t, err, "redirects from https to http", "the company's own certificate is trusted")

	pool := srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	o.Roots = pool
	_, err = client(t, o).Snapshot(t.Context(), repo, "")
	assert.ErrorContains(t, err, "redirects from https to http")
}

func TestAProxySeesTheHubAndNeverThisComputer(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(10))
	var hosts []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.URL.Host)
		fmt.Fprint(w, `{"sha":"`+hubtest.Commit+`"}`)
	}))
	defer proxy.Close()
	at, _ := url.Parse(proxy.URL)
	through := func(*http.Request) (*url.URL, error) { return at, nil }

	_, err := client(t, hub.Options{Endpoint: "http://hub.example", Proxy: through}).Snapshot(t.Context(), repo, "")
	require.Error(t, err) // its tree is no list
	assert.Equal(t, []string{"hub.example", "hub.example"}, hosts)
	_, err = client(t, hub.Options{Endpoint: h.URL, Proxy: through}).Snapshot(t.Context(), repo, "")
	require.NoError(t, err)
	assert.Len(t, hosts, 2, "localhost went through the proxy")
}

// TestAWholePullThroughAProxyAsksForTheHubAndItsStore has a proxy between that writes down every host.
func TestAWholePullThroughAProxyAsksForTheHubAndItsStore(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(300_000))
	hubAt, _ := url.Parse(h.URL)
	storeAt, _ := url.Parse(h.Store)
	h.Store = "http://store.test"
	var mu sync.Mutex
	hosts, tokens := map[string]int{}, map[string]string{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hosts[r.URL.Host]++
		tokens[r.URL.Host] = r.Header.Get("Authorization")
		mu.Unlock()
		r.URL.Host = map[string]string{"hub.test": hubAt.Host, "store.test": storeAt.Host}[r.URL.Host]
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: r.URL.Host}) }}).ServeHTTP(w, r)
	}))
	defer proxy.Close()
	o := hub.Options{
		Endpoint: "http://hub.test", Token: func(string) string { return "hf_secret" },
		Proxy: hub.ProxyBy(func(name string) string {
			return map[string]string{"HTTP_PROXY": proxy.URL, "NO_PROXY": "localhost"}[name]
		}, nil),
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			return nil, fmt.Errorf("%s was looked up here, not by the proxy", host)
		},
	}
	c := client(t, o)
	s, err := c.Snapshot(t.Context(), repo, "")
	require.NoError(t, err)
	for _, f := range s.Files {
		_, err := c.Download(t.Context(), s, f, filepath.Join(t.TempDir(), "file"), func(int64) {})
		require.NoError(t, err, f.Name)
	}
	_, err = c.Search(t.Context(), hub.Query{})
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	assert.Len(t, hosts, 2, "%v", hosts)
	assert.Equal(t, map[string]string{"hub.test": "Bearer hf_secret", "store.test": ""}, tokens)
}

func TestATokenGoesToItsHubAlone(t *testing.T) {
	keyring.MockInit()
	env := map[string]string{"HF_TOKEN": "hf_env"}
	tokens := &hub.Tokens{File: filepath.Join(t.TempDir(), "tokens.json"), Getenv: func(k string) string { return env[k] }}
	assert.Equal(t, "hf_env", tokens.Get("https://huggingface.co"))
	assert.Empty(t, tokens.Get("https://mirror.example"))
	env["HF_ENDPOINT"] = "https://mirror.example/"
	assert.Equal(t, "hf_env", tokens.Get("https://mirror.example"))
	assert.Empty(t, tokens.Get("https://huggingface.co"))
	require.NoError(t, tokens.Set("https://huggingface.co", "hf_kept"))
	assert.Equal(t, "hf_kept", tokens.Get("https://huggingface.co"))
	assert.NoFileExists(t, tokens.File)

	keyring.MockInitWithError(fmt.Errorf("no keyring here"))
	other := &hub.Tokens{File: tokens.File, Getenv: func(string) string { return "" }}
	require.NoError(t, other.Set("https://a.example", "hf_file"))
	again := &hub.Tokens{File: tokens.File, Getenv: func(string) string { return "" }}
	assert.Equal(t, "hf_file", again.Get("https://a.example"))
	info, err := os.Stat(tokens.File)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, again.Set("https://a.example", ""))
	assert.Empty(t, again.Get("https://a.example"))
}

func TestSearchFiltersAndSaysWhenThereIsNoNetwork(t *testing.T) {
	h := hubtest.New(t)
	h.Add("OpenVINO/Qwen3-8B-int4-cw-ov", nil)
	h.Add("OpenVINO/Qwen3-0.6B-fp16-ov", nil)
	h.Add("evil/../x", nil)
	c := client(t, quick(h))
	found, err := c.Search(t.Context(), hub.Query{Text: "qwen3", Sort: "name"})
	require.NoError(t, err)
	require.Len(t, found, 2)
	assert.Equal(t, "fp16", found[0].Quantization)
	assert.Equal(t, 0.6, found[0].Billions)
	found, err = c.Search(t.Context(), hub.Query{NPU: true})
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, 8.0, found[0].Billions)

	o, _ := public(h, quick(h))
	o.Endpoint, o.Retries = "http://nowhere.test", 1
	_, err = client(t, o).Search(t.Context(), hub.Query{})
	assert.ErrorContains(t, err, "may be offline")
}

// scope makes the hub's servers look like ModelScope's.
func scope(t *testing.T, h *hubtest.Hub, o hub.Options) hub.Options {
	hubAt, _ := url.Parse(h.URL)
	storeAt, _ := url.Parse(h.Store)
	o.Endpoint = "http://modelscope.cn"
	o.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(map[string]string{"modelscope.cn": "198.51.100.7"}[host])}, nil
	}
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, map[string]string{"198.51.100.7:80": hubAt.Host, "198.51.100.8:80": storeAt.Host}[address])
	}
	store := storeAt.Host
	h.Store = "http://198.51.100.8" // on the internet, as far as the client sees
	t.Cleanup(func() { h.Store = "http://" + store })
	return o
}

func TestModelsComeFromModelScopeToo(t *testing.T) {
	h := hubtest.New(t)
	h.AddFolder(t, "OpenVINO/SmolLM2-135M-int4-ov", testenv.ChatModel(t))
	h.Add("OpenVINO/Qwen3-8B-int4-cw-ov", hubtest.Small(10))
	h.Add("someone/qwen3-openvino-notes", nil)
	o := scope(t, h, quick(h))
	o.Token = func(origin string) string { return map[string]string{"http://modelscope.cn": "ms-secret"}[origin] }
	c := client(t, o)
	s, err := c.Snapshot(t.Context(), "OpenVINO/SmolLM2-135M-int4-ov", "")
	require.NoError(t, err)
	assert.Equal(t, hubtest.Commit, s.Commit)
	for _, f := range s.Files {
		path := filepath.Join(t.TempDir(), filepath.Base(f.Name))
		require.Len(t, f.SHA256, 64, "%s: every file has one there", f.Name)
		sum, err := c.Download(t.Context(), s, f, path, func(int64) {})
		require.NoError(t, err, f.Name)
		assert.Equal(t, f.SHA256, sum)
		want, err := os.ReadFile(filepath.Join(testenv.ChatModel(t), f.Name))
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), f.Name)
	}
	for _, r := range h.Requests() {
		assert.Equal(t, r.Where == "hub", r.Authorization == "Bearer ms-secret", "%+v", r)
	}

	_, err = c.Snapshot(t.Context(), "OpenVINO/Nothing-ov", "")
	assert.Equal(t, llm.CodeModelNotFound, llm.CodeOf(err))
	found, err := c.Search(t.Context(), hub.Query{Text: "qwen3", NPU: true, Task: "chat"})
	require.NoError(t, err)
	require.Len(t, found, 1, "what is no OpenVINO model is left out")
	assert.Equal(t, "OpenVINO/Qwen3-8B-int4-cw-ov", found[0].Repo)
	assert.Equal(t, int64(7), found[0].Downloads)

	h.Set(func(f *hubtest.Faults) {
		f.Content = func(name string, content []byte) []byte { return append([]byte("{"), content[1:]...) }
	})
	f, _ := s.File("openvino_tokenizer.xml")
	_, err = c.Download(t.Context(), s, f, filepath.Join(t.TempDir(), "x"), func(int64) {})
	assert.ErrorContains(t, err, "is not what the hub declares")
}

func TestModelScopesFaultsAreErrors(t *testing.T) {
	for answer, says := range map[string]string{
		`{"Code":500,"Success":false,"Message":"busy"}`:                                                                                            `"busy"`,
		`{"Code":404,"Success":false,"Message":"no"}`:                                                                                              "file does not exist",
		`{"Code":200,"Success":true,"Data":{"Files":[]}}`:                                                                                          "is not an OpenVINO model",
		`{"Code":200,"Success":true,"Message":"success","Data":{"Files":null}}`:                                                                    "has no such revision",
		`<html>a page that wants a login</html>`:                                                                                                   "does not answer as a hub",
		`{"Code":200,"Success":true,"Data":{"Files":[{"Path":"openvino_model.bin","Type":"blob","Size":1}]}}`:                                      "no hash",
		`{"Code":200,"Success":true,"Data":{"Files":[{"Path":"config.json","Type":"blob","Size":-1,"Sha256":"` + strings.Repeat("a", 64) + `"}]}}`: "declares -1 bytes",
	} {
		h := hubtest.New(t)
		h.Before = func(_ string, w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, answer); return true }
		_, err := client(t, scope(t, h, quick(h))).Snapshot(t.Context(), repo, "")
		assert.ErrorContains(t, err, says)
	}
}

func TestASearchWithoutANetworkFailsSoon(t *testing.T) {
	hangs := map[string]hub.Options{
		"no answer to the name": {Resolve: func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() }},
		"no connection": {
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("198.51.100.7")}, nil
			},
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
		},
	}
	for name, o := range hangs {
		o.Endpoint, o.Proxy, o.Answer = "http://hub.test", noProxy, 50*time.Millisecond
		began := time.Now()
		_, err := client(t, o).Search(t.Context(), hub.Query{Text: "qwen"})
		assert.ErrorContains(t, err, "hub.test did not answer within 50ms", name)
		assert.ErrorContains(t, err, "may be offline", name)
		assert.Less(t, time.Since(began), 10*time.Second, name)
	}
}

func TestNameServersThatNeverAnswerAreNotWaitedFor(t *testing.T) {
	asked := atomic.Int32{}
	o := hub.Options{Endpoint: "http://hub.test", Proxy: noProxy, Answer: 20 * time.Millisecond, Backoff: time.Millisecond}
	o.Resolve = func(ctx context.Context, _ string) ([]netip.Addr, error) {
		asked.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := client(t, o).Snapshot(t.Context(), repo, "")
	assert.ErrorContains(t, err, "hub.test cannot be found: lookup hub.test: no name server answers")
	assert.Equal(t, int32(3), asked.Load(), "once more, and once more")
}

func TestTheEnvironmentsProxyComesBeforeTheSystems(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		to   string
		want string // "": directly
	}{
		{map[string]string{"HTTPS_PROXY": "http://proxy.test:3128"}, "https://hub.test/", "http://proxy.test:3128"},
		{map[string]string{"https_proxy": "http://proxy.test:3128"}, "https://hub.test/", "http://proxy.test:3128"},
		{map[string]string{"all_proxy": "socks5://proxy.test:1080"}, "https://hub.test/", "socks5://proxy.test:1080"},
		{map[string]string{"HTTPS_PROXY": "http://proxy.test:3128", "NO_PROXY": ".test,other"}, "https://hub.test/", ""},
		{map[string]string{"NO_PROXY": "*"}, "https://hub.test/", ""},
		{nil, "https://hub.test/", "http://system.test:8080"},
		{map[string]string{"NO_PROXY": "hub.test"}, "https://hub.test/", ""},
		{map[string]string{"NO_PROXY": "other.test"}, "https://hub.test/", "http://system.test:8080"},
	} {
		system := func(*url.URL) (*url.URL, error) { return url.Parse("http://system.test:8080") }
		req, err := http.NewRequest(http.MethodGet, c.to, nil)
		require.NoError(t, err)
		got, err := hub.ProxyBy(func(name string) string { return c.env[name] }, system)(req)
		require.NoError(t, err)
		if c.want == "" {
			assert.Nil(t, got, "%v", c)
		} else if assert.NotNil(t, got, "%v", c) {
			assert.Equal(t, c.want, got.String())
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`[{"type":"file","path":"config.json","size":1,"oid":"` + hubtest.Commit + `"}]`))
	f.Add([]byte(`[{"lfs":{"oid":"sha256:x","size":-1}}]`))
	f.Add([]byte(`{}`))
	h := hubtest.New(f)
	var tree atomic.Pointer[[]byte]
	h.Before = func(_ string, w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/revision/") {
			fmt.Fprintf(w, `{"sha":%q}`, hubtest.Commit)
		} else {
			w.Write(*tree.Load())
		}
		return true
	}
	c, err := hub.New(hub.Options{Endpoint: h.URL, Proxy: noProxy, Retries: 1, Backoff: time.Microsecond})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, answer []byte) {
		tree.Store(&answer)
		s, err := c.Snapshot(t.Context(), repo, "")
		if err != nil {
			return
		}
		for _, file := range s.Files {
			assert.Contains(t, hub.Files, file.Name)
			assert.GreaterOrEqual(t, file.Size, int64(0))
			assert.True(t, len(file.SHA256) == 64 || len(file.Blob) == 40)
		}
		_, err = json.Marshal(s)
		require.NoError(t, err)
	})
}

func FuzzModelScopeAnswers(f *testing.F) {
	f.Add([]byte(`{"Code":200,"Success":true,"Data":{"Files":[{"Path":"config.json","Type":"blob","Size":1,"Sha256":"` + strings.Repeat("a", 64) + `","Revision":"x"}],"LatestCommitter":{"ShortId":"../.."}}}`))
	f.Add([]byte(`{"Code":"200","Data":[]}`))
	f.Add([]byte(`{"Code":200,"Success":true,"Data":{"Model":{"Models":[{"Path":"..","Name":"x-ov"}]}}}`))
	h := hubtest.New(f)
	var answer atomic.Pointer[[]byte]
	h.Before = func(_ string, w http.ResponseWriter, r *http.Request) bool { w.Write(*answer.Load()); return true }
	at, _ := url.Parse(h.URL)
	c, err := hub.New(hub.Options{
		Endpoint: "http://modelscope.cn", Proxy: noProxy, Retries: 1, Backoff: time.Microsecond,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("198.51.100.7")}, nil
		},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at.Host)
		},
	})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		answer.Store(&text)
		if s, err := c.Snapshot(t.Context(), repo, ""); err == nil {
			assert.NotEmpty(t, s.Commit)
			for _, file := range s.Files {
				assert.Contains(t, hub.Files, file.Name)
				assert.Len(t, file.SHA256, 64)
				assert.Regexp(t, `^([0-9a-f]{40})?$`, file.Commit)
			}
		}
		found, err := c.Search(t.Context(), hub.Query{})
		for _, f := range found {
			assert.NoError(t, err)
			assert.Regexp(t, `^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$`, f.Repo)
		}
	})
}

func TestAnOptionalFieldThatDoesNotParseIsAbsent(t *testing.T) {
	h := hubtest.New(t)
	h.Add("org/model", hubtest.Small(1000))
	odd := `"pipeline_tag":7,"lastModified":"yesterday","tags":{"a":1},"downloads":"many","likes":null`
	h.Before = func(where string, w http.ResponseWriter, r *http.Request) bool {
		switch {
		case where == "hub" && r.URL.Path == "/api/models":
			fmt.Fprint(w, `[{"id":"org/model",`+odd+`}]`)
		case where == "hub" && strings.Contains(r.URL.Path, "/revision/"):
			fmt.Fprint(w, `{"sha":"`+hubtest.Commit+`",`+odd+`}`)
		default:
			return false
		}
		return true
	}
	c := client(t, hub.Options{Endpoint: h.URL})
	s, err := c.Snapshot(t.Context(), "org/model", "")
	require.NoError(t, err)
	assert.Equal(t, hubtest.Commit, s.Commit)
	assert.NotEmpty(t, s.Files)
	assert.Zero(t, s.Modified)
	found, err := c.Search(t.Context(), hub.Query{})
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, "org/model", found[0].Repo)
	assert.Zero(t, found[0].Modified)
}

func TestModelScopesOptionalFieldsThatDoNotParseAreAbsent(t *testing.T) {
	h := hubtest.New(t)
	files := hubtest.Small(1000)
	h.Add("OpenVINO/model-ov", files)
	h.Before = func(where string, w http.ResponseWriter, r *http.Request) bool {
		switch {
		case where == "hub" && strings.HasSuffix(r.URL.Path, "/dolphin/models"):
			fmt.Fprint(w, `{"Code":"200","Success":true,"Message":7,"Data":{"Model":{"Models":[{"Path":"OpenVINO","Name":"model-ov","Downloads":"many","Stars":null,`+
				`"License":["mit"],"LastUpdatedTime":"yesterday","Tasks":{"Name":"text-generation"}}]}}}`)
		case where == "hub" && strings.HasSuffix(r.URL.Path, "/repo/files"):
			list := []string{}
			for name, content := range files {
				list = append(list, fmt.Sprintf(`{"Path":%q,"Type":"blob","Size":%d,"Sha256":"%x","Revision":7}`, name, len(content), sha256.Sum256(content)))
			}
			fmt.Fprint(w, `{"Code":200,"Success":true,"Data":{"Files":[`+strings.Join(list, ",")+`],"LatestCommitter":["none"]}}`)
		default:
			return false
		}
		return true
	}
	c := client(t, scope(t, h, quick(h)))
	s, err := c.Snapshot(t.Context(), "OpenVINO/model-ov", "")
	require.NoError(t, err)
	assert.Equal(t, "master", s.Commit)
	assert.NotEmpty(t, s.Files)
	found, err := c.Search(t.Context(), hub.Query{})
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, "OpenVINO/model-ov", found[0].Repo)
	assert.Zero(t, found[0].Modified)
	assert.Empty(t, found[0].License)
}
