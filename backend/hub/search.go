package hub

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query asks for models. Zero fields ask for nothing.
type Query struct {
	Text         string
	Task         string // "chat" or "embedding"
	Quantization string // "int4", "int8", "fp16"
	NPU          bool   // made for NPUs
	MostBillions float64
	Sort         string // "downloads" (default), "likes", "modified", "name"
	Limit        int    // 0: 30
}

// Found is a repository that a search found. Size, parameters and quantization are read from its name: the hub does not
// know them.
type Found struct {
	Repo         string    `json:"repo"`
	Task         string    `json:"task"`
	Billions     float64   `json:"billions"`     // 0: unknown
	Quantization string    `json:"quantization"` // "int4"; empty: unknown
	NPU          bool      `json:"npu"`
	Downloads    int64     `json:"downloads"`
	Likes        int64     `json:"likes"`
	Modified     time.Time `json:"modified"`
	License      string    `json:"license"`
	Gated        bool      `json:"gated"`
}

// Search finds OpenVINO models. An error is an error, also when this computer is offline: never an empty list. Somebody waits
// for the answer: it comes within Options.Answer, or is an error.
func (c *Client) Search(ctx context.Context, q Query) ([]Found, error) {
	if q.Limit <= 0 {
		q.Limit = 30
	}
	search := c.searchHub
	if c.scope {
		search = c.searchScope
	}
	within, done := c.patient(ctx)
	all, err := search(within, q)
	if err := done(err); err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(all, func(f Found) bool { return !q.takes(f) })
	if q.Sort == "name" {
		slices.SortFunc(found, func(a, b Found) int { return strings.Compare(strings.ToLower(a.Repo), strings.ToLower(b.Repo)) })
	}
	return found[:min(len(found), q.Limit)], nil
}

func (c *Client) searchHub(ctx context.Context, q Query) ([]Found, error) {
	values := url.Values{"filter": {"openvino"}, "limit": {"200"}, "full": {"true"}, "direction": {"-1"}}
	values.Set("sort", "downloads")
	switch q.Sort {
	case "likes":
		values.Set("sort", "likes")
	case "modified":
		values.Set("sort", "lastModified")
	}
	if q.Text != "" {
		values.Set("search", q.Text)
	}
	var answer []struct {
		ID        string              `json:"id"`
		Task      optional[string]    `json:"pipeline_tag"`
		Downloads optional[int64]     `json:"downloads"`
		Likes     optional[int64]     `json:"likes"`
		Modified  optional[time.Time] `json:"lastModified"`
		Gated     json.RawMessage     `json:"gated"`
		Tags      optional[[]string]  `json:"tags"`
	}
	if _, err := c.json(ctx, c.url(values, "api", "models"), "models", &answer); err != nil {
		return nil, err
	}
	found := []Found{}
	for _, a := range answer {
		if !repoForm.MatchString(a.ID) {
			continue
		}
		f := Found{Repo: a.ID, Task: taskOf(a.Task.value), Downloads: a.Downloads.value, Likes: a.Likes.value, Modified: a.Modified.value,
			Gated: gated(a.Gated)}
		f.describe(a.Tags.value)
		found = append(found, f)
	}
	return found, nil
}

var (
	repoForm      = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,79}/[A-Za-z0-9_][A-Za-z0-9._-]{0,79}$`)
	billionsForm  = regexp.MustCompile(`(?i)(?:^|[-_])(\d+(?:\.\d+)?)([bm])(?:[-_]|$)`)
	quantizedForm = regexp.MustCompile(`(?i)(?:^|[-_])(int4|int8|fp16|nf4|fp8)(?:[-_]|$)`)
)

func taskOf(task string) string {
	switch task {
	case "feature-extraction", "sentence-similarity":
		return "embedding"
	case "text-generation", "text2text-generation":
		return "chat"
	}
	return task
}

func (f *Found) describe(tags []string) {
	_, name, _ := strings.Cut(f.Repo, "/")
	if m := billionsForm.FindStringSubmatch(name); m != nil {
		f.Billions, _ = strconv.ParseFloat(m[1], 64) // digits alone
		if strings.EqualFold(m[2], "m") {
			f.Billions /= 1000
		}
	}
	if m := quantizedForm.FindStringSubmatch(name); m != nil {
		f.Quantization = strings.ToLower(m[1])
	}
	f.NPU = strings.Contains(strings.ToLower(name), "-int4-cw-")
	for _, tag := range tags {
		if license, ok := strings.CutPrefix(tag, "license:"); ok {
			f.License = license
		}
	}
}

func (q Query) takes(f Found) bool {
	return (q.Task == "" || q.Task == f.Task) && (q.Quantization == "" || strings.EqualFold(q.Quantization, f.Quantization)) &&
		(!q.NPU || f.NPU) && (q.MostBillions <= 0 || f.Billions > 0 && f.Billions <= q.MostBillions)
}
