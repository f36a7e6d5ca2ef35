// Package hubtest is a hub for tests: two servers that answer as the real one does, the hub and the store that it redirects
// to, over files in memory, with faults on demand. The hub also answers as ModelScope does, on that one's paths.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Commit is the one that every repository is at, unless Commits says otherwise.
const Commit = "0123456789abcdef0123456789abcdef01234567"

// Hub is the two servers.
type Hub struct {
	URL   string // of the hub
	Store string // of its store, another origin

	// Faults are set before the first request, or through Set.
	Faults

	mu    sync.Mutex
	repos map[string]map[string][]byte
	seen  []Seen
}

// Faults are what goes wrong, on demand.
type Faults struct {
	// Before is called for each request before it is answered, with "hub" or "store"; true: it has answered. Nil: none.
	Before func(where string, w http.ResponseWriter, r *http.Request) bool
	// Content changes what is sent of a file, after what was declared. Nil: the file.
	Content func(name string, content []byte) []byte
	// NoRanges answers every Range with the whole file.
	NoRanges bool
	// ETag of a file in place of its hash. Nil: the hash.
	ETag func(name string) string
	// Pace is waited for after each 64 KiB.
	Pace time.Duration
	// PageSize splits trees; 0: one page.
	PageSize int
}

// Set changes how the hub behaves while requests may be coming, also from other processes.
func (h *Hub) Set(change func(*Faults)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.Faults)
}

func (h *Hub) faults() Faults {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Faults
}

// Seen is a request that came.
type Seen struct{ Where, Method, Path, Range, Authorization string }

// New starts a hub without repositories.
func New(t testing.TB) *Hub {
	h := &Hub{repos: map[string]map[string][]byte{}}
	hub := httptest.NewServer(http.HandlerFunc(h.hub))
	store := httptest.NewServer(http.HandlerFunc(h.store))
	h.URL, h.Store = hub.URL, store.URL
	t.Cleanup(func() {
		hub.CloseClientConnections()
		store.CloseClientConnections()
		hub.Close()
		store.Close()
	})
	return h
}

