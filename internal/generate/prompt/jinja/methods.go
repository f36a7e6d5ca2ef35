package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The methods that the sandbox allows: those that change nothing.
var (
	listMethods = map[string]func(*run, *List, args) any{
		"index": listIndex,
		"count": func(r *run, l *List, a args) any {
			v, n := r.bind("count", a, "value")[0], int64(0)
			for _, item := range l.Items {
				if r.equal(item, v) {
					n++
				}
			}
			return n
		},
		"copy": func(r *run, l *List, a args) any { return list(r, args{pos: []any{l}}) },
	}
	dictMethods = map[string]func(*run, *Dict, args) any{
		"items":  dictItems,
		"keys":   func(r *run, d *Dict, a args) any { return list(r, args{pos: []any{d}}) },
		"values": func(r *run, d *Dict, a args) any { return list(r, args{pos: []any{&List{Items: d.values}}}) },
		"get":    dictGet,
		"copy":   func(r *run, d *Dict, a args) any { return makeDict(r, args{pos: []any{d}}) },
	}
	stringMethods = map[string]func(*run, string, args) any{
		"strip":      stripper(true, true),
		"lstrip":     stripper(true, false),
		"rstrip":     stripper(false, true),
		"split":      splitter(false),
		"rsplit":     splitter(true),
		"splitlines": lines,
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"replace":    replaceMethod,
		"upper":      text1(strings.ToUpper),
		"lower":      text1(strings.ToLower),
		"casefold":   text1(strings.ToLower),
		"title":      text1(titleCase),
		"capitalize": text1(capitalize),
		"swapcase":   text1(swapCase),
		"find":       finder(strings.Index, false),
		"rfind":      finder(strings.LastIndex, false),
		"index":      finder(strings.Index, true),
		"rindex":     finder(strings.LastIndex, true),
		"count":      countIn,
		"join":       func(r *run, s string, a args) any { return r.joinStrings(s, r.items(r.bind("join", a, "iterable")[0])) },
		"removeprefix": func(r *run, s string, a args) any {
			return strings.TrimPrefix(s, r.text(r.bind("removeprefix", a, "prefix")[0]))
		},
		"removesuffix": func(r *run, s string, a args) any {
			return strings.TrimSuffix(s, r.text(r.bind("removesuffix", a, "suffix")[0]))
		},
		"partition":  partitioner(false),
		"rpartition": partitioner(true),
		"format":     formatMethod,
		"zfill":      zfill,
		"center":     padder(true, true),
		"ljust":      padder(false, true),
		"rjust":      padder(true, false),
		"isdigit":    every(unicode.IsDigit),
		"isdecimal":  every(unicode.IsDigit),
		"isnumeric":  every(unicode.IsNumber),
		"isalpha":    every(unicode.IsLetter),
		"isalnum":    every(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isspace":    every(isSpace),
		"isupper":    asks(isUpper),
		"islower":    asks(isLower),
		"isascii": func(_ *run, s string, _ args) any {
			return strings.IndexFunc(s, func(c rune) bool { return c > 0x7f }) < 0
		},
	}
)

func listIndex(r *run, l *List, a args) any {
	v := r.bind("index", a, "value")[0]
	for i, item := range l.Items {
		if r.equal(item, v) {
			return int64(i)
		}
	}
	r.fail("the value is not in the list")
	return nil
}

func dictItems(r *run, d *Dict, a args) any {
	r.bind("items", a)
	r.alloc(80 * len(d.keys))
	l := NewList()
	for i, k := range d.keys {
		l.Items = append(l.Items, &List{Items: []any{k, d.values[i]}, tuple: true})
	}
	return l
}

func dictGet(r *run, d *Dict, a args) any {
	v := r.bind("get", a, "key", "default?")
	if hashable(v[0]) {
		if value, ok := d.get(v[0]); ok {
			return value
		}
	}
	if v[1] == missing {
		return nil
	}
	return v[1]
}

// text is v, which must be a string.
func (r *run) text(v any) string {
	s, ok := v.(string)
	if !ok {
		r.refuseUndefined(v)
		r.fail("a string is needed, not %s", typeName(v))
	}
	return s
}

func text1(f func(string) string) func(*run, string, args) any {
	return func(r *run, s string, a args) any {
		r.bind("the method", a)
		r.size(len(s))
		return f(s)
	}
}

func titleCase(s string) string {
	var out strings.Builder
	inside := false
	for _, c := range s {
		if inside {
			out.WriteRune(unicode.ToLower(c))
		} else {
			out.WriteRune(unicode.ToTitle(c))
		}
		inside = unicode.IsLetter(c)
	}
	return out.String()
}

func swapCase(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsUpper(c) {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, s)
}

func stripper(left, right bool) func(*run, string, args) any {
	return func(r *run, s string, a args) any {
		chars := r.bind("strip", a, "chars?")[0]
		cut := isSpace
		if chars != missing && chars != nil {
			set := r.text(chars)
			cut = func(c rune) bool { return strings.ContainsRune(set, c) }
		}
		r.scan(s)
		if left {
			s = strings.TrimLeftFunc(s, cut)
		}
		if right {
			s = strings.TrimRightFunc(s, cut)
		}
		return s
	}
}

func splitter(fromRight bool) func(*run, string, args) any {
	return func(r *run, s string, a args) any {
		v := r.bind("split", a, "sep?", "maxsplit?")
		r.alloc(16 * len(s)) // at worst every other byte is a part
		n := int64(-1)
		if v[1] != missing {
			n = r.integer(v[1])
		}
		if n < 0 || n > int64(len(s)) {
			n = int64(len(s))
		}
		parts := fields(s, int(n), fromRight)
		if v[0] != missing && v[0] != nil {
			sep := r.text(v[0])
			if sep == "" {
				r.fail("empty separator")
			}
			parts = cutAt(s, sep, int(n), fromRight)
		}
		return r.texts(parts)
	}
}

func (r *run) texts(parts []string) *List {
	r.alloc(32 * len(parts))
	l := NewList()
	for _, p := range parts {
		l.Items = append(l.Items, p)
	}
	return l
}

func cutAt(s, sep string, n int, fromRight bool) []string {
	if !fromRight {
		return strings.SplitN(s, sep, n+1)
	}
	parts := strings.Split(s, sep)
	if extra := len(parts) - n - 1; extra > 0 {
		parts = append([]string{strings.Join(parts[:extra+1], sep)}, parts[extra+1:]...)
	}
	return parts
}

// fields splits at whitespace, at most n times.
func fields(s string, n int, fromRight bool) []string {
	var parts []string
	if fromRight {
		for s = strings.TrimRightFunc(s, isSpace); s != "" && len(parts) < n; s = strings.TrimRightFunc(s, isSpace) {
			i := strings.LastIndexFunc(s, isSpace)
			_, size := utf8.DecodeRuneInString(s[max(i, 0):])
			if i < 0 {
				size = 0
			}
			parts = append(parts, s[max(i, 0)+size:])
			s = s[:max(i, 0)]
		}
		if s != "" {
			parts = append(parts, s)
		}
		for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
			parts[i], parts[j] = parts[j], parts[i]
		}
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != "" && len(parts) < n; s = strings.TrimLeftFunc(s, isSpace) {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 {
			i = len(s)
		}
		parts = append(parts, s[:i])
		s = s[i:]
	}
	if s != "" {
		parts = append(parts, s)
	}
	return parts
}

func lines(r *run, s string, a args) any {
	r.alloc(16 * len(s))
	keep := r.bind("splitlines", a, "keepends?")[0]
	return r.texts(splitLines(s, keep != missing && r.truth(keep)))
}

// splitLines splits where Python does.
func splitLines(s string, keepEnds bool) []string {
	var out []string
	for s != "" {
		i := strings.IndexFunc(s, func(c rune) bool {
			return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
		})
		if i < 0 {
			return append(out, s)
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			size = 2
		}
		end := i
		if keepEnds {
			end += size
		}
		out = append(out, s[:end])
		s = s[i+size:]
	}
	return out
}

func affix(has func(s, affix string) bool) func(*run, string, args) any {
	return func(r *run, s string, a args) any {
		r.scan(s)
		v := r.bind("startswith and endswith", a, "affix")[0]
		if l, ok := v.(*List); ok && l.tuple {
			for _, one := range l.Items {
				if has(s, r.text(one)) {
					return true
				}
			}
			return false
		}
		return has(s, r.text(v))
	}
}

func replaceMethod(r *run, s string, a args) any {
	v := r.bind("replace", a, "old", "new", "count?")
	n := int64(-1)
	if v[2] != missing {
		n = r.integer(v[2])
	}
	return r.replaceIn(s, r.text(v[0]), r.text(v[1]), n)
}

func (r *run) replaceIn(s, old, new string, n int64) string {
	count := int64(strings.Count(s, old))
	if n < 0 || n > count {
		n = count
	}
	r.scan(s)
	r.size(len(s) + r.product(max(len(new)-len(old), 0), n))
	return strings.Replace(s, old, new, int(n))
}

// finder makes find and index: positions are counted in characters.
func finder(find func(s, part string) int, must bool) func(*run, string, args) any {
	return func(r *run, s string, a args) any {
		part := r.text(r.bind("find", a, "sub")[0])
		r.scan(s)
		i := find(s, part)
		if i < 0 {
			if must {
				r.fail("substring not found")
			}
			return int64(-1)
		}
		return int64(utf8.RuneCountInString(s[:i]))
	}
}

func countIn(r *run, s string, a args) any {
	r.scan(s)
	return int64(strings.Count(s, r.text(r.bind("count", a, "sub")[0])))
}

func (r *run) joinStrings(separator string, items []any) string {
	for _, item := range items {
		r.text(item)
	}
	return r.joined(items, separator)
}

func partitioner(fromRight bool) func(*run, string, args) any {
	return func(r *run, s string, a args) any {
		sep := r.text(r.bind("partition", a, "sep")[0])
		r.scan(s)
		if sep == "" {
			r.fail("empty separator")
		}
		i, parts := strings.Index(s, sep), []any{s, "", ""}
		if fromRight {
			i, parts = strings.LastIndex(s, sep), []any{"", "", s}
		}
		if i >= 0 {
			parts = []any{s[:i], sep, s[i+len(sep):]}
		}
		return &List{Items: parts, tuple: true}
	}
}

func zfill(r *run, s string, a args) any {
	width := r.integer(r.bind("zfill", a, "width")[0])
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	return sign + r.pad(s, width-int64(len(sign)), "0", true, false)
}

func padder(left, right bool) func(*run, string, args) any {
	return func(r *run, s string, a args) any {
		v := r.bind("padding", a, "width", "fillchar?")
		return r.pad(s, r.integer(v[0]), orDefault(v[1], " ", r), left, right)
	}
}

// pad fills s up to width characters on the left, the right or both sides.
func (r *run) pad(s string, width int64, fill string, left, right bool) string {
	n := width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return s
	}
	r.size(r.product(len(fill), n) + len(s))
	before := n
	if left && right {
		before = n/2 + n&width&1 // where Python puts the odd one
	} else if right {
		before = 0
	}
	return strings.Repeat(fill, int(before)) + s + strings.Repeat(fill, int(n-before))
}

func every(f func(rune) bool) func(*run, string, args) any {
	return func(r *run, s string, _ args) any {
		r.scan(s)
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !f(c) }) < 0
	}
}

func asks(f func(string) bool) func(*run, string, args) any {
	return func(r *run, s string, _ args) any {
		r.scan(s)
		return f(s)
	}
}

func isUpper(s string) bool {
	return strings.IndexFunc(s, unicode.IsUpper) >= 0 && strings.IndexFunc(s, unicode.IsLower) < 0
}

func isLower(s string) bool {
	return strings.IndexFunc(s, unicode.IsLower) >= 0 && strings.IndexFunc(s, unicode.IsUpper) < 0
}

func isWord(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c) }
