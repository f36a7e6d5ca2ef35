package prompt

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"signalbox/backend/llm"
)

// Limits on what is read from a model's folder: its files may come from anywhere.
const (
	maxTemplate = 1 << 20  // hub templates are up to some 30 KB
	maxConfig   = 16 << 20 // tokenizer_config.json lists every added token
	maxIR       = 64 << 20 // openvino_tokenizer.xml holds no weights
)

// source is a chat template's text and where it was found.
type source struct {
	file  string // the file's name, or "" for none
	text  string
	tools string // the named template "tool_use", for requests with tools; "" for none
}

// find looks for the template where Hugging Face and OpenVINO put it, newest place first.
func find(dir string) (source, error) {
	for _, place := range []struct {
		file string
		max  int64
		read func([]byte) (source, error)
	}{
		{"chat_template.jinja", maxTemplate, func(b []byte) (source, error) { return source{text: string(b)}, nil }},
		{"chat_template.json", maxConfig, fromJSON},
		{"tokenizer_config.json", maxConfig, fromJSON},
		{"openvino_tokenizer.xml", maxIR, fromIR},
	} {
		b, err := read(dir, place.file, place.max)
		if err != nil {
			return source{}, err
		}
		src, err := place.read(b)
		if err != nil {
			return source{}, llm.Errorf(llm.CodeUnsupported, "read the chat template from %s: %w", place.file, err)
		}
		if src.text != "" {
			src.file = place.file
			return src, src.check()
		}
	}
	return source{}, nil
}

func (s source) check() error {
	if n := max(len(s.text), len(s.tools)); n > maxTemplate {
		return llm.Errorf(llm.CodeUnsupported, "the chat template in %s has %d bytes, more than %d", s.file, n, maxTemplate)
	}
	return nil
}

// read returns a file of the model's folder, nil when there is none.
func read(dir, name string, limit int64) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, llm.Errorf(llm.CodeUnsupported, "%s has more than %d bytes", name, limit)
	}
	return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), nil
}

// fromJSON reads the member chat_template: a string, or a list of named templates.
func fromJSON(b []byte) (source, error) {
	if len(b) == 0 {
		return source{}, nil
	}
	var file struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(b, &file); err != nil || len(file.Template) == 0 {
		return source{}, err
	}
	if file.Template[0] != '[' {
		var text string
		err := json.Unmarshal(file.Template, &text)
		return source{text: text}, err
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(file.Template, &named); err != nil {
		return source{}, err
	}
	var src source
	for _, t := range named {
		switch t.Name {
		case "default":
			src.text = t.Template
		case "tool_use":
			src.tools = t.Template
		}
	}
	if src.text == "" && len(named) > 0 {
		src.text = named[0].Template
	}
	return src, nil
}

// fromIR reads rt_info/chat_template of a tokenizer that OpenVINO GenAI or openvino_tokenizers has made.
func fromIR(b []byte) (source, error) {
	info := bytes.LastIndex(b, []byte("<rt_info"))
	if info < 0 {
		return source{}, nil
	}
	decoder := xml.NewDecoder(bytes.NewReader(b[info:]))
	for {
		token, err := decoder.Token()
		if err != nil {
			return source{}, nil // the end: what follows rt_info closes what began before it
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "chat_template" {
			continue
		}
		for _, a := range start.Attr {
			if a.Name.Local == "value" {
				return source{text: a.Value}, nil
			}
		}
	}
}

// specials reads the texts of bos_token, eos_token and the like, as templates name them.
func specials(dir string) (map[string]string, error) {
	tokens := map[string]string{}
	for _, name := range []string{"tokenizer_config.json", "special_tokens_map.json"} {
		b, err := read(dir, name, maxConfig)
		if err != nil || len(b) == 0 {
			if err != nil {
				return nil, err
			}
			continue
		}
		var file map[string]json.RawMessage
		if err := json.Unmarshal(b, &file); err != nil {
			return nil, llm.Errorf(llm.CodeUnsupported, "read the special tokens from %s: %w", name, err)
		}
		for key, raw := range file {
			if text := tokenText(raw); text != "" && strings.HasSuffix(key, "_token") && tokens[key] == "" {
				tokens[key] = text
			}
		}
	}
	return tokens, byID(dir, tokens)
}

// tokenText reads a token, which is a string or an object with the member content.
func tokenText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var token struct{ Content string }
	_ = json.Unmarshal(raw, &token) // neither: such as add_bos_token's true
	return token.Content
}

// byID adds the tokens that only config.json names, by their ids, when the tokenizer's config says what these are.
func byID(dir string, tokens map[string]string) error {
	ids, err := read(dir, "config.json", maxConfig)
	if err != nil || len(ids) == 0 {
		return err
	}
	names, err := read(dir, "tokenizer_config.json", maxConfig)
	if err != nil || len(names) == 0 {
		return err
	}
	var config map[string]json.RawMessage
	var tokenizer struct {
		Added map[string]struct{ Content string } `json:"added_tokens_decoder"`
	}
	if json.Unmarshal(ids, &config) != nil || json.Unmarshal(names, &tokenizer) != nil {
		return nil // a broken config.json is for the model's loader to report
	}
	for _, key := range []string{"bos_token", "eos_token", "pad_token", "unk_token"} {
		id := strings.Trim(string(config[key+"_id"]), " ")
		if text := tokenizer.Added[id].Content; text != "" && tokens[key] == "" {
			tokens[key] = text
		}
	}
	return nil
}
