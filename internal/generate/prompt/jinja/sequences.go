package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// attributes returns one attribute of each item. A path such as "function.name" is followed; otherwise stands for what is
// not there unless it is missing.
func (r *run) attributes(items []any, path, otherwise any) []any {
	r.alloc(16 * len(items))
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = r.follow(item, path, otherwise)
	}
	return out
}

func (r *run) follow(v, path, otherwise any) any {
	parts := []any{path}
	if s, ok := path.(string); ok {
		parts = parts[:0]
		for part := range strings.SplitSeq(s, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && n >= 0 {
				parts = append(parts, n)
			} else {
				parts = append(parts, part)
			}
		}
	}
	for _, part := range parts {
		r.step(1)
		v = r.item(v, part)
		if _, none := v.(undefined); none && otherwise != missing && otherwise != nil {
			v = otherwise
		}
	}
	return v
}

func mapOver(r *run, a args) any {
	items := r.items(a.pos[0])
	out := &List{lazy: true}
	if len(a.pos) == 1 {
		v := r.bind("map", args{kw: a.kw}, "attribute", "default?")
		out.Items = r.attributes(items, v[0], v[1])
		return out
	}
	name := r.str(a.pos[1])
	r.alloc(16 * len(items))
	for _, item := range items {
		r.step(1)
		out.Items = append(out.Items, r.filter(name, a.on(item, 2)))
	}
	return out
}

// on is a without its first skip positional arguments, applied to item.
func (a args) on(item any, skip int) args {
	return args{append([]any{item}, a.pos[skip:]...), slices.Clone(a.kw)}
}

// selecting makes select, reject, selectattr and rejectattr.
func selecting(keep, byAttribute bool) builtin {
	return func(r *run, a args) any {
		items, skip := r.items(a.pos[0]), 1
		if byAttribute {
			if skip++; len(a.pos) < 2 {
				r.fail("missing parameter for attribute name")
			}
		}
		out := &List{lazy: true}
		for _, item := range items {
			r.step(1)
			v := item
			if byAttribute {
				v = r.follow(item, a.pos[1], missing)
			}
			chosen := false
			if len(a.pos) > skip {
				chosen = r.test(r.str(a.pos[skip]), a.on(v, skip+1))
			} else {
				chosen = r.truth(v)
			}
			if chosen == keep {
				out.Items = append(out.Items, item)
			}
		}
		r.alloc(16 * len(out.Items))
		return out
	}
}

// sortKey makes the function that sorting filters compare by: an attribute, without regard to case unless asked.
func (r *run) sortKey(attribute, caseSensitive any) func(any) any {
	return func(v any) any {
		if attribute != missing && attribute != nil {
			v = r.follow(v, attribute, missing)
		}
		if s, ok := v.(string); ok && (caseSensitive == missing || !r.truth(caseSensitive)) {
			return strings.ToLower(s)
		}
		return v
	}
}

// sortBy sorts items stably by what key returns for them.
func (r *run) sortBy(items []int, key func(int) any, reversed bool) {
	slices.SortStableFunc(items, func(i, j int) int {
		r.step(1)
		order, _ := r.order("<", key(i), key(j))
		if reversed {
			return -order
		}
		return order
	})
}

// sorted returns items in the order of their keys.
func (r *run) sorted(items []any, key func(any) any, reversed bool) []any {
	r.alloc(40 * len(items))
	order, keys := make([]int, len(items)), make([]any, len(items))
	for i, item := range items {
		order[i], keys[i] = i, key(item)
	}
	r.sortBy(order, func(i int) any { return keys[i] }, reversed)
	out := make([]any, len(items))
	for at, i := range order {
		out[at] = items[i]
	}
	return out
}

func sortFilter(r *run, a args) any {
	v := r.bind("sort", a, "value", "reverse?", "case_sensitive?", "attribute?")
	reversed := v[1] != missing && r.truth(v[1])
	key := r.sortKey(v[3], v[2])
	if path, ok := v[3].(string); ok && strings.Contains(path, ",") {
		key = func(item any) any {
			t := &List{tuple: true}
			for part := range strings.SplitSeq(path, ",") {
				t.Items = append(t.Items, r.sortKey(part, v[2])(item))
			}
			return t
		}
	}
	return &List{Items: r.sorted(r.items(v[0]), key, reversed)}
}

