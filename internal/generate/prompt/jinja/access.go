package jinja

import (
	"strings"
	"unicode/utf8"
)

// attribute is x.name: an attribute or a method, else a dict's key.
func (r *run) attribute(x any, name string) any {
	r.refuseUndefined(x)
	if v, ok := r.member(x, name); ok {
		return v
	}
	if d, ok := x.(*Dict); ok {
		if v, ok := d.get(name); ok {
			return v
		}
	}
	return undefined{"'" + typeName(x) + " object' has no attribute '" + name + "'"}
}

// item is x[key]: an element, else an attribute or method of that name.
func (r *run) item(x, key any) any {
	r.refuseUndefined(x)
	if s, ok := key.(*span); ok {
		return r.slice(x, s)
	}
	switch v := x.(type) {
	case *Dict:
		if hashable(key) {
			if value, ok := r.lookUp(v, key); ok {
				return value
			}
		}
	case *List:
		if n, ok := number(key).(int64); ok && !v.lazy {
			if i := index(n, len(v.Items)); i >= 0 {
				return v.Items[i]
			}
		}
	case string:
		if n, ok := number(key).(int64); ok {
			if c, ok := r.character(v, n); ok {
				return c
			}
		}
	}
	if name, ok := key.(string); ok {
		if v, ok := r.member(x, name); ok {
			return v
		}
	}
	return undefined{"'" + typeName(x) + " object' has no element " + r.str(key)}
}

// index resolves an index from the end; -1 when it is out of range.
func index(n int64, length int) int {
	if n < 0 {
		n += int64(length)
	}
	if n < 0 || n >= int64(length) {
		return -1
	}
	return int(n)
}

func (r *run) character(s string, n int64) (string, bool) {
	r.scan(s)
	if n < int64(len(s)) && n >= 0 && n < 64 || utf8.RuneCountInString(s) == len(s) { // the usual: s[0]
		at := 0
		for i, c := range s {
			if int64(at) == n {
				return s[i : i+utf8.RuneLen(c)], true
			}
			if n < 0 {
				break
			}
			at++
		}
	}
	r.alloc(4 * len(s))
	runes := []rune(s)
	i := index(n, len(runes))
	if i < 0 {
		return "", false
	}
	return string(runes[i]), true
}

// span is the key of x[from:to:step].
type span struct{ from, to, step any }

func (r *run) slice(x any, s *span) any {
	switch v := x.(type) {
	case string:
		runes := []rune(v)
		r.alloc(4 * len(runes))
		var out strings.Builder
		r.walk(s, len(runes), func(i int) { out.WriteRune(runes[i]) })
		return out.String()
	case *List:
		if !v.lazy {
			out := &List{tuple: v.tuple}
			r.alloc(16 * len(v.Items))
			r.walk(s, len(v.Items), func(i int) { out.Items = append(out.Items, v.Items[i]) })
			return out
		}
	}
	return undefined{"'" + typeName(x) + " object' cannot be sliced"}
}

// walk calls f for the indexes of a slice, as Python resolves them.
func (r *run) walk(s *span, length int, f func(int)) {
	n := int64(length)
	step := r.bound(s.step, 1)
	if step == 0 {
		r.fail("slice step cannot be zero")
	}
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	clip := func(v any, otherwise int64) int64 {
		if v == nil {
			return otherwise
		}
		i := r.bound(v, 0)
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	if step > 0 {
		for i, to := clip(s.from, low), clip(s.to, high); i < to; i += min(step, n+1) {
			f(int(i))
		}
		return
	}
	for i, to := clip(s.from, high), clip(s.to, low); i > to; i += max(step, -n-1) {
		f(int(i))
	}
}

func (r *run) bound(v any, otherwise int64) int64 {
	if v == nil {
		return otherwise
	}
	n, ok := number(v).(int64)
	if !ok {
		r.fail("slice indices must be integers, not %s", typeName(v))
	}
	return min(max(n, -1<<40), 1<<40)
}

// member is an attribute or method of x that is no dict key.
func (r *run) member(x any, name string) (any, bool) {
	switch x := x.(type) {
	case string:
		if m, ok := stringMethods[name]; ok {
			return builtin(func(r *run, a args) any { return m(r, x, a) }), true
		}
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			return builtin(func(r *run, a args) any { return m(r, x, a) }), true
		}
	case *List:
		if m, ok := listMethods[name]; ok && !x.lazy {
			return builtin(func(r *run, a args) any { return m(r, x, a) }), true
		}
	case *namespace:
		return x.get(name)
	case *loopState:
		return r.loopAttribute(x, name)
	case *macro:
		if name == "name" {
			return x.def.name, true
		}
	case *object:
		if x.attrs != nil {
			v := x.attrs(name)
			return v, v != nil
		}
	}
	return nil, false
}

func (r *run) loopAttribute(l *loopState, name string) (any, bool) {
	n, i := len(l.items), l.index
	neighbour := func(i int, why string) any {
		if i < 0 || i >= n {
			return undefined{why}
		}
		return l.items[i]
	}
	switch name {
	case "index":
		return int64(i + 1), true
	case "index0":
		return int64(i), true
	case "revindex":
		return int64(n - i), true
	case "revindex0":
		return int64(n - i - 1), true
	case "first":
		return i == 0, true
	case "last":
		return i == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.level + 1), true
	case "depth0":
		return int64(l.level), true
	case "previtem":
		return neighbour(i-1, "there is no previous item"), true
	case "nextitem":
		return neighbour(i+1, "there is no next item"), true
	case "cycle":
		return builtin(func(r *run, a args) any {
			if len(a.pos) == 0 {
				r.fail("no items for cycling given")
			}
			return a.pos[i%len(a.pos)]
		}), true
	case "changed":
		return builtin(func(r *run, a args) any {
			now := any(&List{Items: a.pos, tuple: true})
			changed := l.last == nil || !r.equal(*l.last, now)
			l.last = &now
			return changed
		}), true
	}
	return nil, false
}
