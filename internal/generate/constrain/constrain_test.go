package constrain_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/generate/constrain"
	"signalbox/internal/testenv"
)

const tags = `{"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<call>"],"tags":[{"type":"tag","begin":"<call>",` +
	`"content":{"type":"json_schema","json_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},"end":"</call>"}]}}`

func TestAnswersOfEachKind(t *testing.T) {
	c := newCompiler(t, constrain.Options{Whitespace: 2})
	structural := &llm.Constraint{Structural: json.RawMessage(tags)}
	for _, row := range []struct {
		want *llm.Constraint
		text string
		ok   bool
	}{
		{&llm.Constraint{JSON: true}, `{"a":[1,"x",null]}`, true},
		{&llm.Constraint{JSON: true}, `[1]`, false},
		{&llm.Constraint{JSON: true}, "{\n\n\n}", false},
		{schemaOf(`{"type":"integer"}`), `12`, true},
		{schemaOf(`{"type":"string","maxLength":3}`), "\"a\tb\"", false}, // a control character, which JSON does not have
		{schemaOf(`{"type":"string","maxLength":3}`), "\"aéb\"", true},
		{schemaOf(`{"type":"string","pattern":"foo|^bar$|baz$"}`), `"a foo b"`, true},
		{schemaOf(`{"type":"string","pattern":"foo|^bar$|baz$"}`), `"bar"`, true},
		{schemaOf(`{"type":"string","pattern":"foo|^bar$|baz$"}`), `"bars"`, false},
		{schemaOf(`{"type":"string","pattern":"foo|^bar$|baz$"}`), `"a baz"`, true},
		{&llm.Constraint{Regex: `^(yes|no)\t?"?$`}, "yes\t\"", true},
		{&llm.Constraint{Regex: `yes|no`}, "maybe", false},
		{&llm.Constraint{EBNF: "root ::= \"a\"{2,3}"}, "aaa", true},
		{&llm.Constraint{EBNF: "root ::= \"a\"{2,3}"}, "a", false},
		{structural, "No call,\tjust text.", true},
		{structural, `So: <call>{"city": "Rome"}</call> and <call>{"city":"Bonn"}</call>.`, true},
		{structural, `So: <call>{"town":`, false},
		{structural, `So: <call>{"city":"Rome"`, false},
	} {
		assert.Equal(t, row.ok, accepts(t, compile(t, c, row.want), row.text), "%+v: %s", row.want, row.text)
	}
}

