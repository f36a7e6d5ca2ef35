package xgrammar_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/testenv"
	"signalbox/internal/xgrammar"
)

const end = 0

func load(t testing.TB) *xgrammar.Library {
	t.Helper()
	lib, err := xgrammar.Load(testenv.Runtime(t))
	require.NoError(t, err)
	return lib
}

// bytewise is a vocabulary of the 256 bytes behind an end token, with words behind them.
func bytewise(t testing.TB, words ...string) *xgrammar.Tokenizer {
	t.Helper()
	tokens := [][]byte{nil}
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	for _, w := range words {
		tokens = append(tokens, []byte(w))
	}
	tokenizer, err := load(t).NewTokenizer(xgrammar.Vocabulary{Tokens: tokens, Size: 300, Stops: []int32{end}})
	require.NoError(t, err)
	t.Cleanup(tokenizer.Close)
	return tokenizer
}

func compiler(t testing.TB, words ...string) *xgrammar.Compiler {
	t.Helper()
	c, err := bytewise(t, words...).NewCompiler(xgrammar.CompilerOptions{CacheBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// begin turns what a Compiler method returns into a matcher.
func begin(t testing.TB, g *xgrammar.Grammar, err error) *xgrammar.Matcher {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(g.Close)
	m, err := g.NewMatcher()
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

// accepts tells whether text is a whole answer.
func accepts(t testing.TB, m *xgrammar.Matcher, text string) bool {
	t.Helper()
	ok, err := m.AcceptBytes([]byte(text))
	require.NoError(t, err)
	return ok && m.Completed()
}

func allowed(mask []int32, id int) bool { return mask[id/32]>>(id%32)&1 == 1 }

func TestKindsOfGrammars(t *testing.T) {
	c := compiler(t)
	object := func() (*xgrammar.Grammar, error) {
		return c.JSONSchema(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, xgrammar.JSONFormat{})
	}
	compact := func() (*xgrammar.Grammar, error) {
		return c.JSONSchema(`{"type":"array","items":{"type":"integer"}}`, xgrammar.JSONFormat{Compact: true})
	}
	bounded := func() (*xgrammar.Grammar, error) {
		return c.JSONSchema(`{"type":"array","items":{"type":"integer"}}`, xgrammar.JSONFormat{Whitespace: 2})
	}
	regex := func() (*xgrammar.Grammar, error) { return c.Regex(`[a-c]{2,3}é?`) }
	ebnf := func() (*xgrammar.Grammar, error) { return c.EBNF("start ::= \"yes\" | \"no\"\nroot ::= start", "root") }
	tags := func() (*xgrammar.Grammar, error) {
		return c.StructuralTag(`{"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<call"],"tags":[` +
			`{"type":"tag","begin":"<call>","content":{"type":"json_schema","json_schema":{"type":"integer"}},"end":"</call>"}]}}`)
	}
	for _, row := range []struct {
		name string
		make func() (*xgrammar.Grammar, error)
		text string
		want bool
	}{
		{"schema", object, `{"n": 12}`, true}, {"schema", object, `{"n":"x"}`, false}, {"schema", object, `{"n":1,"m":2}`, false},
		{"compact", compact, `[1,2]`, true}, {"compact", compact, `[1, 2]`, false},
		{"bounded", bounded, `[  1,2]`, true}, {"bounded", bounded, `[   1,2]`, false},
		{"any JSON", c.AnyJSON, `{"a":[true,null,1.5e3,"é\u0041"]}`, true}, {"any JSON", c.AnyJSON, `{"a":tru}`, false},
		{"regex", regex, "abc", true}, {"regex", regex, "abé", true}, {"regex", regex, "a", false},
		{"EBNF", ebnf, "yes", true}, {"EBNF", ebnf, "maybe", false},
		{"tags", tags, "free text", true}, {"tags", tags, "so <call>12</call> then", true}, {"tags", tags, "so <call>x", false},
	} {
		g, err := row.make()
		m := begin(t, g, err)
		assert.Equal(t, row.want, accepts(t, m, row.text), "%s: %s", row.name, row.text)
	}
}

func TestMaskAllowsExactlyWhatIsAccepted(t *testing.T) {
	c := compiler(t, `{"n`, `": `, "12")
	g, err := c.JSONSchema(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, xgrammar.JSONFormat{})
	m := begin(t, g, err)
	mask := make([]int32, bytewise(t).MaskWords())
	for range 3 {
		constrains, err := m.FillMask(mask)
		require.NoError(t, err)
		assert.True(t, constrains)
		taken := -1
		for id := range 300 {
			fork, err := m.Fork()
			require.NoError(t, err)
			ok, err := fork.Accept(int32(id))
			require.NoError(t, err)
			fork.Close()
			assert.Equal(t, ok, allowed(mask, id), "token %d", id)
			if ok {
				taken = id
			}
		}
		ok, err := m.Accept(int32(taken))
		require.NoError(t, err)
		assert.True(t, ok)
	}
}

func TestAnswerEndsWithAnEndToken(t *testing.T) {
	g, err := compiler(t).Regex("ab?")
	m := begin(t, g, err)
	require.True(t, accepts(t, m, "a"))
	assert.False(t, m.Terminated())
	ok, err := m.Accept(end)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.True(t, m.Terminated())
	require.NoError(t, m.Reset())
	assert.False(t, m.Terminated())
	ok, err = m.Accept(end)
	require.NoError(t, err)
	assert.False(t, ok, "nothing was said yet")
}

func TestRollbackTakesTokensBack(t *testing.T) {
	g, err := compiler(t, "ab").Regex("abab|abc")
	m := begin(t, g, err)
	const ab, c = 257, 'c' + 1
	for _, id := range []int32{ab, ab} {
		ok, err := m.Accept(id)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.NoError(t, m.Rollback(1))
	ok, err := m.Accept(c)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Error(t, m.Rollback(100))
}

func TestJumpForwardIsWhatMustCome(t *testing.T) {
	g, err := compiler(t).JSONSchema(`{"type":"object","properties":{"a long name of a property":{"type":"integer"}},"required":["a long name of a property"]}`,
		xgrammar.JSONFormat{Compact: true})
	m := begin(t, g, err)
	text, err := m.JumpForward()
	require.NoError(t, err)
	assert.Equal(t, `{"a long name of a property":`, text)
	require.True(t, func() bool { ok, err := m.AcceptBytes([]byte(text)); return ok && err == nil }())
	text, err = m.JumpForward()
	require.NoError(t, err)
	assert.Empty(t, text)
}

func TestErrorsSayWhatTheLibrarySays(t *testing.T) {
	c := compiler(t)
	for _, row := range []struct {
		name string
		make func() (*xgrammar.Grammar, error)
		want string
	}{
		{"no JSON", func() (*xgrammar.Grammar, error) { return c.JSONSchema(`{"type":`, xgrammar.JSONFormat{}) }, "compile a JSON schema: "},
		{"a wrong type", func() (*xgrammar.Grammar, error) { return c.JSONSchema(`{"type":"thing"}`, xgrammar.JSONFormat{}) }, `Unsupported type "thing"`},
		{"a circle", func() (*xgrammar.Grammar, error) { return c.JSONSchema(`{"$ref":"#"}`, xgrammar.JSONFormat{}) }, "Circular $ref"},
		{"a group", func() (*xgrammar.Grammar, error) { return c.Regex(`(a`) }, "compile a regular expression: "},
		{"a back reference", func() (*xgrammar.Grammar, error) { return c.Regex(`(a)\1`) }, "Backreference"},
		{"no root", func() (*xgrammar.Grammar, error) { return c.EBNF(`x ::= "a"`, "root") }, "compile a grammar: "},
		{"no tag", func() (*xgrammar.Grammar, error) { return c.StructuralTag(`{"type":"structural_tag"}`) }, "compile a structural tag: "},
		{"NUL", func() (*xgrammar.Grammar, error) { return c.Regex("a\x00b") }, "NUL"},
	} {
		_, err := row.make()
		if assert.Error(t, err, row.name) {
			assert.Contains(t, err.Error(), row.want, row.name)
			assert.NotContains(t, err.Error(), ".cc:", row.name)
		}
	}
}

func TestMissingLibrariesAreNamed(t *testing.T) {
	dir := t.TempDir()
	_, err := xgrammar.Load(dir)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "tvm_ffi")
	assert.Contains(t, err.Error(), dir)

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "tvm_ffi", "lib"), 0o700))
	name := map[bool]string{true: "tvm_ffi.dll", false: "libtvm_ffi.so"}[runtime.GOOS == "windows"]
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tvm_ffi", "lib", name), 0o700), "not a library")
	_, err = xgrammar.Load(dir)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "open ")
}

