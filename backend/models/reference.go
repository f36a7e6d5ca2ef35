package models

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"golang.org/x/text/unicode/norm"

	"signalbox/backend/llm"
)

// Reference says which model to fetch, and what it is called here.
type Reference struct {
	Name     string // in the library: "qwen3:4b", or the hub's own name
	Repo     string // on the hub: "OpenVINO/Qwen3-4B-int4-cw-ov"
	Revision string // branch, tag or commit; empty: the newest
}

func (r Reference) String() string {
	if r.Revision == "" {
		return r.Repo
	}
	return r.Repo + "@" + r.Revision
}

// ParseReference reads the name of a model to fetch: one of the table ("qwen3:4b", "qwen3", "qwen3:latest") or the hub's
// ("OpenVINO/Qwen3-4B-int4-cw-ov", with "@revision", with "hf.co/" before it). A name with another host in it is none: what
// callers write never chooses where a request goes. The error is an *llm.Error, with the nearest names as its hint.
func (t Table) ParseReference(name string) (Reference, error) {
	path, revision, pinned := strings.Cut(name, "@")
	if !ValidName(path) || pinned && !validRevision(revision) {
		return Reference{}, invalidName()
	}
	if known, ok := t.Find(path); ok {
		r := Reference{Name: known.Name, Repo: known.Repo, Revision: known.Revision}
		if pinned {
			r.Revision = revision
			r.Name = atRevision(known.Repo, revision)
		}
		return r, nil
	}
	repo := strings.TrimSuffix(withoutHub(path), ":latest")
	repo, tag, tagged := strings.Cut(repo, ":")
	if strings.Count(repo, "/") != 1 {
		return Reference{}, t.unknown(name)
	}
	if tagged { // as in hf.co/org/name:Q4_K_M: files of a GGUF repository
		if pinned || strings.HasPrefix(strings.ToUpper(tag), "Q") {
			e := llm.Errorf(llm.CodeUnsupported, "%s asks for a GGUF file, and Signalbox runs OpenVINO models", name)
			if k, ok := t.Instead("", 0, repo); ok {
				return Reference{}, e.WithHint("`signalbox pull %s` fetches %s instead", k.Name, k.Repo)
			}
			return Reference{}, e.WithHint("`signalbox search` finds models whose names end in -ov")
		}
		revision, pinned = tag, true
	}
	r := Reference{Name: repo, Repo: repo, Revision: revision}
	if pinned {
		r.Name = atRevision(repo, revision)
	}
	return r, nil
}

func atRevision(repo, revision string) string {
	if name := repo + ":" + strings.ReplaceAll(revision, "/", "-"); ValidName(name) {
		return name
	}
	return repo
}

// validRevision accepts branches, tags and commits: parts as in names, and refs/pr/1.
func validRevision(revision string) bool {
	if len(revision) > 100 {
		return false
	}
	for part := range strings.SplitSeq(revision, "/") {
		if !validPart(part) || strings.Contains(part, "..") {
			return false
		}
	}
	return true
}

// hubHosts stand before names of the hub by habit and say nothing.
var hubHosts = []string{"hf.co/", "huggingface.co/", "registry.ollama.ai/library/", "library/"}

func withoutHub(name string) string {
	for _, host := range hubHosts {
		if len(name) > len(host) && strings.EqualFold(name[:len(host)], host) {
			return name[len(host):]
		}
	}
	return name
}

// FolderOf is the folder of a model: readable for people, the same for names that the library takes as one, and nothing
// that any system reads as more than a name (threats A24).
func FolderOf(name string) string {
	key := folded(norm.NFC.String(name))
	slug := []byte("m-")
	for _, c := range []byte(key) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_':
			slug = append(slug, c)
		default:
			slug = append(slug, '-')
		}
	}
	readable := strings.TrimRight(string(slug[:min(60, len(slug))]), "-")
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s-%x", readable, sum[:6])
}
