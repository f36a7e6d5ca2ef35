package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxJSON bounds the nesting of data: templates walk it by recursion.
const maxJSON = 200

// FromJSON reads one JSON value: keys stay in the order they were written in and integers stay integers, since both reach
// the model through tojson. Every string, keys included, goes through text when that is not nil.
func FromJSON(raw []byte, text func(string) string) (any, error) {
	if text == nil {
		text = func(s string) string { return s }
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := readJSON(d, text, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err == nil {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

func readJSON(d *json.Decoder, text func(string) string, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxJSON {
		return nil, fmt.Errorf("nested deeper than %d levels", maxJSON)
	}
	switch t := t.(type) {
	case string:
		return text(t), nil
	case json.Number:
		return jsonNumber(string(t)), nil
	case json.Delim:
		list, dict := NewList(), newDict()
		for d.More() {
			var key any
			if t == '{' {
				if key, err = d.Token(); err != nil {
					return nil, err
				}
			}
			v, err := readJSON(d, text, depth+1)
			if err != nil {
				return nil, err
			}
			if t == '{' {
				dict.Set(text(key.(string)), v)
			} else {
				list.Items = append(list.Items, v)
			}
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		if t == '{' {
			return dict, nil
		}
		return list, nil
	}
	return t, nil // bool, nil
}

func jsonNumber(s string) any {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		}
		return bigInt(s)
	}
	f, _ := strconv.ParseFloat(s, 64) // out of range: infinity, as in Python
	return f
}

// tojson is json.dumps with ensure_ascii=False, as transformers defines the filter.
func tojson(r *run, a args) any {
	v := r.bind("tojson", a, "value", "ensure_ascii?", "indent?", "separators?", "sort_keys?")
	j := &jsonWriter{writer: writer{run: r}, item: ", ", colon: ": "}
	j.ascii = v[1] != missing && r.truth(v[1])
	j.sorted = v[4] != missing && r.truth(v[4])
	switch indent := v[2].(type) {
	case int64:
		if indent > 1000 {
			r.fail("an indent of %d is too much", indent)
		}
		j.pretty, j.indent = true, strings.Repeat(" ", int(max(indent, 0)))
	case string:
		j.pretty, j.indent = true, indent
	}
	if j.pretty {
		j.item = ","
	}
	if l, ok := v[3].(*List); ok && len(l.Items) == 2 {
		j.item, j.colon = r.str(l.Items[0]), r.str(l.Items[1])
	}
	j.value(v[0], 0)
	return j.String()
}

type jsonWriter struct {
	writer
	item, colon, indent   string
	pretty, ascii, sorted bool
}

func (j *jsonWriter) line(level int) {
	if j.pretty {
		j.add("\n" + strings.Repeat(j.indent, level))
	}
}

func (j *jsonWriter) value(v any, level int) {
	j.run.enter()
	defer j.run.leave()
	switch v := v.(type) {
	case nil:
		j.add("null")
	case bool:
		j.add(strconv.FormatBool(v))
	case int64:
		j.add(strconv.FormatInt(v, 10))
	case bigInt:
		j.add(string(v))
	case float64:
		j.add(jsonFloat(v))
	case string:
		j.str(v)
	case *List:
		if v.lazy {
			j.run.fail("object of type generator is not JSON serializable")
		}
		j.list(v.Items, level)
	case *Dict:
		j.dict(v, level)
	default:
		j.run.fail("object of type %s is not JSON serializable", typeName(v))
	}
}

func (j *jsonWriter) list(items []any, level int) {
	if len(items) == 0 {
		j.add("[]")
		return
	}
	j.add("[")
	for i, item := range items {
		if i > 0 {
			j.add(j.item)
		}
		j.line(level + 1)
		j.value(item, level+1)
	}
	j.line(level)
	j.add("]")
}

func (j *jsonWriter) dict(d *Dict, level int) {
	if len(d.keys) == 0 {
		j.add("{}")
		return
	}
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if j.sorted {
		j.run.sortBy(order, func(i int) any { return d.keys[i] }, false)
	}
	j.add("{")
	for n, i := range order {
		if n > 0 {
			j.add(j.item)
		}
		j.line(level + 1)
		j.str(j.key(d.keys[i]))
		j.add(j.colon)
		j.value(d.values[i], level+1)
	}
	j.line(level)
	j.add("}")
}

func (j *jsonWriter) key(k any) string {
	switch k := k.(type) {
	case string:
		return k
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(k)
	case float64:
		return jsonFloat(k)
	}
	return j.run.str(k)
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

func (j *jsonWriter) str(s string) {
	var out strings.Builder
	out.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteRune(c)
		case strings.ContainsRune("\n\r\t\b\f", c):
			out.WriteByte('\\')
			out.WriteByte("nrtbf"[strings.IndexByte("\n\r\t\b\f", byte(c))])
		case c < 0x20 || j.ascii && c > 0x7e && c < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, c)
		case j.ascii && c >= 0x10000 && c < firstMark:
			c -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			out.WriteRune(c)
		}
	}
	out.WriteByte('"')
	j.add(out.String())
}
