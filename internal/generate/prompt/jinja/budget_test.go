package jinja_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/generate/prompt/jinja"
)

// double is a template that makes something twice as long forty times.
func double(expression string) string {
	return "{% set ns = namespace(x='aa') %}{% for i in range(40) %}{% set ns.x = " + expression + " %}{% endfor %}{{ ns.x|length }}"
}

// Each of these would run for ever, take all memory, or end the process by a stack that overflows.
func TestBombsEndInTime(t *testing.T) {
	const limit = 200 * time.Millisecond
	for name, source := range map[string]string{
		"macro calls itself":         "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
		"macro default calls itself": "{% macro f(x=f()) %}{{ x }}{% endmacro %}{{ f() }}",
		"two macros":                 "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
		"caller":                     "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
		"recursive loop":             "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"string doubling with +":     double("ns.x + ns.x"),
		"string doubling with ~":     double("ns.x ~ ns.x"),
		"string doubling by replace": double("ns.x.replace('a', 'aa')"),
		"string doubling by filter":  double("ns.x|replace('a', 'aa')"),
		"string doubling by join":    double("[ns.x, ns.x]|join"),
		"string doubling by format":  double("'%s%s'|format(ns.x, ns.x)"),
		"string doubling by .format": double("'{}{}'.format(ns.x, ns.x)"),
		"string doubling by block":   "{% set x = 'aa' %}" + strings.Repeat("{% set x %}{{ x }}{{ x }}{% endset %}", 40) + "{{ x }}",
		"list doubling":              "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
		"list doubling by *":         "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x * 2 %}{% endfor %}",
		"a tree of shared lists":     "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
		"printed":                    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
		"compared":                   "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
		"ordered":                    "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x < ns.y }}",
		"a deep list":                "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
		"a namespace in itself":      "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
		"repeat":                     "{{ ('a' * 1000000000000)|length }}",
		"repeat a list":              "{{ ([1] * 1000000000000)|length }}",
		"many big strings kept":      "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = ns.x + ['a' * 8000000] %}{% endfor %}",
		"nested ranges":              "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
		"a range in a filter":        "{% for a in range(99999) if range(99999)|sum > 9 %}{% endfor %}",
		"nested filters":             "{% for a in range(99999) %}{{ range(99999)|map('string')|join|length }}{% endfor %}",
		"long searches":              "{% set s = 'a' * 8000000 %}{% for a in range(99999) %}{% set x = 'b' in s or s.find('b') or s.count('b') %}{% endfor %}",
		"long cuts":                  "{% set s = ' ' * 8000000 %}{% for a in range(99999) %}{% set x = s.strip() ~ s|trim %}{% endfor %}",
		"long splits":                "{% set s = 'a ' * 4000000 %}{% for a in range(99999) %}{% set x = s.split() %}{% endfor %}",
		"long lines":                 "{% set s = 'a\n' * 4000000 %}{% for a in range(99999) %}{% set x = s.splitlines() %}{% endfor %}",
		"long characters":            "{% set s = 'a' * 8000000 %}{% for a in range(99999) %}{% set x = s[-1] ~ s[::-1] ~ s|length %}{% endfor %}",
		"long lengths":               "{% set s = 'é' * 4000000 %}{% for a in range(99999) %}{% set x = s|length %}{% endfor %}",
		"long comparisons":           "{% set s = 'a' * 8000000 %}{% set t = s ~ 'a' %}{% for a in range(99999) %}{% set x = s == t or s < t %}{% endfor %}",
		"long tests":                 "{% set s = 'a' * 8000000 %}{% for a in range(99999) %}{% set x = s is upper or s.isdigit() or s.isalpha() %}{% endfor %}",
		"long counts":                "{% set s = 'a b' * 2000000 %}{% for a in range(99999) %}{% set x = s|wordcount %}{% endfor %}",
		"long prefixes":              "{% set s = 'a' * 8000000 %}{% for a in range(99999) %}{% set x = s.startswith(s ~ '') %}{% endfor %}",
		"wide padding":               "{{ 'a'.center(9999999999)|length }}",
		"wide format":                "{{ '%9999999999d' % 1 }}",
		"wide indent":                "{{ 'a\nb'|indent(9999999999) }}",
		"wide json":                  "{{ [[[]]]|tojson(indent=999999999) }}",
		"power":                      "{{ 9 ** 999999999 }}",
		"batches":                    "{{ [1]|batch(999999999, 1)|list }}",
		"slices":                     "{{ [1]|slice(999999999)|list|length }}{% for i in range(99999) %}{{ [1]|slice(99999)|list|length }}{% endfor %}",
		"too much output":            "{% for i in range(99999) %}{{ 'a' * 10000 }}{% endfor %}",
		"cheap steps":                "{% for i in range(99999) %}" + strings.Repeat("{% set x = 1 %}", 5000) + "{% endfor %}",
		"group by":                   "{% for i in range(99999) %}{{ range(99999)|groupby('x')|list|length }}{% endfor %}",
		"unique":                     "{% for i in range(99999) %}{{ range(99999)|unique|list|length }}{% endfor %}",
		"reverse":                    "{% set l = range(99999) %}{% for i in range(99999) %}{% set x = l|reverse %}{% endfor %}",
		"contains":                   "{% set l = range(99999) %}{% for i in range(99999) %}{% set x = -1 in l %}{% endfor %}",
		"max":                        "{% set l = range(99999) %}{% for i in range(99999) %}{% set x = l|max %}{% endfor %}",
		"unpack":                     "{% set l = range(99999) %}{% for i in range(99999) %}{% macro f() %}{{ varargs|length }}{% endmacro %}{{ f(*l) }}{% endfor %}",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := render(source, nil, jinja.Limits{Time: limit})
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			var e *jinja.Error
			require.ErrorAs(t, err, &e)
			assert.Less(t, took, limit+20*time.Second) // what a loaded machine adds
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<30), "bytes made")
		})
	}
}

