package jinja

import (
	"runtime"
	"runtime/metrics"
	"strings"
	"time"
)

// maxDepth bounds the evaluator's recursion, macros that call themselves included: a Go stack that overflows ends the process.
const maxDepth = 5000

// run is one render.
type run struct {
	limits   Limits
	now      time.Time
	deadline time.Time
	out      *strings.Builder
	line     int // of the statement at work, for errors
	steps    int
	look     int // look at the clock when steps get here
	made     int // bytes so far
	measure  int // measure the heap when made gets here
	heap     int // its size at the beginning
	depth    int
}

func newRun(limits Limits, now time.Time) *run {
	r := &run{limits: limits, now: now, deadline: time.Now().Add(limits.Time), out: &strings.Builder{}, measure: limits.Memory / 4}
	r.heap = r.heapGrowth()
	return r
}

// fail ends the render.
func (r *run) fail(format string, args ...any) { fail(r.line, format, args...) }

func (r *run) exceed(what string) {
	panic(&Error{Line: r.line, Message: "the template takes too much " + what, Budget: true})
}

// step counts n units of work.
func (r *run) step(n int) {
	r.steps += n
	if r.steps < r.look {
		return
	}
	if r.steps > r.limits.Steps || time.Now().After(r.deadline) {
		r.exceed("time")
	}
	r.look = r.steps + 10_000
}

// alloc counts n bytes that are about to be made. It is called before they are.
func (r *run) alloc(n int) {
	r.step(1 + n/256)
	if n > r.limits.Memory || n < 0 {
		r.exceed("memory")
	}
	if r.made += n; r.made < r.measure {
		return
	}
	r.measure = r.made + r.limits.Memory/4
	if r.heapGrowth() > r.limits.Memory {
		runtime.GC() // most of it may be garbage: templates build their text piece by piece
		if r.heapGrowth() > r.limits.Memory {
			r.exceed("memory")
		}
	}
}

// heapGrowth is what the process's heap has grown by since the render began. Others may have a part in that, but the
// limit is there to keep the process alive, so it does not matter whose memory it is.
func (r *run) heapGrowth() int {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64()) - r.heap
}

// scan counts the time that it takes to look through s.
func (r *run) scan(s string) { r.step(1 + len(s)/256) }

// size counts a string of n bytes that is about to be made.
func (r *run) size(n int) {
	if n > r.limits.Output {
		r.exceed("memory")
	}
	r.alloc(n)
}

// enter and leave bracket every recursion.
func (r *run) enter() {
	r.step(1)
	if r.depth++; r.depth > maxDepth {
		r.exceed("depth")
	}
}

func (r *run) leave() { r.depth-- }

func (r *run) write(s string) {
	if r.out.Len()+len(s) > r.limits.Output {
		r.exceed("memory")
	}
	r.alloc(len(s))
	r.out.WriteString(s)
}

// capture returns what f writes.
func (r *run) capture(f func()) string {
	outer := r.out
	r.out = &strings.Builder{}
	f()
	s := r.out.String()
	r.out = outer
	return s
}

// scope holds variables. Templates have few, so a list is quicker than a map.
type scope struct {
	names  []string
	values []any
	parent *scope
}

func (s *scope) set(name string, value any) {
	for i, n := range s.names {
		if n == name {
			s.values[i] = value
			return
		}
	}
	s.names = append(s.names, name)
	s.values = append(s.values, value)
}

func (s *scope) get(name string) any {
	for ; s != nil; s = s.parent {
		for i, n := range s.names {
			if n == name {
				return s.values[i]
			}
		}
	}
	return undefined{"'" + name + "' is undefined"}
}

// flow says how a statement ended.
type flow int

const (
	goOn flow = iota
	breakOut
	continueOn
)

func (r *run) exec(body []stmt, s *scope) flow {
	r.enter()
	for _, st := range body {
		if f := r.statement(st, s); f != goOn {
			r.leave()
			return f
		}
	}
	r.leave()
	return goOn
}

