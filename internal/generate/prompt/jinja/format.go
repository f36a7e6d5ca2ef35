package jinja

import (
	"strconv"
	"strings"
)

// format is Python's s % values: %s %r %d %i %f %x %e %g and %%, with flags, width, precision and (names).
func (r *run) format(s string, values any) string {
	list, one := values.(*List)
	if !one || !list.tuple {
		list = &List{Items: []any{values}}
	}
	names, _ := values.(*Dict)
	w, next := &writer{run: r}, 0
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			w.add(s)
			break
		}
		w.add(s[:i])
		spec, rest := r.verb(s[i+1:])
		s = rest
		if spec.verb == '%' {
			w.add("%")
			continue
		}
		var v any
		if spec.name != "" {
			if names == nil {
				r.fail("format requires a mapping")
			}
			v = r.item(names, spec.name)
		} else {
			if next >= len(list.Items) {
				r.fail("not enough arguments for format string")
			}
			v = list.Items[next]
			next++
		}
		w.add(r.formatOne(spec, v))
	}
	if next < len(list.Items) && names == nil {
		r.fail("not all arguments converted during string formatting")
	}
	return w.String()
}

type verb struct {
	name, flags      string
	width, precision int64 // precision -1: none
	verb             byte
}

func (r *run) verb(s string) (v verb, rest string) {
	v.precision = -1
	if strings.HasPrefix(s, "(") {
		end := strings.IndexByte(s, ')')
		if end < 0 {
			r.fail("incomplete format key")
		}
		v.name, s = s[1:end], s[end+1:]
	}
	n := len(s) - len(strings.TrimLeft(s, "-+ #0"))
	v.flags, s = s[:n], s[n:]
	n = digits(s)
	v.width, _ = strconv.ParseInt(s[:n], 10, 32)
	s = s[n:]
	if strings.HasPrefix(s, ".") {
		n = digits(s[1:])
		v.precision, _ = strconv.ParseInt(s[1:1+n], 10, 32)
		s = s[1+n:]
	}
	if s == "" {
		r.fail("incomplete format")
	}
	v.verb = s[0]
	return v, s[1:]
}

func (r *run) formatOne(v verb, value any) string {
	text := ""
	switch v.verb {
	case 's':
		text = r.str(value)
		if v.precision >= 0 {
			text = r.slice(text, &span{to: v.precision}).(string)
		}
	case 'r':
		w := &writer{run: r}
		w.repr(value)
		text = w.String()
	case 'd', 'i', 'x', 'X', 'o':
		text = r.formatInteger(v.verb, value)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		n := number(value)
		if n == nil || v.precision > 1000 {
			r.fail("must be real number, not %s", typeName(value))
		}
		if v.precision < 0 {
			v.precision = 6
		}
		text = strconv.FormatFloat(toFloat(n), v.verb|0x20, int(v.precision), 64)
	default:
		r.fail("unsupported format character %q", v.verb)
	}
	if strings.Contains(v.flags, "+") && v.verb != 's' && v.verb != 'r' && !strings.HasPrefix(text, "-") {
		text = "+" + text
	}
	switch {
	case strings.Contains(v.flags, "-"):
		return r.pad(text, v.width, " ", false, true)
	case strings.Contains(v.flags, "0") && v.verb != 's' && v.verb != 'r':
		return zfill(r, text, args{pos: []any{v.width}}).(string)
	}
	return r.pad(text, v.width, " ", true, false)
}

func (r *run) formatInteger(verb byte, value any) string {
	n, ok := number(value).(int64)
	if f, isFloat := value.(float64); isFloat && (verb == 'd' || verb == 'i') {
		n, ok = int64(f), true
	}
	if !ok {
		r.fail("%%%c format: a number is required, not %s", verb, typeName(value))
	}
	switch verb {
	case 'x':
		return strconv.FormatInt(n, 16)
	case 'X':
		return strings.ToUpper(strconv.FormatInt(n, 16))
	case 'o':
		return strconv.FormatInt(n, 8)
	}
	return strconv.FormatInt(n, 10)
}

// formatMethod is Python's "{} {name}".format(...), without format specifications.
func formatMethod(r *run, s string, a args) any {
	w, next := &writer{run: r}, 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			w.add(s)
			break
		}
		w.add(s[:i])
		if strings.HasPrefix(s[i:], "{{") || strings.HasPrefix(s[i:], "}}") {
			w.add(s[i : i+1])
			s = s[i+2:]
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 1 {
			r.fail("single brace in format string")
		}
		field := s[i+1 : i+end]
		s = s[i+end+1:]
		if strings.ContainsAny(field, ":!.[{") {
			r.fail("format field {%s} is not supported", field)
		}
		if field == "" {
			field = strconv.Itoa(next)
			next++
		}
		at, err := strconv.Atoi(field)
		if err != nil {
			at = len(a.pos)
		}
		v, ok := a.take(at, field)
		if !ok {
			r.fail("format has no argument %q", field)
		}
		w.add(r.str(v))
	}
	return w.String()
}
