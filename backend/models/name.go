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
// after a colon. A part has letters, digits, dots, dashes and underscores, all ASCII, begins with a letter, a digit or an
// underscore and does not end with a dot; it is at most 80 long, and no name of a device on Windows, with or without an
// ending: on every system, so that a library can be taken to another one and no program that writes names to files is led
// to a device.
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
	if part == "" || len(part) > 80 || part[0] == '.' || part[0] == '-' || part[len(part)-1] == '.' || isDevice(part) {
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

// isDevice tells whether Windows takes a part for a device: "NUL", and "nul.bin" too. (Its other digits, "COM¹", are not ASCII.)
func isDevice(part string) bool {
	base, _, _ := strings.Cut(strings.ToLower(part), ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (base[:3] == "com" || base[:3] == "lpt") && '0' <= base[3] && base[3] <= '9'
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

// nearest picks up to three names that begin alike or differ in few letters, the most alike first. Tags, and the
// organisation before a name of the hub, are often left out: what is left is compared, too.
func nearest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var list []candidate
	asked := folded(name)
	askedBase := baseName(asked)
	for _, k := range known {
		other := folded(k)
		base := baseName(other)
		d, most := distance(asked, other), max(2, len(asked)/3)
		switch {
		case base == askedBase:
			d = 0
		case strings.HasPrefix(base, askedBase) || strings.HasPrefix(askedBase, base):
			d = 1
		default:
			if short := distance(askedBase, base); short <= max(1, len(askedBase)/4) {
				d = min(d, short)
			}
		}
		if d <= most {
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

// baseName is a folded name without organisation and tag.
func baseName(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return name[strings.LastIndexByte(name, '/')+1:]
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
