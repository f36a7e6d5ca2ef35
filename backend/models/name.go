package models

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"signalbox/backend/llm"
)

const longestName = 200

// ValidName tells whether a model could have the name: up to three parts between slashes, the last with an optional tag
// after a colon. A part has letters, digits, dots, dashes and underscores, all ASCII, and begins with a letter, a digit or
// an underscore; it is at most 80 long.
func ValidName(name string) bool {
	if len(name) > longestName {
		return false
	}
	path, tag, tagged := strings.Cut(name, ":")
	if tagged && !validPart(tag) {
		return false
	}
	parts := strings.Split(path, "/")
	return len(parts) <= 3 && !slices.ContainsFunc(parts, func(p string) bool { return !validPart(p) })
}

func validPart(part string) bool {
	if part == "" || len(part) > 80 || part[0] == '.' || part[0] == '-' {
		return false
	}
	for _, c := range []byte(part) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// folded makes names comparable: ASCII lower case, without what means nothing. ASCII alone, so that the Kelvin sign is no k
// and a Turkish locale changes nothing.
func folded(name string) string {
	lower := []byte(name)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	name = string(lower)
	for _, hub := range []string{"hf.co/", "huggingface.co/", "registry.ollama.ai/library/", "library/"} {
		name = strings.TrimPrefix(name, hub)
	}
	return strings.TrimSuffix(name, ":latest")
}

// nameOfFolder makes a name for a model that has none of its own.
func nameOfFolder(folder string) string {
	if ValidName(folder) {
		return folder
	}
	return fmt.Sprintf("model-%x", sha256.Sum256([]byte(folder)))[:len("model-")+12]
}

func invalidName() error {
	e := llm.Errorf(llm.CodeInvalid, "invalid model name")
	e.Param = "model"
	return e
}

// notFound names the models that are nearest to what was asked for.
func notFound(name string, known []string) error {
	e := llm.Errorf(llm.CodeModelNotFound, "model '%s' not found", name)
	e.Param = "model"
	near := nearest(name, known)
	switch {
	case len(known) == 0:
		return e.WithHint("no model is installed")
	case len(near) == 0:
		return e.WithHint("`signalbox list` shows the models that are installed")
	}
	return e.WithHint("did you mean %s?", strings.Join(near, " or "))
}

// nearest picks up to three names that begin alike or differ in few letters, the most alike first.
func nearest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var list []candidate
	asked := folded(name)
	askedBase, _, _ := strings.Cut(asked, ":")
	for _, k := range known {
		other := folded(k)
		base, _, _ := strings.Cut(other, ":")
		d := distance(asked, other)
		switch {
		case base == askedBase:
			d = 0
		case strings.HasPrefix(other, askedBase) || strings.HasPrefix(asked, base):
			d = 1
		}
		if d <= max(2, len(asked)/3) {
			list = append(list, candidate{k, d})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	names := make([]string, 0, 3)
	for _, c := range list[:min(3, len(list))] {
		names = append(names, c.name)
	}
	return names
}

// distance is how many letters must change to make one string of the other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
