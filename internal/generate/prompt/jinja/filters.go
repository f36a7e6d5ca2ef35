package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filters by name; the first argument is what the filter is applied to. Filled in init because map and its kind look into it.
var filters map[string]builtin

func init() {
	filters = map[string]builtin{
		"abs": abs, "attr": attr, "batch": batch, "capitalize": onText(capitalize), "center": center, "count": length, "d": orElse,
		"default": orElse, "dictsort": dictSort, "e": onText(escapeHTML), "escape": onText(escapeHTML), "first": first, "float": toFloating,
		"forceescape": onText(escapeHTML), "format": format, "groupby": groupBy, "indent": indent, "int": toInteger, "items": itemsOf,
		"join": join, "last": last, "length": length, "list": list, "lower": onText(strings.ToLower), "map": mapOver,
		"max": extreme(1), "min": extreme(-1), "reject": selecting(false, false), "rejectattr": selecting(false, true),
		"replace": replace, "reverse": reverse, "round": round, "safe": onText(unchanged), "select": selecting(true, false),
		"selectattr": selecting(true, true), "slice": sliceInto, "sort": sortFilter, "string": onText(unchanged), "sum": sum,
		"title": onText(titleWords), "tojson": tojson, "trim": trim, "truncate": truncate, "unique": unique,
		"upper": onText(strings.ToUpper), "wordcount": wordCount,
	}
}

func (r *run) filter(name string, a args) any {
	f, ok := filters[name]
	if !ok {
		r.fail("no filter named %q", name)
	}
	return f(r, a)
}

// onText makes a filter of a function on strings that at most triples its length.
func onText(f func(string) string) builtin {
	return func(r *run, a args) any {
		s := r.str(r.bind("the filter", a, "value")[0])
		r.size(len(s))
		return f(s)
	}
}

func unchanged(s string) string { return s }

func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + strings.ToLower(s[n:])
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func escapeHTML(s string) string { return htmlEscapes.Replace(s) }

// titleWords is the filter title: words begin after spaces, hyphens and opening brackets.
func titleWords(s string) string {
	var out strings.Builder
	start := true
	for _, c := range s {
		boundary := isSpace(c) || strings.ContainsRune("-({[<", c)
		switch {
		case boundary:
			out.WriteRune(c)
		case start:
			out.WriteString(strings.ToUpper(string(c)))
		default:
			out.WriteString(strings.ToLower(string(c)))
		}
		start = boundary
	}
	return out.String()
}

func abs(r *run, a args) any {
	switch n := number(r.bind("abs", a, "value")[0]).(type) {
	case int64:
		return max(n, -n)
	case float64:
		return math.Abs(n)
	}
	r.fail("abs needs a number")
	return nil
}

func attr(r *run, a args) any {
	v := r.bind("attr", a, "value", "name")
	r.refuseUndefined(v[0])
	if m, ok := r.member(v[0], r.str(v[1])); ok {
		return m
	}
	return undefined{"no attribute " + r.str(v[1])}
}

func length(r *run, a args) any {
	switch v := r.bind("length", a, "value")[0].(type) {
	case string:
		r.scan(v)
		return int64(utf8.RuneCountInString(v))
	case *List:
		if !v.lazy {
			return int64(len(v.Items))
		}
	case *Dict:
		return int64(len(v.keys))
	case *loopState:
		return int64(len(v.items))
	case undefined:
		return int64(0)
	}
	r.fail("object of type %s has no length", typeName(a.pos[0]))
	return nil
}

func orElse(r *run, a args) any {
	v := r.bind("default", a, "value", "default_value?", "boolean?")
	_, none := v[0].(undefined)
	if none || v[2] != missing && r.truth(v[2]) && !r.truth(v[0]) {
		if v[1] == missing {
			return ""
		}
		return v[1]
	}
	return v[0]
}

func first(r *run, a args) any {
	items := r.items(r.bind("first", a, "value")[0])
	if len(items) == 0 {
		return undefined{"no first item, sequence was empty"}
	}
	return items[0]
}

func last(r *run, a args) any {
	items := r.items(r.bind("last", a, "value")[0])
	if len(items) == 0 {
		return undefined{"no last item, sequence was empty"}
	}
	return items[len(items)-1]
}

func list(r *run, a args) any {
	items := r.items(r.bind("list", a, "value")[0])
	r.alloc(16 * len(items))
	return &List{Items: slices.Clone(items)}
}

func reverse(r *run, a args) any {
	v := r.bind("reverse", a, "value")[0]
	items := slices.Clone(r.items(v))
	r.alloc(16 * len(items))
	slices.Reverse(items)
	if _, ok := v.(string); ok {
		return r.joined(items, "")
	}
	return &List{Items: items, lazy: true}
}

func itemsOf(r *run, a args) any {
	switch v := r.bind("items", a, "value")[0].(type) {
	case *Dict:
		l := dictItems(r, v, args{}).(*List)
		l.lazy = true
		return l
	case undefined:
		return &List{lazy: true}
	}
	r.fail("can only get item pairs from a mapping")
	return nil
}

func join(r *run, a args) any {
	v := r.bind("join", a, "value", "d?", "attribute?")
	items := r.items(v[0])
	if v[2] != missing && v[2] != nil {
		items = r.attributes(items, v[2], missing)
	}
	separator := ""
	if v[1] != missing {
		separator = r.str(v[1])
	}
	return r.joined(items, separator)
}