// Add makes a repository of files.
func (h *Hub) Add(repo string, files map[string][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repos[repo] = files
}

// AddFolder makes a repository of a folder's files, without our own manifest.
func (h *Hub) AddFolder(t testing.TB, repo, dir string) {
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "signalbox.json" {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Add(repo, files)
}

// Small is a model that the library takes for whole and that no engine runs: its weights are bytes of that number.
func Small(weights int) map[string][]byte {
	return map[string][]byte{
		"openvino_model.xml": fmt.Appendf(nil, `<?xml version="1.0"?><net name="m" version="11"><layers><layer id="0" name="beam_idx" type="Parameter"/>`+
			`<layer id="1" name="w" type="Const"><data element_type="i4" shape="8, 16" offset="0" size="64"/></layer></layers></net>`),
		"openvino_model.bin": pattern(weights), "openvino_tokenizer.xml": []byte(`<net name="t" version="11"><layers/></net>`),
		"openvino_tokenizer.bin": pattern(500), "config.json": []byte(`{"model_type":"llama","max_position_embeddings":2048}`),
		"chat_template.jinja": []byte("{{ messages }}"), "README.md": []byte("# a model"), ".gitattributes": []byte("*.bin filter=lfs"),
	}
}

func pattern(n int) []byte {
	out := make([]byte, n)
	x := uint32(n)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

// Requests are those that came so far.
func (h *Hub) Requests() []Seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

func (h *Hub) note(where string, w http.ResponseWriter, r *http.Request) (done bool) {
	h.mu.Lock()
	h.seen = append(h.seen, Seen{where, r.Method, r.URL.Path, r.Header.Get("Range"), r.Header.Get("Authorization")})
	h.mu.Unlock()
	before := h.faults().Before
	return before != nil && before(where, w, r)
}

func (h *Hub) file(repo, name string) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	content, ok := h.repos[repo][name]
	return content, ok
}

func (h *Hub) hub(w http.ResponseWriter, r *http.Request) {
	if h.note("hub", w, r) {
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/v1/"):
		h.modelScope(w, r, parts[2:])
	case r.URL.Path == "/api/whoami-v2":
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer hf_") {
			http.Error(w, `{"error":"Invalid username or password."}`, http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"type":"user","name":"ada"}`)
	case r.URL.Path == "/api/models":
		h.search(w, r)
	case len(parts) >= 6 && parts[0] == "api" && parts[4] == "revision":
		h.revision(w, parts[2]+"/"+parts[3])
	case len(parts) == 6 && parts[0] == "api" && parts[4] == "tree":
		h.tree(w, r, parts[2]+"/"+parts[3])
	case len(parts) >= 5 && parts[2] == "resolve":
		h.resolve(w, r, parts[0]+"/"+parts[1], strings.Join(parts[4:], "/"))
	default:
		http.NotFound(w, r)
	}
}

func (h *Hub) search(w http.ResponseWriter, r *http.Request) {
	list := []any{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for repo := range h.repos {
		if strings.Contains(strings.ToLower(repo), strings.ToLower(r.URL.Query().Get("search"))) {
			list = append(list, map[string]any{"id": repo, "pipeline_tag": "text-generation", "downloads": 5, "tags": []string{"license:mit"}, "gated": false})
		}
	}
	json.NewEncoder(w).Encode(list)
}

func (h *Hub) revision(w http.ResponseWriter, repo string) {
	h.mu.Lock()
	_, ok := h.repos[repo]
	h.mu.Unlock()
	if !ok {
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, `{"error":"Repository not found"}`, http.StatusUnauthorized)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"id": repo, "sha": Commit, "gated": false, "pipeline_tag": "text-generation", "tags": []string{"openvino", "license:apache-2.0"}})
}

// isLFS is what the real hub's .gitattributes say of OpenVINO repositories: weights, and what is large.
func isLFS(name string, content []byte) bool {
	return strings.HasSuffix(name, ".bin") || len(content) > 10<<20
}

var sums sync.Map // of large contents, which are asked for with each range

func sha256Of(content []byte) string {
	if len(content) == 0 {
		return hex.EncodeToString(sha256.New().Sum(nil))
	}
	if sum, ok := sums.Load(&content[0]); ok {
		return sum.(string)
	}
	sum := sha256.Sum256(content)
	text := hex.EncodeToString(sum[:])
	sums.Store(&content[0], text)
	return text
}

func blobOf(content []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...))
	return hex.EncodeToString(sum[:])
}

func (h *Hub) tree(w http.ResponseWriter, r *http.Request, repo string) {
	h.mu.Lock()
	names := []string{}
	for name := range h.repos[repo] {
		names = append(names, name)
	}
	slices.Sort(names)
	list := []any{map[string]any{"type": "directory", "oid": blobOf(nil), "size": 0, "path": "1_Pooling"}}
	for _, name := range names {
		content := h.repos[repo][name]
		e := map[string]any{"type": "file", "oid": blobOf(content), "size": len(content), "path": name}
		if isLFS(name, content) {
			e["lfs"] = map[string]any{"oid": sha256Of(content), "size": len(content), "pointerSize": 134}
		}
		list = append(list, e)
	}
	h.mu.Unlock()
	if size := h.faults().PageSize; size > 0 {
		from := 0
		fmt.Sscan(r.URL.Query().Get("cursor"), &from)
		to := min(from+size, len(list))
		if to < len(list) {
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=%d>; rel="next"`, h.URL, r.URL.Path, to))
		}
		list = list[from:to]
	}
	json.NewEncoder(w).Encode(list)
}

func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, repo, name string) {
	content, ok := h.file(repo, name)
	if !ok {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		http.Error(w, "Entry not found", http.StatusNotFound)
		return
	}
	w.Header().Set("X-Repo-Commit", Commit)
	if !isLFS(name, content) {
		w.Header().Set("ETag", `"`+h.etag(name, blobOf(content))+`"`)
		h.serve(w, r, name, content)
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+h.etag(name, sha256Of(content))+`"`)
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(content)))
	http.Redirect(w, r, h.Store+"/store/"+repo+"/"+name+"?X-Amz-Signature=secret", http.StatusFound)
}

func (h *Hub) etag(name, hash string) string {
	if etag := h.faults().ETag; etag != nil {
		return etag(name)
	}
	return hash
}

