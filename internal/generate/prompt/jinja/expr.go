package jinja

import (
	"math"
	"math/bits"
	"strings"
)

func (r *run) eval(x expr, s *scope) any {
	r.enter()
	v := r.evaluate(x, s)
	r.leave()
	return v
}

func (r *run) evaluate(x expr, s *scope) any {
	switch x := x.(type) {
	case *constant:
		return x.value
	case *name:
		return s.get(x.name)
	case *listOf:
		return &List{Items: r.evalAll(x.items, s), tuple: x.tuple}
	case *dictOf:
		r.alloc(64 * len(x.keys))
		d := newDict()
		for i, k := range x.keys {
			r.setKey(d, r.eval(k, s), r.eval(x.values[i], s))
		}
		return d
	case *unary:
		return r.unary(x.op, r.eval(x.x, s))
	case *binary:
		return r.binary(x.op, r.eval(x.l, s), r.eval(x.r, s))
	case *and:
		if l := r.eval(x.l, s); !r.truth(l) {
			return l
		}
		return r.eval(x.r, s)
	case *or:
		if l := r.eval(x.l, s); r.truth(l) {
			return l
		}
		return r.eval(x.r, s)
	case *not:
		return !r.truth(r.eval(x.x, s))
	case *compare:
		return r.compare(x, s)
	case *condition:
		if r.truth(r.eval(x.test, s)) {
			return r.eval(x.then, s)
		}
		if x.otherwise == nil {
			return undefined{"the inline if-expression evaluated to false and no else section was defined"}
		}
		return r.eval(x.otherwise, s)
	case *attribute:
		return r.attribute(r.eval(x.x, s), x.name)
	case *item:
		return r.item(r.eval(x.x, s), r.eval(x.key, s))
	case *slicing:
		return &span{r.evalOptional(x.from, s), r.evalOptional(x.to, s), r.evalOptional(x.step, s)}
	case *call:
		return r.call(x, s, nil)
	case *filter:
		return r.filter(x.name, r.args(x.arguments, s, r.eval(x.x, s)))
	case *test:
		return r.test(x.name, r.args(x.arguments, s, r.eval(x.x, s)))
	}
	r.fail("unexpected %T in an expression", x)
	return nil
}

func (r *run) evalAll(list []expr, s *scope) []any {
	r.alloc(16 * len(list))
	values := make([]any, len(list))
	for i, x := range list {
		values[i] = r.eval(x, s)
	}
	return values
}

func (r *run) evalOptional(x expr, s *scope) any {
	if x == nil {
		return nil
	}
	return r.eval(x, s)
}

func (r *run) setKey(d *Dict, key, value any) {
	if !hashable(key) {
		r.fail("unhashable key: %s", typeName(key))
	}
	if s, ok := key.(string); ok {
		r.scan(s)
	}
	d.Set(key, value)
}

// args are the arguments of a call. For a filter or a test the first one is what it is applied to.
type args struct {
	pos []any
	kw  []kwarg
}

func (r *run) args(a arguments, s *scope, first ...any) args {
	out := args{pos: append(first, r.evalAll(a.args, s)...)}
	if a.star != nil {
		items := r.items(r.eval(a.star, s))
		r.alloc(16 * len(items))
		out.pos = append(out.pos, items...)
	}
	for _, kw := range a.kwargs {
		out.kw = append(out.kw, kwarg{name: kw.name, value: r.eval(kw.value, s)})
	}
	if a.dict != nil {
		d, ok := r.eval(a.dict, s).(*Dict)
		if !ok {
			r.fail("the argument after ** must be a mapping")
		}
		for i, k := range d.keys {
			out.kw = append(out.kw, kwarg{name: r.str(k), value: d.values[i]})
		}
	}
	return out
}

// take returns the argument at position i or with this name, and whether it was given.
func (a args) take(i int, name string) (any, bool) {
	if i < len(a.pos) {
		return a.pos[i], true
	}
	for j := range a.kw {
		if a.kw[j].name == name {
			a.kw[j].used = true
			return a.kw[j].value, true
		}
	}
	return nil, false
}

// bind returns the arguments by these names, with the defaults for those not given ("x" is required, "x?" is not), and
// refuses more.
func (r *run) bind(what string, a args, names ...string) []any {
	if len(a.pos) > len(names) {
		r.fail("%s takes not more than %d arguments, got %d", what, len(names), len(a.pos))
	}
	values := make([]any, len(names))
	for i, n := range names {
		optional := strings.HasSuffix(n, "?")
		value, given := a.take(i, strings.TrimSuffix(n, "?"))
		if !given {
			if !optional {
				r.fail("%s needs the argument %q", what, n)
			}
			value = missing
		}
		values[i] = value
	}
	for _, kw := range a.kw {
		if !kw.used {
			r.fail("%s has no argument %q", what, kw.name)
		}
	}
	return values
}

// missing stands for an argument that was not given.
var missing = &struct{ string }{"missing"}

func orDefault[T any](v any, otherwise T, r *run) T {
	if v == missing {
		return otherwise
	}
	t, ok := v.(T)
	if !ok {
		r.fail("unexpected argument of type %s", typeName(v))
	}
	return t
}

func (r *run) call(c *call, s *scope, extra []kwarg) any {
	fn := r.eval(c.fn, s)
	a := r.args(c.arguments, s)
	a.kw = append(a.kw, extra...)
	return r.invoke(fn, a)
}

