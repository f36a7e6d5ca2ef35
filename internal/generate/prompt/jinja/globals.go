package jinja

import "github.com/ncruces/go-strftime"

// maxRange is the sandbox's: a range is made at once.
const maxRange = 100_000

// globals are the functions every template sees.
var globals = map[string]any{
	"range":           builtin(rangeOf),
	"dict":            builtin(makeDict),
	"namespace":       builtin(makeNamespace),
	"cycler":          builtin(makeCycler),
	"joiner":          builtin(makeJoiner),
	"raise_exception": builtin(raise),
	"strftime_now":    builtin(strftimeNow),
}

func rangeOf(r *run, a args) any {
	v := r.bind("range", a, "start", "stop?", "step?")
	from, to, step := int64(0), r.integer(v[0]), int64(1)
	if v[1] != missing {
		from, to = to, r.integer(v[1])
	}
	if v[2] != missing {
		step = r.integer(v[2])
	}
	if step == 0 {
		r.fail("range() step must not be zero")
	}
	n := int64(0)
	if step > 0 && from < to {
		n = (to-from-1)/step + 1
	} else if step < 0 && from > to {
		n = (from-to-1)/-step + 1
	}
	if n > maxRange || n < 0 {
		r.fail("range too big, the sandbox blocks ranges larger than %d", maxRange)
	}
	r.alloc(24 * int(n))
	l := NewList()
	for ; n > 0; n-- {
		l.Items = append(l.Items, from)
		from += step
	}
	return l
}

func (r *run) integer(v any) int64 {
	n, ok := number(v).(int64)
	if !ok {
		r.refuseUndefined(v)
		r.fail("an integer is needed, not %s", typeName(v))
	}
	return n
}

func makeDict(r *run, a args) any {
	d := newDict()
	r.fill(d, a)
	return d
}

func makeNamespace(r *run, a args) any {
	n := &namespace{*newDict()}
	r.fill(&n.Dict, a)
	return n
}

// fill sets what dict(...) is given: a mapping or pairs, and named values.
func (r *run) fill(d *Dict, a args) {
	if len(a.pos) > 1 {
		r.fail("dict expected at most 1 argument, got %d", len(a.pos))
	}
	r.alloc(64 * (1 + len(a.kw)))
	for _, from := range a.pos {
		if m, ok := from.(*Dict); ok {
			r.alloc(64 * len(m.keys))
			for i, k := range m.keys {
				d.Set(k, m.values[i])
			}
			continue
		}
		for _, pair := range r.items(from) {
			kv := r.items(pair)
			if len(kv) != 2 {
				r.fail("dict() needs pairs")
			}
			r.alloc(64)
			r.setKey(d, kv[0], kv[1])
		}
	}
	for _, kw := range a.kw {
		d.Set(kw.name, kw.value)
	}
}

func makeCycler(r *run, a args) any {
	if len(a.pos) == 0 {
		r.fail("at least one item has to be provided")
	}
	i := 0
	return &object{attrs: func(name string) any {
		switch name {
		case "current":
			return a.pos[i]
		case "next":
			return builtin(func(*run, args) any {
				v := a.pos[i]
				i = (i + 1) % len(a.pos)
				return v
			})
		case "reset":
			return builtin(func(*run, args) any {
				i = 0
				return nil
			})
		}
		return nil
	}}
}

func makeJoiner(r *run, a args) any {
	separator := r.bind("joiner", a, "sep?")[0]
	used := false
	return &object{call: func(r *run, _ args) any {
		if !used {
			used = true
			return ""
		}
		if separator == missing {
			return ", "
		}
		return separator
	}}
}

// raise ends the render with the template's own words.
func raise(r *run, a args) any {
	message := ""
	if len(a.pos) > 0 {
		message = r.str(a.pos[0])
	}
	panic(&Error{Line: r.line, Message: message, Raised: true})
}

func strftimeNow(r *run, a args) any {
	layout := r.str(r.bind("strftime_now", a, "format")[0])
	if len(layout) > 1000 {
		r.fail("the format of strftime_now is too long")
	}
	return strftime.Format(layout, r.now)
}