func TestSourceBombsEndInTime(t *testing.T) {
	for name, source := range map[string]string{
		"nested ifs":         strings.Repeat("{% if 1 %}", 100_000),
		"nested parentheses": "{{ " + strings.Repeat("(", 100_000),
		"nested lists":       "{{ " + strings.Repeat("[", 100_000),
		"nested dicts":       "{{ " + strings.Repeat("{1:", 100_000),
		"nested targets":     "{% set " + strings.Repeat("(", 100_000),
		"nots":               "{{ " + strings.Repeat("not ", 100_000) + "1 }}",
		"minuses":            "{{ " + strings.Repeat("- ", 100_000) + "1 }}",
		"calls":              "{{ " + strings.Repeat("f(", 100_000),
		"subscripts":         "{{ " + strings.Repeat("f[", 100_000),
		"ternaries":          "{{ " + strings.Repeat("1 if 1 else ", 100_000) + "1 }}",
		"tests":              "{{ 1 is in " + strings.Repeat("[", 100_000),
		"a long sum":         "{{ 1" + strings.Repeat("+1", 400_000) + " }}",
		"a long chain":       "{{ x" + strings.Repeat("|upper", 100_000) + " }}",
		"long attributes":    "{{ x" + strings.Repeat(".a", 400_000) + " }}",
		"many elifs":         "{% if 0 %}" + strings.Repeat("{% elif 0 %}", 80_000) + "{% endif %}",
		"unclosed raw":       strings.Repeat("{% raw %}{% endraw", 50_000),
		"unclosed strings":   strings.Repeat("{{ '", 200_000),
		"unclosed comments":  strings.Repeat("{#", 400_000),
		"long number":        "{{ " + strings.Repeat("9", 1<<20) + " }}",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := render(source, nil, jinja.Limits{})
			var e *jinja.Error
			require.ErrorAs(t, err, &e)
			assert.Less(t, time.Since(start), 30*time.Second)
		})
	}
}

func TestOrdinaryConversationsStayFarBelowTheLimits(t *testing.T) {
	source := `{% set ns = namespace(out='') %}{% for m in messages %}{% set ns.out = ns.out + '<|' ~ m.role ~ '|>' + m.content|trim + '\n' %}` +
		`{% if m.content.split('</think>')|length > 1 %}{{ m.content|tojson }}{% endif %}{% endfor %}{{ ns.out }}`
	messages := jinja.NewList()
	for range 1000 {
		messages.Items = append(messages.Items, jinja.NewDict("role", "user", "content", strings.Repeat("word ", 150)))
	}
	text, err := render(source, map[string]any{"messages": messages}, jinja.Limits{})
	require.NoError(t, err)
	assert.Greater(t, len(text), 700_000)
}

func TestLimitsCanBeSet(t *testing.T) {
	for name, limits := range map[string]jinja.Limits{"steps": {Steps: 1000}, "output": {Output: 100}, "memory": {Memory: 1000}, "time": {Time: 1}} {
		_, err := render("{% for i in range(99999) %}{{ i }}{% endfor %}", nil, limits)
		var e *jinja.Error
		require.ErrorAs(t, err, &e, name)
		assert.True(t, e.Budget, name)
	}
}

func TestErrorsTellTheLineAndTheTemplatesOwnWords(t *testing.T) {
	_, err := render("a\n\n{{ x.y }}", nil, jinja.Limits{})
	require.EqualError(t, err, "line 3: 'x' is undefined")
	_, err = render("a\n{% if x %}", nil, jinja.Limits{})
	require.ErrorContains(t, err, "line 2:")
	_, err = render("{{ raise_exception('own words') }}", nil, jinja.Limits{})
	require.EqualError(t, err, "own words")
}

func TestTemplatesCanBeRenderedAtOnce(t *testing.T) {
	values := data(t)
	template, err := jinja.Parse("{% set ns = namespace(n=0) %}{% for m in msgs %}{% set ns.n = ns.n + 1 %}{{ m.role }}{% endfor %}{{ ns.n }}{{ schema|tojson }}")
	require.NoError(t, err)
	want, err := template.Render(values, jinja.Limits{}, now)
	require.NoError(t, err)
	results := make(chan string)
	for range 8 {
		go func() {
			got, _ := template.Render(values, jinja.Limits{}, now)
			results <- got
		}()
	}
	for range 8 {
		assert.Equal(t, want, <-results)
	}
}

func FuzzRenderNeverPanicsNorStalls(f *testing.F) {
	for _, c := range constructs(f) {
		f.Add(c.Source)
	}
	values := data(f)
	f.Fuzz(func(t *testing.T, source string) {
		_, err := render(source, values, jinja.Limits{Steps: 100_000, Output: 1 << 16, Memory: 4 << 20})
		if err != nil {
			require.IsType(t, &jinja.Error{}, err)
		}
	})
}

func FuzzJSONKeepsItsShape(f *testing.F) {
	f.Add([]byte(`{"b":1,"a":[1.5,true,null,"é\u0001"],"c":123456789012345678901234567890}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := jinja.FromJSON(raw, nil)
		if err != nil {
			return
		}
		text, err := render("{{ v|tojson }}", map[string]any{"v": v}, jinja.Limits{})
		require.NoError(t, err)
		if !strings.Contains(text, "Infinity") {
			require.True(t, json.Valid([]byte(text)), text)
		}
	})
}
