// Package jinja renders chat templates: Jinja2 as Hugging Face's transformers sets it up (sandboxed, trim_blocks,
// lstrip_blocks, loop controls, the generation tag, tojson without ASCII escapes, raise_exception, strftime_now).
//
//	t, err := jinja.Parse(source)
//	text, err := t.Render(map[string]any{"messages": messages, "add_generation_prompt": true}, jinja.Limits{}, time.Now())
//
// It differs from other engines in two ways that matter here. Output is byte for byte that of Jinja2, and what Jinja2
// refuses is refused, because a prompt that is slightly wrong gives slightly wrong answers that nobody notices. And every
// render has a budget of steps, memory, depth and time, because templates come with models from strangers.
//
// Not there: include, import, extends and block (a chat template is one file), and the filters made for HTML pages.
package jinja

import (
	"fmt"
	"runtime/debug"
	"time"
)

// Template is a parsed template. It may be rendered by several goroutines at once.
type Template struct{ body []stmt }

// Error says what is wrong with a template or its data, and on which line.
type Error struct {
	Line    int
	Message string
	Raised  bool // the template itself refused, by raise_exception: Message is its own words
	Budget  bool // the render took more than its Limits
}

func (e *Error) Error() string {
	if e.Raised {
		return e.Message
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Message)
}

// fail ends a parse or a render; guard at their top turns it into an error. A recursive evaluator with an error check
// after each step would be twice as long (compare text/template).
func fail(line int, format string, args ...any) {
	panic(&Error{Line: line, Message: fmt.Sprintf(format, args...)})
}

// guard turns what fail has thrown into err, and any other panic too: a strange template must not end the process.
func guard(err *error) {
	switch p := recover().(type) {
	case nil:
	case *Error:
		*err = p
	default:
		*err = fmt.Errorf("jinja: panic: %v\n%s", p, debug.Stack())
	}
}

// Parse reads a template.
func Parse(source string) (t *Template, err error) {
	defer guard(&err)
	return &Template{parse(source)}, nil
}

// Limits bound one render. Zero fields mean the defaults.
type Limits struct {
	Time   time.Duration // 2 s
	Steps  int           // 20 million: nodes evaluated, items walked, pieces of text copied
	Output int           // 8 MB of text, also in any single string on the way
	Memory int           // 512 MB in use at once, beside what was there before
}

func (l Limits) orDefaults() Limits {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	if l.Time == 0 {
		l.Time = 2 * time.Second
	}
	set(&l.Steps, 20_000_000)
	set(&l.Output, 8<<20)
	set(&l.Memory, 512<<20)
	return l
}

// Render runs the template with these variables: nil, bool, int, int64, float64, string, and what Dict, List and FromJSON make.
// Now is what strftime_now tells.
func (t *Template) Render(variables map[string]any, limits Limits, now time.Time) (text string, err error) {
	defer guard(&err)
	r := newRun(limits.orDefaults(), now)
	global := &scope{}
	for name, value := range globals {
		global.set(name, value)
	}
	global = &scope{parent: global}
	for name, value := range variables {
		if n, ok := value.(int); ok {
			value = int64(n)
		}
		global.set(name, value)
	}
	r.exec(t.body, &scope{parent: global})
	return r.out.String(), nil
}