func (r *run) joined(items []any, separator string) string {
	w := &writer{run: r}
	for i, item := range items {
		r.step(1)
		if i > 0 {
			w.add(separator)
		}
		w.add(r.str(item))
	}
	return w.String()
}

func indent(r *run, a args) any {
	v := r.bind("indent", a, "s", "width?", "first?", "blank?")
	pad, ok := v[1].(string)
	if !ok {
		n := int64(4)
		if v[1] != missing {
			n = r.integer(v[1])
		}
		pad = r.repeat(" ", n).(string)
	}
	blank := v[3] != missing && r.truth(v[3])
	w := &writer{run: r}
	for i, line := range splitLines(r.str(v[0])+"\n", false) {
		if i > 0 {
			w.add("\n")
		}
		if i == 0 && v[2] != missing && r.truth(v[2]) || i > 0 && (line != "" || blank) {
			w.add(pad)
		}
		w.add(line)
	}
	return w.String()
}

func replace(r *run, a args) any {
	v := r.bind("replace", a, "s", "old", "new", "count?")
	n := int64(-1)
	if v[3] != missing && v[3] != nil {
		n = r.integer(v[3])
	}
	return r.replaceIn(r.str(v[0]), r.str(v[1]), r.str(v[2]), n)
}

func trim(r *run, a args) any {
	v := r.bind("trim", a, "value", "chars?")
	s := r.str(v[0])
	r.scan(s)
	if v[1] == missing || v[1] == nil {
		return strings.TrimFunc(s, isSpace)
	}
	return strings.Trim(s, r.str(v[1]))
}

func center(r *run, a args) any {
	v := r.bind("center", a, "value", "width?")
	width := int64(80)
	if v[1] != missing {
		width = r.integer(v[1])
	}
	return r.pad(r.str(v[0]), width, " ", true, true)
}

func truncate(r *run, a args) any {
	v := r.bind("truncate", a, "s", "length?", "killwords?", "end?", "leeway?")
	limit, leeway, end := orDefault(v[1], int64(255), r), orDefault(v[4], int64(5), r), orDefault(v[3], "...", r)
	s := r.str(v[0])
	r.alloc(8 * len(s))
	runes := []rune(s)
	if int64(len(runes)) <= limit+leeway {
		return string(runes)
	}
	keep := limit - int64(utf8.RuneCountInString(end))
	if keep < 0 {
		r.fail("truncate: the length is less than its end's")
	}
	s = string(runes[:keep])
	if v[2] == missing || !r.truth(v[2]) {
		if i := strings.LastIndexByte(s, ' '); i >= 0 {
			s = s[:i]
		}
	}
	return s + end
}

func wordCount(r *run, a args) any {
	s := r.str(r.bind("wordcount", a, "s")[0])
	r.alloc(16 * len(s))
	return int64(len(strings.FieldsFunc(s, func(c rune) bool { return !isWord(c) })))
}

func format(r *run, a args) any {
	if len(a.pos) == 0 {
		r.fail("format needs a string")
	}
	if len(a.kw) > 0 {
		d := newDict()
		for _, kw := range a.kw {
			d.Set(kw.name, kw.value)
		}
		return r.format(r.str(a.pos[0]), d)
	}
	return r.format(r.str(a.pos[0]), &List{Items: a.pos[1:], tuple: true})
}

func toInteger(r *run, a args) any {
	v := r.bind("int", a, "value", "default?", "base?")
	otherwise := any(int64(0))
	if v[1] != missing {
		otherwise = v[1]
	}
	switch n := v[0].(type) {
	case bool:
		return toInt(n)
	case int64:
		return n
	case float64:
		if math.Abs(n) < 1<<63 {
			return int64(n)
		}
	case string:
		r.scan(n)
		base := int(orDefault(v[2], int64(10), r))
		s := strings.TrimFunc(n, isSpace)
		if base == 16 || base == 8 || base == 2 {
			s = strings.TrimPrefix(strings.ToLower(s), map[int]string{16: "0x", 8: "0o", 2: "0b"}[base])
		}
		if i, err := strconv.ParseInt(s, base, 64); err == nil {
			return i
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < 1<<63 {
			return int64(f)
		}
	}
	return otherwise
}

func toFloating(r *run, a args) any {
	v := r.bind("float", a, "value", "default?")
	if n := number(v[0]); n != nil {
		return toFloat(n)
	}
	if s, ok := v[0].(string); ok {
		r.scan(s)
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64); err == nil {
			return f
		}
	}
	if v[1] == missing {
		return 0.0
	}
	return v[1]
}

func round(r *run, a args) any {
	v := r.bind("round", a, "value", "precision?", "method?")
	n := number(v[0])
	precision, method := orDefault(v[1], int64(0), r), orDefault(v[2], "common", r)
	if n == nil || precision < -300 || precision > 300 {
		r.fail("round needs a number")
	}
	scale := math.Pow(10, float64(precision))
	switch method {
	case "common":
		if _, whole := n.(int64); whole && precision >= 0 {
			return n
		}
		if precision >= 0 {
			f, _ := strconv.ParseFloat(strconv.FormatFloat(toFloat(n), 'f', int(precision), 64), 64)
			return f
		}
		return math.RoundToEven(toFloat(n)*scale) / scale
	case "ceil":
		return math.Ceil(toFloat(n)*scale) / scale
	case "floor":
		return math.Floor(toFloat(n)*scale) / scale
	}
	r.fail("method must be common, ceil or floor")
	return nil
}