func TestAnswerIsDoneWhenOnlyTheEndMayCome(t *testing.T) {
	c := newCompiler(t, constrain.Options{})
	m := compile(t, c, schemaOf(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`))
	ok, _ := write(t, m, `{"a":1}`)
	require.True(t, ok)
	assert.False(t, m.Done())
	_, err := m.Mask()
	require.NoError(t, err)
	assert.True(t, m.Done())

	m = compile(t, c, schemaOf(`{"type":"integer"}`))
	ok, _ = write(t, m, `1`)
	require.True(t, ok)
	require.True(t, allows(t, m, end))
	assert.False(t, m.Done(), "more digits may come")
	require.NoError(t, m.Accept(end))
	assert.True(t, m.Done())
}

func TestTokenThatIsNotAllowedIsAnError(t *testing.T) {
	m := compile(t, newCompiler(t, constrain.Options{}), schemaOf(`{"type":"integer"}`))
	assert.Error(t, m.Accept(token('x')))
	assert.Error(t, m.Accept(end))
	m.Close()
	m.Close()
	_, err := m.Mask()
	assert.Error(t, err)
}

func TestFreePartEndsWithAfter(t *testing.T) {
	c := newCompiler(t, constrain.Options{})
	want := schemaOf(`{"type":"object","properties":{},"additionalProperties":false}`)
	want.After = "</think>"
	m := compile(t, c, want)
	ok, at := write(t, m, "Let me see: {\"a\": 1} <think> </thi</think>")
	require.True(t, ok, at)
	assert.True(t, allows(t, m, token('\n')), "one token of blanks")
	assert.False(t, allows(t, m, token('x')))
	assert.False(t, allows(t, m, end))
	require.NoError(t, m.Accept(token('\n')))
	assert.False(t, allows(t, m, token('\n')), "but only one")
	assert.True(t, accepts(t, m, "{}"))

	m = compile(t, c, want)
	assert.False(t, allows(t, m, end), "an answer without its constrained part is none")
	ok, _ = write(t, m, "</think>")
	require.True(t, ok)
	for range 3 {
		require.NoError(t, m.Accept(token('\n')), "what is forced is taken")
	}
	assert.True(t, accepts(t, m, "{}"))
}

// words is a vocabulary with longer tokens and special ones.
func words(t *testing.T) *constrain.Compiler {
	v := bytewise()
	v.Names[1] = []byte("</think>")
	for _, w := range []string{"</think>\n\n", `k>{"`, "<call>", "</call>", "<end of turn>"} {
		v.Names = append(v.Names, []byte(w))
		v.Text = append(v.Text, []byte(w))
	}
	v.Text[260], v.Text[261], v.Text[262] = nil, nil, nil
	v.Ends = []int32{end, 262}
	c := constrain.New(testenv.Runtime(t), v, constrain.Options{})
	t.Cleanup(c.Close)
	return c
}

func TestAfterMayBeSpecialOrEndInsideAToken(t *testing.T) {
	want := schemaOf(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)
	want.After = "</think>"
	for name, begin := range map[string]func(m *constrain.Matcher) string{
		"special": func(m *constrain.Matcher) string { require.NoError(t, m.Accept(1)); return `{"a":1}` },
		"blanks":  func(m *constrain.Matcher) string { require.NoError(t, m.Accept(258)); return `{"a":1}` },
		"beginning": func(m *constrain.Matcher) string {
			write(t, m, "</thin")
			require.NoError(t, m.Accept(259))
			return `a":1}`
		},
	} {
		m := compile(t, words(t), want)
		rest := begin(m)
		ok, at := write(t, m, rest)
		assert.True(t, ok, "%s: %d", name, at)
	}
}

func TestMarkersAreText(t *testing.T) {
	c := words(t)
	want := &llm.Constraint{Structural: json.RawMessage(tags)}
	free := compile(t, c, want)
	assert.False(t, allows(t, free, 260))
	assert.False(t, allows(t, free, 261))

	m := compile(t, c, want, "<call>", "</call>", "<end of turn>")
	assert.True(t, allows(t, m, 260))
	require.NoError(t, m.Accept(260))
	assert.False(t, allows(t, m, token('x')), "it is in the call")
	ok, at := write(t, m, `{"city":"Rome"}`)
	require.True(t, ok, at)
	assert.True(t, allows(t, m, 261))
	require.NoError(t, m.Accept(261))
	assert.True(t, allows(t, m, end))
	assert.True(t, allows(t, m, 262))
	require.NoError(t, m.Accept(262))
	assert.False(t, m.Done(), "a marker ends nothing")
}

func TestWhatCannotBeEnforcedIsInvalid(t *testing.T) {
	c := newCompiler(t, constrain.Options{})
	for name, row := range map[string]struct {
		want *llm.Constraint
		says string
	}{
		"nothing":           {&llm.Constraint{}, "asks for nothing"},
		"nil":               {nil, "no constraint"},
		"schema":            {schemaOf(`{"type":"object","properties":{"a":{"not":{"pattern":"a"}}}}`), `"not" at #/properties/a`},
		"regex":             {&llm.Constraint{Regex: `a(?!b)`}, "regular expression"},
		"long regex":        {&llm.Constraint{Regex: `(ab|cd){0,300}(c|d){500}`}, "more than 1000"},
		"EBNF":              {&llm.Constraint{EBNF: `root ::= missing`}, "the grammar cannot be used"},
		"long EBNF":         {&llm.Constraint{EBNF: `root ::= "` + strings.Repeat("a", 70000) + `"`}, "70011 bytes"},
		"repeated EBNF":     {&llm.Constraint{EBNF: `root ::= "a"{0, 900} "b"{ 200 }`}, "more than 1000"},
		"structural":        {&llm.Constraint{Structural: json.RawMessage(`{"type":"structural_tag"}`)}, "tool calls cannot be used"},
		"structural's":      {&llm.Constraint{Structural: json.RawMessage(strings.ReplaceAll(tags, `"string"`, `"array","uniqueItems":true`))}, "uniqueItems"},
		"structural's deep": {&llm.Constraint{Structural: json.RawMessage(strings.Repeat("[", 500))}, "deep"},
	} {
		_, err := c.Compile(context.Background(), row.want, nil)
		if assert.Error(t, err, name) {
			assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), name)
			assert.Contains(t, err.Error(), row.says, name)
		}
	}
}

