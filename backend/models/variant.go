package models

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"signalbox/backend/llm"
)

// variant is what a model has that shares the files of another: the folder of that one, and what is different.
type variant struct {
	Base       string        `json:"base,omitempty"` // name of the folder that has the files; empty: no variant
	System     string        `json:"system,omitempty"`
	Template   string        `json:"template,omitempty"`
	Parameters []Parameter   `json:"parameters,omitempty"`
	Messages   []llm.Message `json:"messages,omitempty"`
	Text       string        `json:"license_text,omitempty"`
	Created    time.Time     `json:"created,omitzero"`
}

// inspectVariant is the other model with what is different.
func (l *Library) inspectVariant(f folder, all []folder) Model {
	v := f.manifest.variant
	base := baseOf(f, all)
	if base == nil {
		return Model{Name: f.name, Dir: f.home, Kind: KindChat, ModifiedAt: v.Created, Damaged: "The model whose files it shares is gone."}
	}
	m := l.inspect(*base, all)
	if base.listed {
		m.shared, m.Parent = m.Ref(), m.Name
	} else { // no name of its own any more
		m.shared, m.Parent = llm.ModelRef{Name: f.name, Dir: m.Dir, Digest: m.Ref().Digest}, base.name
	}
	m.Name, m.ReadOnly, m.ModifiedAt = f.name, false, v.Created
	m.System, m.Messages, m.Override = v.System, v.Messages, v.Template
	if v.Template != "" {
		m.Template = v.Template
	}
	if v.Text != "" {
		m.License = v.Text
	}
	for _, p := range v.Parameters {
		m.Parameters = slices.DeleteFunc(m.Parameters, func(old Parameter) bool { return old.Name == p.Name })
		m.Parameters = append(m.Parameters, p)
	}
	if m.Digest != "" {
		m.Digest = v.digest(m.Digest)
	}
	return m
}

// baseOf is the folder whose files a variant shares. That one is no variant.
func baseOf(f folder, all []folder) *folder {
	i := slices.IndexFunc(all, func(other folder) bool {
		return filepath.Base(other.home) == f.manifest.Base && other.manifest.Base == "" && !other.manifest.Removing
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// digest is the files' own where nothing is different, as for a copy.
func (v variant) digest(base string) string {
	if v.System == "" && v.Template == "" && len(v.Parameters) == 0 && len(v.Messages) == 0 && v.Text == "" {
		return base
	}
	v.Created, v.Base = time.Time{}, base
	text, err := json.Marshal(v)
	if err != nil {
		text = fmt.Appendf(nil, "%v", v) // raw JSON of our own making: it does not come to this
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
