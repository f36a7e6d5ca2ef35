package schema

import (
	"fmt"
	"slices"
	"strings"
)

// Formats that the library enforces. Others, like all beside a pattern or a length, say nothing, as JSON Schema has it.
var formats = []string{"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}

// costs is what formats and keywords cost the library, in schemas: 0.3 ms.
var costs = map[string]int{
	"ipv6": 10, "uri": 3, "email": 3, "hostname": 3, "duration": 3, "date-time": 2, "uuid": 2, "time": 2, "date": 1, "ipv4": 1,
	"multipleOf": 100, "minimum": 3, "maximum": 3, "exclusiveMinimum": 3, "exclusiveMaximum": 3, "minItems": 3, "maxItems": 3,
}

// str writes a string schema.
func (w *writer) str(f *flat) (string, error) {
	least, most, err := f.counts("minLength", "maxLength")
	if err != nil {
		return "", err
	}
	if f.get("pattern") != nil {
		expression, err := w.pattern(f)
		if err != nil {
			return "", err
		}
		if expression, err = w.expression(expression, f.at); err != nil {
			return "", err
		}
		return `{"type":"string","pattern":` + quote(expression) + `}`, nil
	}
	var b strings.Builder
	b.WriteString(`{"type":"string"`)
	if n := f.get("format"); n != nil && least == 0 && most < 0 {
		if name, ok := n.text(); ok && slices.Contains(formats, name) {
			if err := w.charge(costs[name], "format", f.at); err != nil {
				return "", err
			}
			b.WriteString(`,"format":` + quote(name))
		}
	}
	writeCounts(&b, "Length", least, most)
	b.WriteByte('}')
	return b.String(), nil
}

// pattern is the regular expression that the strings of f match: pattern, or one that comes to the same as the lengths.
func (w *writer) pattern(f *flat) (string, error) {
	least, most, err := f.counts("minLength", "maxLength")
	if err != nil {
		return "", err
	}
	n := f.get("pattern")
	if n == nil {
		if least == 0 && most < 0 {
			return "", nil
		}
		if most < 0 {
			return fmt.Sprintf("^.{%d,}$", least), nil
		}
		return fmt.Sprintf("^.{%d,%d}$", least, most), nil
	}
	text, ok := n.text()
	if !ok {
		return "", wrong("pattern", f.at, "a text")
	}
	shortest, longest, err := lengths(text, f.at)
	if err != nil {
		return "", err
	}
	if shortest < least || most >= 0 && (longest < 0 || longest > most) {
		return "", cannot("pattern", f.at, "it stands beside minLength or maxLength, which it does not keep by itself")
	}
	return text, nil
}
