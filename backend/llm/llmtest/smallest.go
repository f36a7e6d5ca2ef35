package llmtest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"signalbox/backend/llm"
)

// smallest is a short answer that satisfies a constraint: JSON, and the structural tags of package toolcall. Free is the answer where
// it leaves the choice; grammars and regular expressions are not read.
func smallest(c *llm.Constraint, free string) string {
	switch {
	case c.Structural != nil:
		var tag struct{ Format map[string]any }
		if json.Unmarshal(c.Structural, &tag) != nil {
			return free
		}
		return written(tag.Format, free)
	case c.Schema != nil:
		var schema any
		if json.Unmarshal(c.Schema, &schema) != nil {
			return free
		}
		return c.After + marshal(example(schema))
	case c.JSON:
		return c.After + "{}"
	}
	return free
}

// written is the smallest text of a part of a structural tag.
func written(part map[string]any, free string) string {
	text := func(key string) string { s, _ := part[key].(string); return s }
	inner := func(key string) string { p, _ := part[key].(map[string]any); return written(p, free) }
	each := func(key string) []string {
		var texts []string
		list, _ := part[key].([]any)
		for _, item := range list {
			p, _ := item.(map[string]any)
			texts = append(texts, written(p, free))
		}
		return texts
	}
	switch text("type") {
	case "const_string":
		return text("value")
	case "tag":
		return text("begin") + inner("content") + text("end")
	case "json_schema":
		return styled(example(part["json_schema"]), text("style"))
	case "sequence":
		return strings.Join(each("elements"), "")
	case "or": // a call, unless a format of words is the other choice
		texts := each("elements")
		if last := texts[len(texts)-1]; strings.HasPrefix(last, "{") {
			return last
		}
		return texts[0]
	case "tags_with_separator":
		return each("tags")[0]
	case "triggered_tags":
		if must, _ := part["at_least_one"].(bool); must {
			return each("tags")[0]
		}
		return free
	}
	return ""
}

// styled writes arguments in the notation of a family.
func styled(value any, style string) string {
	members, _ := value.(map[string]any)
	var list []string
	for _, key := range slices.Sorted(maps.Keys(members)) {
		text, isText := members[key].(string)
		if !isText {
			text = marshal(members[key])
		}
		switch style {
		case "qwen_xml":
			list = append(list, "<parameter="+key+">"+text+"</parameter>")
		case "glm_xml":
			list = append(list, "<arg_key>"+key+"</arg_key><arg_value>"+text+"</arg_value>")
		case "gemma":
			if isText {
				text = `<|"|>` + text + `<|"|>`
			}
			list = append(list, key+":"+text)
		}
	}
	switch style {
	case "qwen_xml", "glm_xml":
		return strings.Join(list, "")
	case "gemma":
		return "{" + strings.Join(list, ",") + "}"
	}
	return marshal(value)
}

// example is a small value of a schema.
func example(schema any) any {
	s, _ := schema.(map[string]any)
	if value, ok := s["const"]; ok {
		return value
	}
	for _, key := range []string{"enum", "anyOf", "oneOf"} {
		if list, _ := s[key].([]any); len(list) > 0 && key == "enum" {
			return list[0]
		} else if len(list) > 0 {
			return example(list[0])
		}
	}
	switch kind(s) {
	case "string":
		return "text"
	case "integer", "number":
		if least, ok := s["minimum"].(float64); ok {
			return least
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	case "array":
		items := []any{}
		least, _ := s["minItems"].(float64)
		for range int(min(least, 100)) {
			items = append(items, example(s["items"]))
		}
		return items
	}
	object := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, key := range required {
		if name, ok := key.(string); ok {
			object[name] = example(properties[name])
		}
	}
	return object
}

func kind(schema map[string]any) string {
	switch t := schema["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			name, _ := t[0].(string)
			return name
		}
	}
	return "object"
}

func marshal(value any) string {
	text, _ := json.Marshal(value) // it was JSON
	return string(text)
}
