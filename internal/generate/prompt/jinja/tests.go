package jinja

import "strings"

// tests by name; the first argument is what is tested. Filled in init because some look others up.
var tests map[string]func(*run, args) bool

func init() {
	tests = map[string]func(*run, args) bool{
		"boolean":     is(func(v any) bool { _, ok := v.(bool); return ok }),
		"callable":    is(callable),
		"defined":     is(func(v any) bool { _, ok := v.(undefined); return !ok }),
		"divisibleby": func(r *run, a args) bool { return r.truth(r.binary("%", a.pos[0], r.second(a))) == false },
		"even":        func(r *run, a args) bool { return r.equal(r.binary("%", a.pos[0], int64(2)), int64(0)) },
		"false":       is(func(v any) bool { return v == false }),
		"filter":      is(func(v any) bool { s, ok := v.(string); return ok && filters[s] != nil }),
		"float":       is(func(v any) bool { _, ok := v.(float64); return ok }),
		"in":          func(r *run, a args) bool { return r.contains(r.second(a), a.pos[0]) },
		"integer":     is(func(v any) bool { t := typeName(v); return t == "int" }),
		"iterable":    is(iterable),
		"lower":       func(r *run, a args) bool { return isLower(r.scanned(a.pos[0])) },
		"mapping":     is(func(v any) bool { _, ok := v.(*Dict); return ok }),
		"none":        is(func(v any) bool { return v == nil }),
		"number":      is(func(v any) bool { return number(v) != nil || typeName(v) == "int" }),
		"odd":         func(r *run, a args) bool { return r.equal(r.binary("%", a.pos[0], int64(2)), int64(1)) },
		"sameas":      func(r *run, a args) bool { return same(a.pos[0], r.second(a)) },
		"sequence":    is(sequence),
		"string":      is(func(v any) bool { _, ok := v.(string); return ok }),
		"test":        is(func(v any) bool { s, ok := v.(string); return ok && tests[s] != nil }),
		"true":        is(func(v any) bool { return v == true }),
		"undefined":   is(func(v any) bool { _, ok := v.(undefined); return ok }),
		"upper":       func(r *run, a args) bool { return isUpper(r.scanned(a.pos[0])) },
	}
	for op, names := range map[string]string{"==": "== eq equalto", "!=": "!= ne", "<": "< lt lessthan", "<=": "<= le", ">": "> gt greaterthan", ">=": ">= ge"} {
		for name := range strings.FieldsSeq(names) {
			tests[name] = func(r *run, a args) bool { return r.holds(op, a.pos[0], r.second(a)) }
		}
	}
}

func (r *run) test(name string, a args) bool {
	t, ok := tests[name]
	if !ok {
		r.fail("no test named %q", name)
	}
	return t(r, a)
}

func is(f func(any) bool) func(*run, args) bool {
	return func(r *run, a args) bool { return f(r.bind("the test", a, "value")[0]) }
}

func (r *run) second(a args) any { return r.bind("the test", a, "value", "other")[1] }

func (r *run) scanned(v any) string {
	s := r.str(v)
	r.scan(s)
	return s
}

func callable(v any) bool {
	switch v := v.(type) {
	case builtin, *macro, *loopState, undefined:
		return true
	case *object:
		return v.call != nil
	}
	return false
}

func iterable(v any) bool {
	switch v.(type) {
	case string, *List, *Dict, *loopState, undefined:
		return true
	}
	return false
}

func sequence(v any) bool {
	switch v := v.(type) {
	case string, *Dict, undefined:
		return true
	case *List:
		return !v.lazy
	}
	return false
}

// same is Python's is: small values are the same object when they are equal, others only themselves.
func same(a, b any) bool {
	if typeName(a) != typeName(b) {
		return false
	}
	switch a.(type) {
	case builtin:
		return false
	case undefined:
		return false
	}
	return a == b
}