func TestCallerThatLeavesDoesNotWait(t *testing.T) {
	c := newCompiler(t, constrain.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 3 {
		m, err := c.Compile(ctx, schemaOf(`{"type":"integer"}`), nil)
		if err == nil {
			m.Close() // it was quicker
			continue
		}
		assert.ErrorIs(t, err, context.Canceled)
	}
	compile(t, c, schemaOf(`{"type":"integer"}`))
}

// slow is a grammar that takes the library some tenths of a second.
func slow() *llm.Constraint {
	var properties []string
	for i := range 60 {
		properties = append(properties, `"property `+strings.Repeat("x", i)+`":{"type":"string"}`)
	}
	return schemaOf(`{"type":"object","properties":{` + strings.Join(properties, ",") + `},"minProperties":2}`)
}

func TestSlowCompileIsAbandonedAndReported(t *testing.T) {
	var reports atomic.Int32
	reported := make(chan error, 1)
	c := newCompiler(t, constrain.Options{Limit: time.Millisecond, Stuck: func(err error) {
		reports.Add(1)
		reported <- err
	}})
	_, err := c.Compile(context.Background(), slow(), nil)
	require.Error(t, err)
	assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
	assert.Contains(t, err.Error(), "takes more than 1ms")
	assert.Equal(t, err, <-reported)

	_, err = c.Compile(context.Background(), schemaOf(`{"type":"integer"}`), nil)
	require.Error(t, err, "the library still works")
	assert.Equal(t, llm.CodeOverloaded, llm.CodeOf(err))
	assert.EqualValues(t, 1, reports.Load())
}

func TestCompilerThatIsClosedSaysSo(t *testing.T) {
	c := newCompiler(t, constrain.Options{})
	m := compile(t, c, schemaOf(`{"type":"integer"}`))
	c.Close()
	c.Close()
	assert.True(t, accepts(t, m, "12"), "matchers go on")
	_, err := c.Compile(context.Background(), schemaOf(`{"type":"integer"}`), nil)
	assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
}

func TestMissingLibraryIsUnavailable(t *testing.T) {
	c := constrain.New(t.TempDir(), bytewise(), constrain.Options{})
	_, err := c.Compile(context.Background(), schemaOf(`{"type":"integer"}`), nil)
	assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
	assert.Contains(t, err.Error(), "doctor")
}

// TestWorstSchemasCompileInTime compiles what is just within the bounds of package schema, on the starter model's vocabulary.
func TestWorstSchemasCompileInTime(t *testing.T) {
	v, err := real()
	require.NoError(t, err)
	c := constrain.New(testenv.Runtime(t), v, constrain.Options{Limit: 5 * time.Minute}) // other tests share this machine
	t.Cleanup(c.Close)
	list := func(n int, format string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = strings.ReplaceAll(format, "#", strconv.Itoa(i))
		}
		return strings.Join(items, ",")
	}
	for name, raw := range map[string]string{
		"properties": `{"type":"object","properties":{` + list(2000, `"property#":{"type":"string"}`) + `}}`,
		"counted":    `{"type":"object","properties":{` + list(88, `"property#":{"type":"string"}`) + `},"minProperties":2}`,
		"choices":    `{"anyOf":[` + list(990, `{"const":"value number #"}`) + `]}`,
		"pattern":    `{"type":"string","pattern":"^[a-z]{0,990}$"}`,
		"repeated":   `{"type":"string","pattern":"^([a-z]{1,20}-){1,20}$"}`,
		"letters":    `{"enum":[` + list(600, `"`+strings.Repeat("x", 98)+`#"`) + `]}`,
		"multiples":  `{"type":"object","properties":{` + list(24, `"m#":{"type":"integer","multipleOf":10#}`) + `}}`,
		"addresses":  `{"type":"object","properties":{` + list(220, `"a#":{"type":"string","format":"ipv6"}`) + `}}`,
		"items":      `{"type":"array","items":{"type":"array","items":{"type":"string","minLength":99999},"minItems":99999},"minItems":99999}`,
		"deep":       strings.Repeat(`{"type":"object","properties":{"a":{"type":"string"},"b":`, 31) + `{}` + strings.Repeat(`},"required":["b"]}`, 31),
	} {
		m, err := c.Compile(context.Background(), schemaOf(raw), nil)
		if assert.NoError(t, err, name) {
			_, err = m.Mask()
			assert.NoError(t, err, name)
			m.Close()
		}
	}
}

// BenchmarkMask fills masks on the starter model's vocabulary, along an answer.
func BenchmarkMask(b *testing.B) {
	v, err := real()
	require.NoError(b, err)
	c := constrain.New(testenv.Runtime(b), v, constrain.Options{})
	defer c.Close()
	m := compile(b, c, schemaOf(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]}`))
	quote := int32(-1)
	for id, text := range v.Text {
		if string(text) == `{"` {
			quote = int32(id)
		}
	}
	_, err = m.Mask()
	require.NoError(b, err)
	require.NoError(b, m.Accept(quote))
	for b.Loop() {
		_, err := m.Mask()
		require.NoError(b, err)
	}
}