func (r *run) invoke(fn any, a args) any {
	switch f := fn.(type) {
	case builtin:
		return f(r, a)
	case *macro:
		return r.callMacro(f, a)
	case *object:
		if f.call != nil {
			return f.call(r, a)
		}
	case *loopState:
		if f.again == nil {
			r.fail("the loop must have the recursive marker to be called")
		}
		return f.again(r.bind("loop", a, "iterable")[0])
	case undefined:
		r.fail("%s", f.why)
	}
	r.fail("%s is not callable", typeName(fn))
	return nil
}

func (r *run) unary(op string, v any) any {
	switch n := number(v).(type) {
	case int64:
		if op == "-" {
			return -n
		}
		return n
	case float64:
		if op == "-" {
			return -n
		}
		return n
	}
	r.fail("bad operand for unary %s: %s", op, typeName(v))
	return nil
}

// number returns v as int64 or float64, as Python counts True as 1; nil for anything else.
func number(v any) any {
	switch n := v.(type) {
	case bool:
		return toInt(n)
	case int64, float64:
		return n
	}
	return nil
}

func toFloat(n any) float64 {
	if i, ok := n.(int64); ok {
		return float64(i)
	}
	return n.(float64)
}

func (r *run) binary(op string, l, rt any) any {
	if op == "~" {
		a, b := r.str(l), r.str(rt)
		r.size(len(a) + len(b))
		return a + b
	}
	if a, b := number(l), number(rt); a != nil && b != nil {
		return r.arithmetic(op, a, b)
	}
	switch a := l.(type) {
	case undefined:
		r.fail("%s", a.why)
	case string:
		if b, ok := rt.(string); ok && op == "+" {
			r.size(len(a) + len(b))
			return a + b
		}
		if op == "*" {
			return r.repeat(a, rt)
		}
		if op == "%" {
			return r.format(a, rt)
		}
	case *List:
		if b, ok := rt.(*List); ok && op == "+" && a.tuple == b.tuple && !a.lazy && !b.lazy {
			r.alloc(16 * (len(a.Items) + len(b.Items)))
			return &List{Items: append(append(make([]any, 0, len(a.Items)+len(b.Items)), a.Items...), b.Items...), tuple: a.tuple}
		}
		if n, ok := number(rt).(int64); ok && op == "*" && !a.lazy {
			return r.repeatList(a, n)
		}
	case int64:
		if op == "*" {
			if _, ok := rt.(*List); ok {
				return r.binary(op, rt, l)
			}
			if s, ok := rt.(string); ok {
				return r.repeat(s, l)
			}
		}
	}
	if u, ok := rt.(undefined); ok {
		r.fail("%s", u.why)
	}
	r.fail("unsupported operand types for %s: %s and %s", op, typeName(l), typeName(rt))
	return nil
}

func (r *run) repeat(s string, times any) any {
	n, ok := number(times).(int64)
	if !ok {
		r.fail("cannot multiply a string by %s", typeName(times))
	}
	if n <= 0 || s == "" {
		return ""
	}
	r.size(r.product(len(s), n))
	return strings.Repeat(s, int(n))
}

func (r *run) repeatList(l *List, n int64) any {
	out := &List{tuple: l.tuple}
	if n <= 0 || len(l.Items) == 0 {
		return out
	}
	r.alloc(r.product(16*len(l.Items), n))
	for range n {
		out.Items = append(out.Items, l.Items...)
	}
	return out
}

// product is size*n, or a number that no limit allows.
func (r *run) product(size int, n int64) int {
	high, low := bits.Mul64(uint64(size), uint64(n))
	if high > 0 || low > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(low)
}

func (r *run) arithmetic(op string, l, rt any) any {
	a, whole := l.(int64)
	b, wholeToo := rt.(int64)
	if whole && wholeToo && op != "/" && !(op == "**" && b < 0) {
		return r.integers(op, a, b)
	}
	x, y := toFloat(l), toFloat(rt)
	if y == 0 && (op == "/" || op == "//" || op == "%") {
		r.fail("division by zero")
	}
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "//":
		return math.Floor(x / y)
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m
	}
	return math.Pow(x, y)
}

func (r *run) integers(op string, a, b int64) int64 {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c
		}
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c
		}
	case "*":
		if a == 0 || b == 0 {
			return 0
		}
		if c := a * b; c/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64) {
			return c
		}
	case "**":
		result := int64(1)
		for range min(b, 64) {
			result = r.integers("*", result, a)
		}
		if b <= 64 || a == 0 || a == 1 {
			return result
		}
		if a == -1 {
			return 1 - 2*(b%2)
		}
	default:
		if b == 0 {
			r.fail("integer division or modulo by zero")
		}
		q, m := a/b, a%b
		if m != 0 && (m < 0) != (b < 0) {
			q, m = q-1, m+b
		}
		if op == "//" {
			return q
		}
		return m
	}
	r.fail("an integer is too large")
	return 0
}

func (r *run) compare(c *compare, s *scope) any {
	l := r.eval(c.first, s)
	for _, part := range c.rest {
		rt := r.eval(part.x, s)
		if !r.holds(part.op, l, rt) {
			return false
		}
		l = rt
	}
	return true
}

func (r *run) holds(op string, l, rt any) bool {
	switch op {
	case "==":
		return r.equal(l, rt)
	case "!=":
		return !r.equal(l, rt)
	case "in":
		return r.contains(rt, l)
	case "not in":
		return !r.contains(rt, l)
	}
	order, comparable := r.order(op, l, rt)
	switch op {
	case "<":
		return comparable && order < 0
	case "<=":
		return comparable && order <= 0
	case ">":
		return comparable && order > 0
	}
	return comparable && order >= 0
}

func (r *run) truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return v.lazy || len(v.Items) > 0
	case *Dict:
		return len(v.keys) > 0
	}
	return true
}