func TestVocabulariesThatCannotEndAreRefused(t *testing.T) {
	lib := load(t)
	for _, v := range []xgrammar.Vocabulary{{}, {Tokens: [][]byte{[]byte("a")}}, {Tokens: [][]byte{[]byte("a")}, Stops: []int32{1}}, {Tokens: [][]byte{[]byte("a")}, Stops: []int32{-1}}} {
		_, err := lib.NewTokenizer(v)
		assert.Error(t, err)
	}
}

func TestObjectsAreClosedTwiceAndInAnyOrder(t *testing.T) {
	tokenizer := bytewise(t)
	c, err := tokenizer.NewCompiler(xgrammar.CompilerOptions{})
	require.NoError(t, err)
	tokenizer.Close()
	tokenizer.Close()
	g, err := c.Regex("ab")
	require.NoError(t, err)
	c.Close()
	c.Close()
	m, err := g.NewMatcher()
	require.NoError(t, err)
	g.Close()
	g.Close()
	assert.True(t, accepts(t, m, "ab"))
	m.Close()
	m.Close()

	_, err = tokenizer.NewCompiler(xgrammar.CompilerOptions{})
	assert.ErrorIs(t, err, xgrammar.ErrClosed)
	_, err = c.AnyJSON()
	assert.ErrorIs(t, err, xgrammar.ErrClosed)
	_, err = g.NewMatcher()
	assert.ErrorIs(t, err, xgrammar.ErrClosed)
	_, err = m.Accept(1)
	assert.ErrorIs(t, err, xgrammar.ErrClosed)
	_, err = m.FillMask(make([]int32, 10))
	assert.ErrorIs(t, err, xgrammar.ErrClosed)
	assert.False(t, m.Completed())
}

