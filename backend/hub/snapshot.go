package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/backend/llm"
)

// Files are the names that a model may have; no other file is fetched. Only openvino_model.* and the tokenizer are needed.
var Files = []string{
	"openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml", "openvino_tokenizer.bin",
	"openvino_detokenizer.xml", "openvino_detokenizer.bin", "config.json", "generation_config.json", "tokenizer_config.json",
	"tokenizer.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "chat_template.json", "openvino_config.json",
	"sentence_bert_config.json", "config_sentence_transformers.json", "modules.json", "1_Pooling/config.json",
	"LICENSE", "LICENSE.txt", "LICENSE.md",
}

var needed = []string{"openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml", "openvino_tokenizer.bin"}

// File is a file of a repository at one commit, and how to check it. Large files have a SHA256; plain files of the git
// repository have only a Blob, git's own hash.
type File struct {
	Name   string `json:"name"` // one of Files
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"` // 64 hex digits
	Blob   string `json:"blob,omitempty"`   // 40 hex digits: sha1("blob N\0" + content)
	Commit string `json:"commit,omitempty"` // that it is fetched at, where it is not the snapshot's: ModelScope's last change of it
}

// Snapshot is a repository at one commit.
type Snapshot struct {
	Repo      string    `json:"repo"`
	Commit    string    `json:"commit"`
	Files     []File    `json:"files"` // of the list, in its order
	License   string    `json:"license"`
	Task      string    `json:"task"` // "text-generation", "feature-extraction"
	BaseModel string    `json:"base_model"`
	Gated     bool      `json:"gated"`
	Modified  time.Time `json:"modified"`
	Card      *File     `json:"card,omitempty"` // README.md, which is read and never kept; nil: there is none

	// Of what is no OpenVINO model, as far as the hub says.
	Weights      string `json:"-"` // "GGUF" or "PyTorch"; empty: none that are known
	Architecture string `json:"-"` // of GGUF weights, as these write it: "qwen3"; empty: not said
	Parameters   int64  `json:"-"` // 0: not said
}

// cardFile is what the makers say of a model.
const cardFile = "README.md"

const largestCard = 256 << 10

// Size is that of all files.
func (s Snapshot) Size() (sum int64) {
	for _, f := range s.Files {
		sum += f.Size
	}
	return sum
}

// File returns the file of that name.
func (s Snapshot) File(name string) (File, bool) {
	i := slices.IndexFunc(s.Files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return File{}, false
	}
	return s.Files[i], true
}

// Bounds of what a hub may say (threats A31).
const (
	largestAnswer = 16 << 20
	mostEntries   = 10_000
	mostPages     = 50
	largestFile   = 1 << 40
)

