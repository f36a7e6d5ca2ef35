package jinja

import "math"

// Values are nil (None), undefined, bool, int64, float64, bigInt, string, *List, *Dict, *namespace, *loopState, *macro,
// *object and builtin.

// undefined is what a missing variable or attribute gives. It prints as nothing; to look into it is an error.
type undefined struct{ why string }

// bigInt is an integer beyond int64. It is only passed on.
type bigInt string

// List is a Python list, tuple or iterator.
type List struct {
	Items []any
	tuple bool
	lazy  bool // what map, select and their kind return: always true, without length
}

// NewList returns a list of items.
func NewList(items ...any) *List { return &List{Items: items} }

// Dict is a Python dict: in the order in which keys were first set.
type Dict struct {
	keys   []any // string, int64, float64, bool, nil
	values []any
	index  map[any]int
}

// NewDict returns a dict of alternating keys and values.
func NewDict(pairs ...any) *Dict {
	d := newDict()
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Set(pairs[i], pairs[i+1])
	}
	return d
}

func newDict() *Dict { return &Dict{index: map[any]int{}} }

// Set sets a key.
func (d *Dict) Set(key, value any) {
	h := hashKey(key)
	if i, ok := d.index[h]; ok {
		d.values[i] = value
		return
	}
	d.index[h] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
}

func (d *Dict) get(key any) (any, bool) {
	i, ok := d.index[hashKey(key)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// hashKey makes 1, 1.0 and True one key, as Python has it.
func hashKey(key any) any {
	switch k := key.(type) {
	case bool:
		return toInt(k)
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<53 {
			return int64(k)
		}
	}
	return key
}

func hashable(key any) bool {
	switch key.(type) {
	case nil, bool, int64, float64, string, bigInt:
		return true
	}
	return false
}

type namespace struct{ Dict }

func (n *namespace) set(key string, value any) { n.Set(key, value) }

// loopState is the variable loop.
type loopState struct {
	items []any
	index int
	level int
	last  *any // what changed saw last
	again func(any) any
}

type macro struct {
	def   *macroDef
	scope *scope
}

// object is a small thing with methods: cycler, joiner, a bound method.
type object struct {
	attrs func(string) any // nil for none
	call  builtin          // nil: cannot be called
}

type builtin func(r *run, a args) any

type kwarg struct {
	name  string
	value any
	used  bool
}

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