func dictSort(r *run, a args) any {
	v := r.bind("dictsort", a, "value", "case_sensitive?", "by?", "reverse?")
	d, ok := v[0].(*Dict)
	if !ok {
		r.fail("dictsort needs a mapping, not %s", typeName(v[0]))
	}
	by := int64(0)
	switch orDefault(v[2], "key", r) {
	case "key":
	case "value":
		by = 1
	default:
		r.fail("dictsort sorts by key or value")
	}
	pairs := dictItems(r, d, args{}).(*List).Items
	return &List{Items: r.sorted(pairs, r.sortKey(by, v[1]), v[3] != missing && r.truth(v[3]))}
}

func unique(r *run, a args) any {
	v := r.bind("unique", a, "value", "case_sensitive?", "attribute?")
	key, seen, out := r.sortKey(v[2], v[1]), newDict(), &List{lazy: true}
	for _, item := range r.items(v[0]) {
		k := key(item)
		r.alloc(64)
		if !hashable(k) {
			r.fail("unhashable type: %s", typeName(k))
		}
		if _, ok := seen.get(k); !ok {
			seen.Set(k, true)
			out.Items = append(out.Items, item)
		}
	}
	return out
}

func groupBy(r *run, a args) any {
	v := r.bind("groupby", a, "value", "attribute", "default?", "case_sensitive?")
	key := func(item any) any { return r.sortKey(missing, v[3])(r.follow(item, v[1], v[2])) }
	out := NewList()
	var lastKey any
	for i, item := range r.sorted(r.items(v[0]), key, false) {
		r.alloc(100)
		if k := key(item); i == 0 || !r.equal(k, lastKey) {
			lastKey = k
			out.Items = append(out.Items, &group{r.follow(item, v[1], v[2]), NewList()})
		}
		g := out.Items[len(out.Items)-1].(*group)
		g.list.Items = append(g.list.Items, item)
	}
	for i, item := range out.Items {
		g := item.(*group)
		out.Items[i] = &List{Items: []any{g.grouper, g.list}, tuple: true}
	}
	return out
}

type group struct {
	grouper any
	list    *List
}

// extreme makes min and max.
func extreme(sign int) builtin {
	return func(r *run, a args) any {
		v := r.bind("min and max", a, "value", "case_sensitive?", "attribute?")
		items, key := r.items(v[0]), r.sortKey(v[2], v[1])
		if len(items) == 0 {
			return undefined{"no aggregated item, sequence was empty"}
		}
		best := items[0]
		for _, item := range items[1:] {
			if order, _ := r.order("<", key(item), key(best)); order*sign > 0 {
				best = item
			}
		}
		return best
	}
}

func sum(r *run, a args) any {
	v := r.bind("sum", a, "iterable", "attribute?", "start?")
	total := any(int64(0))
	if v[2] != missing {
		total = v[2]
	}
	items := r.items(v[0])
	if v[1] != missing && v[1] != nil {
		items = r.attributes(items, v[1], missing)
	}
	for _, item := range items {
		r.step(1)
		total = r.binary("+", total, item)
	}
	return total
}

func batch(r *run, a args) any {
	v := r.bind("batch", a, "value", "linecount", "fill_with?")
	n := r.integer(v[1])
	if n < 1 || n > maxRange {
		r.fail("batch needs a line count from 1 to %d", maxRange)
	}
	items, out := r.items(v[0]), &List{lazy: true}
	r.alloc(40 * (len(items) + int(n)))
	for chunk := range slices.Chunk(items, int(n)) {
		chunk = slices.Clone(chunk)
		for v[2] != missing && v[2] != nil && len(chunk) < int(n) {
			chunk = append(chunk, v[2])
		}
		out.Items = append(out.Items, &List{Items: chunk})
	}
	return out
}

// sliceInto is the filter slice: so many lists, the first ones longer by one where it does not come out even.
func sliceInto(r *run, a args) any {
	v := r.bind("slice", a, "value", "slices", "fill_with?")
	n := int(min(r.integer(v[1]), maxRange))
	if n < 1 {
		r.fail("slice needs at least one slice")
	}
	items, out := r.items(v[0]), &List{lazy: true}
	r.alloc(40 * (len(items) + n))
	each, more, at := len(items)/n, len(items)%n, 0
	for i := range n {
		size := each
		if i < more {
			size++
		}
		part := &List{Items: slices.Clone(items[at : at+size])}
		at += size
		if v[2] != missing && v[2] != nil && i >= more {
			part.Items = append(part.Items, v[2])
		}
		out.Items = append(out.Items, part)
	}
	return out
}