func (r *run) statement(st stmt, s *scope) flow {
	switch st := st.(type) {
	case *text:
		r.write(st.text)
	case *output:
		r.line = st.line
		r.write(r.str(r.eval(st.x, s)))
	case *conditional:
		r.line = st.line
		if r.truth(r.eval(st.test, s)) {
			return r.exec(st.then, s)
		}
		return r.exec(st.otherwise, s)
	case *loop:
		r.line = st.line
		r.loop(st, r.eval(st.iter, s), s, 0)
	case *assign:
		r.line = st.line
		r.assign(st.target, r.eval(st.x, s), s)
	case *assignBlock:
		r.line = st.line
		r.assign(st.target, r.filtered(st.filter, st.body, s), s)
	case *macroDef:
		s.set(st.name, &macro{st, s})
	case *callBlock:
		r.line = st.line
		extra := []kwarg{{name: "caller", value: &macro{st.caller, s}}}
		r.write(r.str(r.call(st.call, s, extra)))
	case *filterBlock:
		r.line = st.line
		r.write(r.str(r.filtered(st.filter, st.body, s)))
	case *with:
		r.line = st.line
		inner := &scope{parent: s}
		for i, t := range st.targets {
			r.assign(t, r.eval(st.values[i], s), inner)
		}
		return r.exec(st.body, inner)
	case breakLoop:
		return breakOut
	case continueLoop:
		return continueOn
	}
	return goOn
}

// filtered is what body writes, through filter when there is one.
func (r *run) filtered(filter expr, body []stmt, s *scope) any {
	inner := &scope{parent: s}
	text := r.capture(func() { r.exec(body, inner) })
	if filter == nil {
		return text
	}
	inner.set(captured, text)
	return r.eval(filter, inner)
}

func (r *run) assign(target expr, value any, s *scope) {
	switch t := target.(type) {
	case *name:
		s.set(t.name, value)
	case nsRef:
		ns, ok := s.get(t.ns).(*namespace)
		if !ok {
			r.fail("cannot assign attribute on non-namespace object")
		}
		r.alloc(64)
		ns.set(t.attr, value)
	case *listOf:
		values := r.items(value)
		if len(values) != len(t.items) {
			r.fail("cannot unpack %d values into %d names", len(values), len(t.items))
		}
		for i, item := range t.items {
			r.assign(item, values[i], s)
		}
	}
}

func (r *run) loop(l *loop, iter any, s *scope, level int) {
	items := r.items(iter)
	if l.test != nil {
		var kept []any
		for _, item := range items {
			inner := &scope{parent: s}
			r.assign(l.target, item, inner)
			if r.truth(r.eval(l.test, inner)) {
				kept = append(kept, item)
			}
		}
		r.alloc(16 * len(kept))
		items = kept
	}
	state := &loopState{items: items, level: level}
	if l.recursive {
		state.again = func(iter any) any {
			r.enter()
			defer r.leave()
			return r.capture(func() { r.loop(l, iter, s, level+1) })
		}
	}
	for i, item := range items {
		r.step(1)
		state.index = i
		inner := &scope{parent: s}
		inner.set("loop", state)
		r.assign(l.target, item, inner)
		if r.exec(l.body, inner) == breakOut {
			break
		}
	}
	if len(items) == 0 {
		r.exec(l.otherwise, &scope{parent: s})
	}
}

// callMacro runs a macro's body with its parameters set.
func (r *run) callMacro(m *macro, a args) any {
	d, s := m.def, &scope{parent: m.scope}
	if len(a.pos) > len(d.params) {
		if !d.extra {
			r.fail("macro %q takes not more than %d arguments", d.name, len(d.params))
		}
		s.set("varargs", &List{Items: a.pos[len(d.params):], tuple: true})
	} else if d.extra {
		s.set("varargs", &List{tuple: true})
	}
	required := len(d.params) - len(d.defaults)
	for i, p := range d.params {
		value, given := a.take(i, p)
		switch {
		case given:
			s.set(p, value)
		case i >= required:
			s.set(p, r.eval(d.defaults[i-required], s))
		default:
			s.set(p, undefined{"parameter '" + p + "' was not provided"})
		}
	}
	r.macroKwargs(d, a, s)
	r.enter()
	defer r.leave()
	return r.capture(func() { r.exec(d.body, s) })
}

// macroKwargs sets caller and kwargs, and refuses named arguments that the macro does not take.
func (r *run) macroKwargs(d *macroDef, a args, s *scope) {
	rest := newDict()
	for _, kw := range a.kw {
		switch {
		case kw.name == "caller":
			s.set("caller", kw.value)
		case kw.used:
		case !d.extraKey:
			r.fail("macro %q takes no keyword argument %q", d.name, kw.name)
		default:
			rest.Set(kw.name, kw.value)
		}
	}
	if d.extraKey {
		s.set("kwargs", rest)
	}
}