var (
	commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Snapshot resolves a revision (empty: main) to a commit, and lists the files of the model at that commit. Its errors are
// *llm.Error: CodeModelNotFound, CodeForbidden (gated, or a token is needed), CodeUnsupported (no OpenVINO model: the snapshot
// says what it is).
func (c *Client) Snapshot(ctx context.Context, repo, revision string) (Snapshot, error) {
	if c.scope {
		return c.scopeSnapshot(ctx, repo, revision)
	}
	org, name, _ := strings.Cut(repo, "/")
	if revision == "" {
		revision = "main"
	}
	var info struct {
		SHA      string              `json:"sha"`
		Gated    json.RawMessage     `json:"gated"`
		Task     optional[string]    `json:"pipeline_tag"`
		Modified optional[time.Time] `json:"lastModified"`
		Tags     optional[[]string]  `json:"tags"`
		GGUF     optional[struct {
			Architecture string `json:"architecture"`
			Parameters   int64  `json:"total"`
		}] `json:"gguf"`
	}
	if _, err := c.json(ctx, c.url(nil, "api", "models", org, name, "revision", revision), repo, &info); err != nil {
		return Snapshot{}, err
	}
	if !commitForm.MatchString(info.SHA) {
		return Snapshot{}, fault("%s names no commit for %s", c.endpoint.Host, repo)
	}
	s := Snapshot{Repo: repo, Commit: info.SHA, Task: info.Task.value, Modified: info.Modified.value, Gated: gated(info.Gated)}
	s.Architecture, s.Parameters = info.GGUF.value.Architecture, info.GGUF.value.Parameters
	for _, tag := range info.Tags.value {
		if license, ok := strings.CutPrefix(tag, "license:"); ok {
			s.License = license
		}
		if base, ok := strings.CutPrefix(tag, "base_model:"); ok {
			s.BaseModel = base[strings.LastIndex(base, ":")+1:]
		}
	}
	entries, err := c.tree(ctx, repo, info.SHA)
	if err != nil {
		return Snapshot{}, err
	}
	err = s.take(entries)
	return s, err
}

// gated reads that field of the hub's: false, "auto" or "manual".
func gated(field json.RawMessage) bool {
	return len(field) > 0 && string(field) != "false" && string(field) != "null"
}

// optional is a field that nothing depends on: one that does not parse is absent, and no reason to refuse the whole answer.
type optional[T any] struct{ value T }

func (o *optional[T]) UnmarshalJSON(text []byte) error {
	var value T
	if json.Unmarshal(text, &value) == nil {
		o.value = value
	}
	return nil
}

// entry is a line of a tree, as the hub writes it.
type entry struct {
	Type string `json:"type"`
	OID  string `json:"oid"`
	Size int64  `json:"size"`
	Path string `json:"path"`
	LFS  *lfs   `json:"lfs"`

	Commit string `json:"-"` // see File
}

type lfs struct {
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

func (c *Client) tree(ctx context.Context, repo, commit string) ([]entry, error) {
	org, name, _ := strings.Cut(repo, "/")
	u := c.url(url.Values{"recursive": {"true"}}, "api", "models", org, name, "tree", commit)
	var all []entry
	for page := 0; u != nil; page++ {
		if page == mostPages {
			return nil, fault("%s lists %s on more than %d pages", c.endpoint.Host, repo, mostPages)
		}
		var entries []entry
		header, err := c.json(ctx, u, repo, &entries)
		if err != nil {
			return nil, err
		}
		if all = append(all, entries...); len(all) > mostEntries {
			return nil, fault("%s lists more than %d files of %s", c.endpoint.Host, mostEntries, repo)
		}
		if u, err = c.next(u, header); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var nextLink = regexp.MustCompile(`<([^<>]+)>;\s*rel="?next"?`)

// next is the following page of a list, nil after the last. It stays at the endpoint.
func (c *Client) next(u *url.URL, header http.Header) (*url.URL, error) {
	m := nextLink.FindStringSubmatch(header.Get("Link"))
	if m == nil {
		return nil, nil
	}
	next, err := u.Parse(m[1])
	if err != nil || next.Host != c.endpoint.Host {
		return nil, fault("%s continues its list at another place: %.80q", c.endpoint.Host, m[1])
	}
	next.Scheme = c.endpoint.Scheme
	return next, nil
}

// take keeps the files of the list. Names are compared and never become paths by themselves.
func (s *Snapshot) take(entries []entry) error {
	var others []string
	for _, e := range entries {
		if e.Type != "file" && e.Type != "" {
			continue
		}
		card := e.Path == cardFile && s.Card == nil && e.Size >= 0 && e.Size <= largestCard
		if !slices.Contains(Files, e.Path) && !card {
			others = append(others, e.Path)
			continue
		}
		f := File{Name: e.Path, Size: e.Size, Blob: e.OID, Commit: e.Commit}
		if e.LFS != nil {
			f.Size, f.SHA256, f.Blob = e.LFS.Size, strings.TrimPrefix(e.LFS.OID, "sha256:"), ""
		}
		if card {
			if sha256Form.MatchString(f.SHA256) || f.SHA256 == "" && commitForm.MatchString(f.Blob) { // else it could not be checked
				s.Card = &f
			}
			continue
		}
		switch _, twice := s.File(f.Name); {
		case twice:
			return fault("%s lists %s twice", s.Repo, f.Name)
		case f.Size < 0 || f.Size > largestFile:
			return fault("%s declares %d bytes for %s", s.Repo, f.Size, f.Name)
		case f.SHA256 != "" && !sha256Form.MatchString(f.SHA256), f.SHA256 == "" && !commitForm.MatchString(f.Blob):
			return fault("%s declares no hash for %s: it could not be checked", s.Repo, f.Name)
		}
		s.Files = append(s.Files, f)
	}
	slices.SortFunc(s.Files, func(a, b File) int { return cmp.Compare(slices.Index(Files, a.Name), slices.Index(Files, b.Name)) })
	return s.complete(others)
}

// complete refuses what is no OpenVINO model, and says what it is.
func (s *Snapshot) complete(others []string) error {
	has := func(suffix string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return strings.HasSuffix(o, suffix) })
	}
	for _, name := range needed {
		if _, ok := s.File(name); ok {
			continue
		}
		e := llm.Errorf(llm.CodeUnsupported, "%s is not an OpenVINO model: it has no %s", s.Repo, name)
		switch {
		case has("openvino_language_model.xml"):
			return e.WithHint("it is a model that sees images, which Signalbox cannot run yet")
		case has(".gguf"):
			s.Weights = "GGUF"
			return e.WithHint("it has GGUF files: look for the same model with -ov at the end of its name (`signalbox search`)")
		case has(".safetensors"), has(".bin"):
			s.Weights = "PyTorch"
			return e.WithHint("it has weights for PyTorch: look for the same model with -ov at the end of its name (`signalbox search`)")
		case strings.HasPrefix(name, "openvino_tokenizer"):
			return e.WithHint("it was exported without its tokenizer, which optimum-intel adds with openvino-tokenizers installed")
		}
		return e
	}
	return nil
}

// askedAgain is how often a question is repeated: somebody waits for the answer.
const askedAgain = 2

// json reads an answer of the hub's API, of a sane size. what is the repository asked about.
func (c *Client) json(ctx context.Context, u *url.URL, what string, into any) (http.Header, error) {
	return c.ask(ctx, http.MethodGet, u, nil, what, into)
}

// ask is json with another method and a body.
func (c *Client) ask(ctx context.Context, method string, u *url.URL, body []byte, what string, into any) (http.Header, error) {
	for try := 0; ; try++ {
		header, err := c.askOnce(ctx, method, u, body, what, into)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = &hubError{llm.Errorf(llm.CodeUnavailable, "%s does not answer", u.Host), true, 0}
		}
		wait, again := c.patience(err, try)
		if !again || try == askedAgain {
			return header, plain(err)
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (c *Client) askOnce(ctx context.Context, method string, u *url.URL, body []byte, what string, into any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.o.Stall)
	defer cancel()
	headers := http.Header{"Accept": {"application/json"}}
	if body != nil {
		headers.Set("Content-Type", "application/json")
	}
	_, resp, err := c.send(ctx, method, u, headers, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, c.refused(resp, what)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, fault("%s does not answer as a hub about %s: it sends %.20q, which was not asked for", u.Host, what, encoding)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, largestAnswer+1))
	if err != nil {
		return nil, c.explain(ctx, u, err)
	}
	if len(text) > largestAnswer {
		return nil, fault("%s answers with more than %d MiB about %s", u.Host, largestAnswer>>20, what)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, fault("%s does not answer as a hub about %s: %v", u.Host, what, err)
	}
	return resp.Header, nil
}

// refused gives a status its meaning.
func (c *Client) refused(resp *http.Response, what string) error {
	host, code := resp.Request.URL.Host, resp.Header.Get("X-Error-Code")
	said := resp.Header.Get("X-Error-Message")
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound && code == "RevisionNotFound":
		return &hubError{llm.Errorf(llm.CodeModelNotFound, "pull model manifest: %s has no such revision", what), false, 0}
	case status == http.StatusUnauthorized && code == "GatedRepo":
		return &hubError{llm.Errorf(llm.CodeForbidden, "%s may be fetched only with a token", what).
			WithHint("accept its license at %s/%s, make a token there and give it to Signalbox (`signalbox login`, or HF_TOKEN)", c.endpoint, what), false, 0}
	case status == http.StatusUnauthorized && !c.tokenless() && code != "RepoNotFound":
		return &hubError{llm.Errorf(llm.CodeForbidden, "%s does not accept the token for %s", host, what).WithHint("it may have expired: make a new one"), false, 0}
	case status == http.StatusNotFound, status == http.StatusUnauthorized: // the hub hides private repositories so
		return &hubError{llm.Errorf(llm.CodeModelNotFound, "pull model manifest: file does not exist").
			WithHint("%s has no model %s; if it is private, give Signalbox a token (`signalbox login`, or HF_TOKEN)", host, what), false, 0}
	case status == http.StatusForbidden:
		return &hubError{llm.Errorf(llm.CodeForbidden, "%s refuses %s for this account", host, what).
			WithHint("its license must be accepted first, at %s/%s", c.endpoint, what), false, 0}
	case status == http.StatusTooManyRequests:
		return &hubError{llm.Errorf(llm.CodeUnavailable, "%s asks to slow down", host).WithHint("try again later; with a token its limit is higher"), true, retryAfter(resp)}
	case status >= 500:
		return &hubError{llm.Errorf(llm.CodeUnavailable, "%s has a fault (%s)", host, resp.Status), true, retryAfter(resp)}
	default:
		return fault("%s answers %s about %s%s", host, resp.Status, what, quoted(said))
	}
}

func quoted(said string) string {
	if said == "" {
		return ""
	}
	return fmt.Sprintf(": %.200q", said)
}

func (c *Client) tokenless() bool { return c.o.Token == nil || c.o.Token(origin(c.endpoint)) == "" }

// retryAfter reads seconds or a date; 0: nothing was said.
func retryAfter(resp *http.Response) time.Duration {
	text := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return time.Duration(min(n, 86400)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// longestWait is how long a hub may make us wait before the download fails with its reason.
const longestWait = 5 * time.Minute

// patience tells whether and when to try again after an error.
func (c *Client) patience(err error, try int) (time.Duration, bool) {
	he, ok := asHub(err)
	if !ok || !he.again || try >= c.o.Retries || he.after > longestWait {
		return 0, false
	}
	return max(he.after, min(c.o.Backoff<<min(try, 10), 30*time.Second)), true
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
