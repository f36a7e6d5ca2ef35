package models

import (
	"encoding/json"
	"strconv"
	"strings"

	"signalbox/backend/llm"
)

// ParseModelfile reads Ollama's Modelfile. From is as it stands there: a name, or a path that the caller has to refuse.
func ParseModelfile(text string) (Creation, error) {
	var c Creation
	var licenses []string
	for rest, line := strings.ReplaceAll(text, "\r\n", "\n"), 1; rest != ""; {
		var instruction string
		before := strings.Count(rest, "\n")
		var err error
		if instruction, rest, err = cutInstruction(rest); err != nil {
			return c, llm.Errorf(llm.CodeInvalid, "Modelfile, line %d: %w", line, err)
		}
		if err := c.instruct(instruction, &licenses); err != nil {
			return c, llm.Errorf(llm.CodeInvalid, "Modelfile, line %d: %w", line, err)
		}
		line += before - strings.Count(rest, "\n")
	}
	if c.From == "" {
		return c, llm.Errorf(llm.CodeInvalid, "no FROM line")
	}
	c.License = strings.Join(licenses, "\n")
	return c, c.check()
}

// cutInstruction takes one instruction off: a line, or as many as its """ spans.
func cutInstruction(text string) (instruction, rest string, err error) {
	line, rest, _ := strings.Cut(text, "\n")
	open := strings.Index(line, `"""`)
	if open < 0 || strings.HasPrefix(strings.TrimSpace(line), "#") {
		return line, rest, nil
	}
	body := text[open+3:]
	end := strings.Index(body, `"""`)
	if end < 0 {
		return "", "", llm.Errorf(llm.CodeInvalid, `a text that begins with """ does not end`)
	}
	_, rest, _ = strings.Cut(body[end+3:], "\n")
	return text[:open+3+end+3], rest, nil
}

func (c *Creation) instruct(instruction string, licenses *[]string) error {
	instruction = strings.TrimSpace(instruction)
	if instruction == "" || strings.HasPrefix(instruction, "#") {
		return nil
	}
	word, value := cutWord(instruction)
	switch strings.ToUpper(word) {
	case "FROM":
		c.From = unquote(value)
	case "SYSTEM":
		c.System = unquote(value)
	case "TEMPLATE":
		c.Template = unquote(value)
	case "LICENSE":
		*licenses = append(*licenses, unquote(value))
	case "MESSAGE":
		role, content := cutWord(value)
		c.Messages = append(c.Messages, llm.Message{Role: strings.ToLower(role), Content: unquote(content)})
	case "PARAMETER":
		name, text := cutWord(value)
		return c.parameter(strings.ToLower(name), unquote(text))
	case "ADAPTER":
		return AdapterRefused()
	case "RENDERER", "PARSER", "REQUIRES": // of Ollama's own models: here the files say
	default:
		return llm.Errorf(llm.CodeInvalid, `command must be one of "from", "license", "template", "system", "adapter", "parameter", or "message", not %.40q`, word)
	}
	return nil
}

// AdapterRefused is the answer to LoRA adapters.
func AdapterRefused() error {
	return llm.Errorf(llm.CodeUnsupported, "adapters are not supported").
		WithHint("merge the adapter into its model and export the result to OpenVINO (optimum-cli export openvino)")
}

// parameter adds a value; stop may come several times.
func (c *Creation) parameter(name, text string) error {
	value := json.RawMessage(text)
	if parameterTypes[name] == "texts" {
		var stops []string
		for i, p := range c.Parameters {
			if p.Name == name {
				stops = texts(p.Value)
				c.Parameters = append(c.Parameters[:i], c.Parameters[i+1:]...)
				break
			}
		}
		value, _ = json.Marshal(append(stops, text)) // strings always can be
	}
	if !json.Valid(value) {
		value = json.RawMessage(strconv.Quote(text))
	}
	p := Parameter{Name: name, Value: value}
	c.Parameters = append(c.Parameters, p)
	return p.check()
}

func cutWord(text string) (word, rest string) {
	i := strings.IndexAny(text, " \t\n")
	if i < 0 {
		return text, ""
	}
	return text[:i], strings.TrimSpace(text[i:])
}

// unquote takes """text""" and "text" as the text.
func unquote(text string) string {
	if inner, ok := strings.CutPrefix(text, `"""`); ok {
		return strings.TrimSuffix(inner, `"""`)
	}
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		if plain, err := strconv.Unquote(text); err == nil {
			return plain
		}
		return text[1 : len(text)-1]
	}
	return text
}
