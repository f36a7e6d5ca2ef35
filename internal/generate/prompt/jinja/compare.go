package jinja

import (
	"cmp"
	"math"
	"strings"
)

func (r *run) equal(a, b any) bool {
	r.enter()
	defer r.leave()
	if x, y := number(a), number(b); x != nil && y != nil {
		if i, ok := x.(int64); ok {
			if j, ok := y.(int64); ok {
				return i == j
			}
		}
		return toFloat(x) == toFloat(y)
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case string:
		y, ok := b.(string)
		if ok && len(x) == len(y) {
			r.scan(x)
		}
		return ok && x == y
	case bigInt:
		y, ok := b.(bigInt)
		return ok && x == y
	case *List:
		y, ok := b.(*List)
		return ok && (x == y || x.tuple == y.tuple && !x.lazy && !y.lazy && r.equalLists(x.Items, y.Items))
	case *Dict:
		y, ok := b.(*Dict)
		return ok && (x == y || r.equalDicts(x, y))
	case builtin:
		return false
	}
	return a == b // the same object
}

func (r *run) equalLists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !r.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func (r *run) equalDicts(a, b *Dict) bool {
	if len(a.keys) != len(b.keys) {
		return false
	}
	for i, k := range a.keys {
		v, ok := b.get(k)
		if !ok || !r.equal(a.values[i], v) {
			return false
		}
	}
	return true
}

func (r *run) contains(container, v any) bool {
	switch c := container.(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			r.fail("'in <string>' requires a string, not %s", typeName(v))
		}
		r.scan(c)
		return strings.Contains(c, s)
	case *Dict:
		if !hashable(v) {
			r.fail("unhashable key: %s", typeName(v))
		}
		_, ok := r.lookUp(c, v)
		return ok
	}
	for _, item := range r.items(container) {
		if r.equal(item, v) {
			return true
		}
	}
	return false
}

// order compares as Python's < does; comparable is false with NaN.
func (r *run) order(op string, a, b any) (order int, comparable bool) {
	r.enter()
	defer r.leave()
	if x, y := number(a), number(b); x != nil && y != nil {
		i, whole := x.(int64)
		j, wholeToo := y.(int64)
		if whole && wholeToo {
			return cmp.Compare(i, j), true
		}
		f, g := toFloat(x), toFloat(y)
		return cmp.Compare(f, g), !math.IsNaN(f) && !math.IsNaN(g)
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			r.scan(x[:min(len(x), len(y))])
			return strings.Compare(x, y), true
		}
	case *List:
		if y, ok := b.(*List); ok && x.tuple == y.tuple && !x.lazy && !y.lazy {
			for i := range min(len(x.Items), len(y.Items)) {
				if !r.equal(x.Items[i], y.Items[i]) {
					return r.order(op, x.Items[i], y.Items[i])
				}
			}
			return cmp.Compare(len(x.Items), len(y.Items)), true
		}
	}
	r.refuseUndefined(a)
	r.refuseUndefined(b)
	r.fail("%s is not supported between %s and %s", op, typeName(a), typeName(b))
	return 0, false
}

func (r *run) refuseUndefined(v any) {
	if u, ok := v.(undefined); ok {
		r.fail("%s", u.why)
	}
}

// lookUp finds a dict's value by a key that can be hashed.
func (r *run) lookUp(d *Dict, key any) (any, bool) {
	if s, ok := key.(string); ok {
		r.scan(s)
	}
	return d.get(key)
}
