package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"signalbox/backend/llm"
)

// ModelScope has the same repositories behind an API of its own. It lists a SHA-256 for every file, and the commit of the
// last change of each, at which the file is fetched; a branch is resolved to a commit only as far as the list shows it.
// What its answers look like was taken from its public clients, not from the service itself.

// isModelScope tells by the host. Both the Chinese and the international site are meant.
func isModelScope(u *url.URL) bool {
	switch strings.ToLower(strings.TrimPrefix(u.Hostname(), "www.")) {
	case "modelscope.cn", "modelscope.ai":
		return true
	}
	return false
}

// scopeAnswer is around every answer. A fault may come with status 200.
type scopeAnswer[T any] struct {
	Code    optional[int]    `json:"Code"`
	Success bool             `json:"Success"`
	Message optional[string] `json:"Message"`
	Data    T                `json:"Data"`
}

func (a scopeAnswer[T]) check(c *Client, what string) error {
	code, said := a.Code.value, strings.ToLower(a.Message.value)
	switch {
	case a.Success && (code == 0 || code == http.StatusOK):
		return nil
	case code == http.StatusNotFound || strings.Contains(said, "not found") || strings.Contains(said, "not exist"):
		return llm.Errorf(llm.CodeModelNotFound, "pull model manifest: file does not exist").WithHint("%s has no model %s", c.endpoint.Host, what)
	}
	return plain(fault("%s answers with a fault about %s%s", c.endpoint.Host, what, quoted(a.Message.value)))
}

var shortCommit = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

func (c *Client) scopeSnapshot(ctx context.Context, repo, revision string) (Snapshot, error) {
	org, name, _ := strings.Cut(repo, "/")
	revision = cmp.Or(revision, "master")
	u := c.url(url.Values{"Revision": {revision}, "Recursive": {"true"}}, "api", "v1", "models", org, name, "repo", "files")
	var answer scopeAnswer[struct {
		Files []struct {
			Path     string           `json:"Path"`
			Type     string           `json:"Type"` // "blob" or "tree"
			Size     int64            `json:"Size"`
			SHA256   string           `json:"Sha256"`
			Revision optional[string] `json:"Revision"`
		} `json:"Files"` // null, with status 200, for a revision that there is not
		Latest optional[struct {
			ID      optional[string] `json:"Id"`
			ShortID optional[string] `json:"ShortId"`
		}] `json:"LatestCommitter"`
	}]
	if _, err := c.json(ctx, u, repo, &answer); err != nil {
		return Snapshot{}, err
	}
	if err := answer.check(c, repo); err != nil {
		return Snapshot{}, err
	}
	if answer.Data.Files == nil {
		return Snapshot{}, llm.Errorf(llm.CodeModelNotFound, "pull model manifest: %s has no such revision", repo).WithHint("%s has no revision %q of it", c.endpoint.Host, revision)
	}
	if len(answer.Data.Files) > mostEntries {
		return Snapshot{}, plain(fault("%s lists more than %d files of %s", c.endpoint.Host, mostEntries, repo))
	}
	s := Snapshot{Repo: repo}
	newest := answer.Data.Latest.value
	latest := strings.ToLower(cmp.Or(newest.ID.value, newest.ShortID.value))
	var entries []entry
	for _, f := range answer.Data.Files {
		if f.Type == "tree" {
			continue
		}
		commit := strings.ToLower(f.Revision.value)
		if !commitForm.MatchString(commit) {
			commit = ""
		}
		if latest != "" && strings.HasPrefix(commit, latest) {
			s.Commit = commit
		}
		e := entry{Type: "file", Path: f.Path, Size: f.Size, Commit: commit}
		e.LFS = &lfs{OID: strings.ToLower(f.SHA256), Size: f.Size}
		entries = append(entries, e)
	}
	if s.Commit == "" && shortCommit.MatchString(latest) {
		s.Commit = latest
	}
	s.Commit = cmp.Or(s.Commit, revision)
	err := s.take(entries)
	return s, plain(err)
}

// scopeFileURL asks for a file at the commit that changed it last: what a branch means may change meanwhile.
func (c *Client) scopeFileURL(s Snapshot, f File) *url.URL {
	org, name, _ := strings.Cut(s.Repo, "/")
	query := url.Values{"Revision": {cmp.Or(f.Commit, s.Commit)}, "FilePath": {f.Name}}
	return c.url(query, "api", "v1", "models", org, name, "repo")
}

// searchScope asks for the words and "OpenVINO": ModelScope has no filter for a format.
func (c *Client) searchScope(ctx context.Context, q Query) ([]Found, error) {
	sort := map[string]string{"likes": "StarsCount", "modified": "GmtModified"}[q.Sort]
	body, err := json.Marshal(map[string]any{
		"Name": strings.TrimSpace("OpenVINO " + q.Text), "PageNumber": 1, "PageSize": 100, "SortBy": cmp.Or(sort, "DownloadsCount"),
		"Target": "", "SingleCriterion": []any{}, "Criterion": []any{},
	})
	if err != nil {
		return nil, err
	}
	var answer scopeAnswer[struct {
		Model struct {
			Models []struct {
				Path      string           `json:"Path"`
				Name      string           `json:"Name"`
				Downloads optional[int64]  `json:"Downloads"`
				Stars     optional[int64]  `json:"Stars"`
				License   optional[string] `json:"License"`
				Updated   optional[int64]  `json:"LastUpdatedTime"` // seconds
				Tasks     optional[[]struct {
					Name string `json:"Name"`
				}] `json:"Tasks"`
			} `json:"Models"`
		} `json:"Model"`
	}]
	if _, err := c.ask(ctx, http.MethodPut, c.url(nil, "api", "v1", "dolphin", "models"), body, "models", &answer); err != nil {
		return nil, err
	}
	if err := answer.check(c, "models"); err != nil {
		return nil, err
	}
	found := []Found{}
	for _, m := range answer.Data.Model.Models {
		f := Found{Repo: m.Path + "/" + m.Name, Downloads: m.Downloads.value, Likes: m.Stars.value, License: m.License.value}
		if !repoForm.MatchString(f.Repo) || !strings.HasSuffix(strings.ToLower(m.Name), "-ov") && !strings.EqualFold(m.Path, "OpenVINO") {
			continue
		}
		if m.Updated.value > 0 {
			f.Modified = time.Unix(m.Updated.value, 0).UTC()
		}
		for _, task := range m.Tasks.value {
			f.Task = cmp.Or(f.Task, taskOf(task.Name))
		}
		f.describe(nil)
		found = append(found, f)
	}
	return found, nil
}