func (h *Hub) store(w http.ResponseWriter, r *http.Request) {
	if h.note("store", w, r) {
		return
	}
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/store/"), "/", 3)
	if len(parts) != 3 {
		http.NotFound(w, r)
		return
	}
	content, ok := h.file(parts[0]+"/"+parts[1], parts[2])
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"store-`+sha256Of(content)[:8]+`"`)
	h.serve(w, r, parts[2], content)
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request, name string, content []byte) {
	f := h.faults()
	if f.Content != nil {
		content = f.Content(name, content)
	}
	if f.NoRanges {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		(&slow{w, h}).Write(content)
		return
	}
	http.ServeContent(&slow{w, h}, r, "", time.Time{}, bytes.NewReader(content))
}

// slow pauses after each 64 KiB, as long as the hub's Pace is by then.
type slow struct {
	http.ResponseWriter
	hub *Hub
}

func (s *slow) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		k, err := s.ResponseWriter.Write(p[:min(64<<10, len(p))])
		n += k
		if err != nil {
			return n, err
		}
		p = p[k:]
		if pace := s.hub.faults().Pace; pace > 0 {
			s.ResponseWriter.(http.Flusher).Flush()
			time.Sleep(pace)
		}
	}
	return n, nil
}

// modelScope answers as ModelScope's API does, as its public clients know it.
func (h *Hub) modelScope(w http.ResponseWriter, r *http.Request, parts []string) {
	said := func(data any) {
		json.NewEncoder(w).Encode(map[string]any{"Code": 200, "Success": true, "Message": "success", "RequestId": "0", "Data": data})
	}
	q := r.URL.Query()
	switch {
	case len(parts) == 2 && parts[0] == "dolphin" && r.Method == http.MethodPut:
		var asked struct{ Name string }
		json.NewDecoder(r.Body).Decode(&asked)
		list := []any{}
		h.mu.Lock()
		defer h.mu.Unlock()
		for repo := range h.repos {
			org, name, _ := strings.Cut(repo, "/")
			if !slices.ContainsFunc(strings.Fields(strings.ToLower(asked.Name)), func(word string) bool { return !strings.Contains(strings.ToLower(repo), word) }) {
				list = append(list, map[string]any{"Path": org, "Name": name, "Downloads": 7, "Stars": 1, "License": "Apache License 2.0",
					"LastUpdatedTime": 1753546348, "Tasks": []any{map[string]any{"Name": "text-generation"}}})
			}
		}
		said(map[string]any{"Model": map[string]any{"Models": list, "TotalCount": len(list)}})
	case len(parts) == 5 && parts[0] == "models" && parts[3] == "repo" && parts[4] == "files":
		h.scopeFiles(w, parts[1]+"/"+parts[2], said)
	case len(parts) == 4 && parts[0] == "models" && parts[3] == "repo":
		if q.Get("Revision") != Commit { // each file is fetched at the commit of its last change
			http.NotFound(w, r)
			return
		}
		name := q.Get("FilePath")
		content, ok := h.file(parts[1]+"/"+parts[2], name)
		switch {
		case !ok:
			http.NotFound(w, r)
		case isLFS(name, content):
			http.Redirect(w, r, h.Store+"/store/"+parts[1]+"/"+parts[2]+"/"+name+"?auth_key=secret", http.StatusFound)
		default:
			h.serve(w, r, name, content)
		}
	default:
		http.NotFound(w, r)
	}
}

func (h *Hub) scopeFiles(w http.ResponseWriter, repo string, said func(any)) {
	h.mu.Lock()
	files, ok := h.repos[repo]
	list := []any{map[string]any{"Type": "tree", "Path": "1_Pooling", "Name": "1_Pooling", "Size": 0}}
	for name, content := range files {
		list = append(list, map[string]any{"Type": "blob", "Path": name, "Name": filepath.Base(name), "Size": len(content), "IsLFS": isLFS(name, content),
			"Sha256": strings.ToUpper(sha256Of(content)), "Revision": Commit, "CommittedDate": 1753546348})
	}
	h.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		json.NewEncoder(w).Encode(map[string]any{"Code": 10010205001, "Success": false, "Message": "record not found", "Data": nil})
		return
	}
	said(map[string]any{"Files": list, "IsVisual": false, "LatestCommitter": map[string]any{"Id": "", "ShortId": Commit[:8], "CommittedDate": 1753546348}})
}