func TestMaskOfAnotherLengthIsRefused(t *testing.T) {
	g, err := compiler(t).AnyJSON()
	m := begin(t, g, err)
	_, err = m.FillMask(make([]int32, 3))
	assert.Error(t, err)
	_, err = m.FillMask(nil)
	assert.Error(t, err)
	ok, err := m.Accept(5000)
	require.NoError(t, err)
	assert.False(t, ok)
}

func TestManyGoroutines(t *testing.T) {
	c := compiler(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 10 {
				n := i*10 + j
				g, err := c.JSONSchema(fmt.Sprintf(`{"enum":["value %d","other"]}`, n), xgrammar.JSONFormat{})
				if !assert.NoError(t, err) {
					return
				}
				m, err := g.NewMatcher()
				assert.NoError(t, err)
				assert.True(t, accepts(t, m, fmt.Sprintf(`"value %d"`, n)))
				_, err = c.Regex("(")
				_, isLibrary := errors.AsType[*xgrammar.Error](err)
				assert.True(t, isLibrary)
				m.Close()
				g.Close()
			}
		})
	}
	all.Wait()
}

// TestObjectsAreReleased would need gigabytes otherwise: each grammar takes more than 10 kB.
func TestObjectsAreReleased(t *testing.T) {
	tokenizer := bytewise(t)
	c, err := tokenizer.NewCompiler(xgrammar.CompilerOptions{})
	require.NoError(t, err)
	defer c.Close()
	round := func() {
		for range 300 {
			g, err := c.JSONSchema(`{"type":"object","properties":{"a":{"type":"string"},"b":{}}}`, xgrammar.JSONFormat{})
			require.NoError(t, err)
			m, err := g.NewMatcher()
			require.NoError(t, err)
			_, err = m.JumpForward()
			require.NoError(t, err)
			_, err = c.Regex("(")
			require.Error(t, err)
			m.Close()
			g.Close()
		}
	}
	round()
	before := resident(t)
	for range 5 {
		round()
	}
	assert.Less(t, resident(t)-before, int64(30<<20))
}

func resident(t testing.TB) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // another system: the test says nothing there
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kilobytes int64
	_, err = fmt.Sscan(rest, &kilobytes)
	require.NoError(t, err)
	return kilobytes << 10
}

func TestCacheIsBounded(t *testing.T) {
	c := compiler(t)
	for i := range 400 {
		g, err := c.JSONSchema(fmt.Sprintf(`{"type":"object","properties":{"p%d":{"type":"string"}}}`, i), xgrammar.JSONFormat{})
		require.NoError(t, err)
		g.Close()
	}
	size, err := c.CacheBytes()
	require.NoError(t, err)
	assert.Positive(t, size)
	assert.Less(t, size, int64(2<<20))
}
