package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str is Python's str(v).
func (r *run) str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case undefined:
		return ""
	}
	w := &writer{run: r}
	w.repr(v)
	return w.String()
}

// writer builds a string within the run's limits.
type writer struct {
	strings.Builder
	run *run
}

func (w *writer) add(s string) {
	if w.Len()+len(s) > w.run.limits.Output {
		w.run.exceed("memory")
	}
	w.run.alloc(len(s))
	w.WriteString(s)
}

// repr writes Python's repr(v).
func (w *writer) repr(v any) {
	w.run.enter()
	defer w.run.leave()
	switch v := v.(type) {
	case nil:
		w.add("None")
	case undefined:
		w.add("Undefined")
	case bool:
		w.add(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		w.add(strconv.FormatInt(v, 10))
	case bigInt:
		w.add(string(v))
	case float64:
		w.add(formatFloat(v))
	case string:
		w.quote(v)
	case *List:
		w.list(v)
	case *Dict:
		w.dict(v)
	case *namespace:
		w.add("<Namespace ")
		w.dict(&v.Dict)
		w.add(">")
	case *macro:
		w.add("<Macro '" + v.def.name + "'>")
	default:
		w.add("<" + typeName(v) + ">")
	}
}

func (w *writer) list(l *List) {
	if l.lazy {
		w.add("<generator object>")
		return
	}
	open, end := "[", "]"
	if l.tuple {
		open, end = "(", ")"
		if len(l.Items) == 1 {
			end = ",)"
		}
	}
	w.add(open)
	for i, item := range l.Items {
		if i > 0 {
			w.add(", ")
		}
		w.repr(item)
	}
	w.add(end)
}

func (w *writer) dict(d *Dict) {
	w.add("{")
	for i, k := range d.keys {
		if i > 0 {
			w.add(", ")
		}
		w.repr(k)
		w.add(": ")
		w.repr(d.values[i])
	}
	w.add("}")
}

// quote writes a string literal as Python prints it.
func (w *writer) quote(s string) {
	q := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		q = '"'
	}
	var out strings.Builder
	out.WriteByte(q)
	for _, c := range s {
		switch {
		case c == rune(q) || c == '\\':
			out.WriteByte('\\')
			out.WriteRune(c)
		case c == '\n':
			out.WriteString(`\n`)
		case c == '\r':
			out.WriteString(`\r`)
		case c == '\t':
			out.WriteString(`\t`)
		case c == ' ' || unicode.IsPrint(c) || unicode.Is(unicode.Co, c) && c >= firstMark:
			out.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&out, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, c)
		default:
			fmt.Fprintf(&out, `\U%08x`, c)
		}
	}
	out.WriteByte(q)
	w.add(out.String())
}

// firstMark is where the caller's marks begin (supplementary private use): they must come through unchanged.
const firstMark = 0xF0000

// formatFloat writes the shortest decimal that reads back as f, as Python does.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// typeName is what Python calls v's type.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case undefined:
		return "Undefined"
	case bool:
		return "bool"
	case int64, bigInt:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		switch {
		case v.lazy:
			return "generator"
		case v.tuple:
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *loopState:
		return "LoopContext"
	case *macro:
		return "Macro"
	case builtin, *object:
		return "function"
	}
	return fmt.Sprintf("%T", v)
}

// items lists what iteration over v gives.
func (r *run) items(v any) []any {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *Dict:
		return v.keys
	case undefined:
		return nil
	case string:
		n := utf8.RuneCountInString(v)
		r.alloc(16 * n)
		items := make([]any, 0, n)
		for _, c := range v {
			items = append(items, string(c))
		}
		return items
	}
	r.fail("%s is not iterable", typeName(v))
	return nil
}
