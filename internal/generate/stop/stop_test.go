package stop_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/generate/stop"
)

const family = "🌍👩‍👩‍👧é漢字"

// run pushes pieces until the end of the answer and checks what must hold for each piece shown.
func run(t *testing.T, stops []string, pieces ...[]byte) (shown []string, which string) {
	t.Helper()
	m := stop.NewMatcher(stops)
	for _, piece := range pieces {
		text, stopped := m.Push(piece)
		require.True(t, utf8.ValidString(text), "piece %q", text)
		shown = append(shown, text)
		if stopped {
			again, still := m.Push([]byte("more"))
			require.Empty(t, again)
			require.True(t, still)
			require.Empty(t, m.Flush())
			return shown, m.Which()
		}
	}
	last := m.Flush()
	require.True(t, utf8.ValidString(last))
	return append(shown, last), m.Which()
}

// tokens cuts s at each | .
func tokens(s string) (pieces [][]byte) {
	for piece := range strings.SplitSeq(s, "|") {
		pieces = append(pieces, []byte(piece))
	}
	return pieces
}

func TestEverySplitIntoThreeGivesTheSameText(t *testing.T) {
	b := []byte(family)
	for i := range len(b) + 1 {
		for j := i; j <= len(b); j++ {
			shown, _ := run(t, nil, b[:i], b[i:j], b[j:])
			require.Equal(t, family, strings.Join(shown, ""), "cut at %d and %d", i, j)
		}
	}
}

func TestByteByByteShowsEachCharacterWithItsLastByte(t *testing.T) {
	shown, _ := run(t, nil, slices.Collect(slices.Chunk([]byte(family), 1))...)
	assert.Equal(t, family, strings.Join(shown, ""))
	whole := slices.DeleteFunc(shown, func(s string) bool { return s == "" })
	assert.Equal(t, strings.Split(family, ""), whole)
}

func TestEverySplitStopsAtTheStopString(t *testing.T) {
	b := []byte("é" + family + "tail")
	for i := range len(b) + 1 {
		for j := i; j <= len(b); j++ {
			shown, which := run(t, []string{"漢字"}, b[:i], b[i:j], b[j:])
			require.Equal(t, "é🌍👩‍👩‍👧é", strings.Join(shown, ""), "cut at %d and %d", i, j)
			require.Equal(t, "漢字", which)
		}
	}
}

func TestMatching(t *testing.T) {
	for name, c := range map[string]struct {
		stops  []string
		pushed string
		shown  []string // one for each push, and what Flush gives if nothing stopped
		which  string
	}{
		"no stop strings":                    {nil, "a|b", []string{"a", "b", ""}, ""},
		"empty stop strings do not count":    {[]string{""}, "a|b", []string{"a", "b", ""}, ""},
		"whole in one token":                 {[]string{"END"}, "aENDb", []string{"a"}, "END"},
		"across tokens":                      {[]string{"END"}, "aE|N|Db", []string{"a", "", ""}, "END"},
		"held back, then not it":             {[]string{"END"}, "aE|N|d", []string{"a", "", "ENd", ""}, ""},
		"held back until the end":            {[]string{"END"}, "aEN", []string{"a", "EN"}, ""},
		"a beginning inside a beginning":     {[]string{"aab"}, "aa|a|b", []string{"", "a", ""}, "aab"},
		"the first to be complete counts":    {[]string{"xabc", "ab"}, "x|a|b|c", []string{"", "", "x"}, "ab"},
		"the longest at one end counts":      {[]string{"b", "ab"}, "xab", []string{"x"}, "ab"},
		"order of stops makes no difference": {[]string{"ab", "b"}, "xab", []string{"x"}, "ab"},
		"a stop inside a failed longer one":  {[]string{"abcd", "bc"}, "ab|c|d", []string{"", "a"}, "bc"},
		"stop as the very first text":        {[]string{"END"}, "END", []string{""}, "END"},
		"characters share their first bytes": {[]string{"漢"}, "a\xe6|\xbc\xa3", []string{"a", "漣", ""}, ""},
		"a line end":                         {[]string{"\n\n"}, "a\n|b\n|\n", []string{"a", "\nb", ""}, "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			shown, which := run(t, c.stops, tokens(c.pushed)...)
			assert.Equal(t, c.shown, shown)
			assert.Equal(t, c.which, which)
		})
	}
}

func TestInvalidBytesBecomeOneReplacementOnlyWhenCertain(t *testing.T) {
	for name, c := range map[string]struct {
		pushed string
		shown  []string
	}{
		"half a character, then a letter":      {"\xf0\x9f|A", []string{"", "\uFFFDA", ""}},
		"half a character at the end":          {"a\xf0\x9f", []string{"a", "\uFFFD"}},
		"a lone continuation byte":             {"a\x80|b", []string{"a\uFFFD", "b", ""}},
		"each impossible byte counts":          {"\xff\xfe", []string{"\uFFFD\uFFFD", ""}},
		"a surrogate":                          {"\xed|\xa0|\x80", []string{"", "\uFFFD\uFFFD", "\uFFFD", ""}},
		"an overlong form":                     {"\xc0|\xaf", []string{"\uFFFD", "\uFFFD", ""}},
		"a half, then another whole character": {"\xe6|\xf0\x9f\x8c\x8d", []string{"", "\uFFFD🌍", ""}},
		"a real U+FFFD":                        {"\xef\xbf|\xbd", []string{"", "\uFFFD", ""}},
		"NUL":                                  {"\x00", []string{"\x00", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			shown, _ := run(t, nil, tokens(c.pushed)...)
			assert.Equal(t, c.shown, shown)
		})
	}
}

// oracle does the same to the whole text at once, the slow and plain way.
func oracle(stops []string, all []byte) (text, which string) {
	text = whole(all)
	for end := 1; end <= len(text); end++ {
		for _, s := range stops {
			if len(s) > len(which) && strings.HasSuffix(text[:end], s) {
				which = s
			}
		}
		if which != "" {
			return text[:end-len(which)], which
		}
	}
	return text, ""
}

// whole decodes as Unicode recommends: for each byte position, the longest run that may begin a character is one U+FFFD.
func whole(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := 1
		for n < len(b) && n < 4 && !utf8.Valid(b[:n]) && begins(b[:n+1]) {
			n++
		}
		if utf8.Valid(b[:n]) {
			out.Write(b[:n])
		} else {
			out.WriteRune(utf8.RuneError)
		}
		b = b[n:]
	}
	return out.String()
}

// begins tries whether any bytes can make a character of b.
func begins(b []byte) bool {
	for _, tail := range []string{"", "\x80", "\xbf", "\x80\x80", "\xbf\xbf", "\x80\x80\x80", "\x90\x80\x80", "\xa0\x80"} {
		if r, size := utf8.DecodeRune(append(slices.Clone(b), tail...)); size == len(b)+len(tail) && (r != utf8.RuneError || size == 3) {
			return true
		}
	}
	return false
}

func FuzzMatcherAgreesWithTheOracle(f *testing.F) {
	f.Add([]byte("xabcabd"), "ab", "bc", "xabc", uint64(5))
	f.Add([]byte(family), "漢字", "é", "\u200d", uint64(0x1234567))
	f.Add([]byte("\xf0\x9f\x8c\xe6\xbc\xff\x80ab"), "\uFFFD", "b", "", uint64(77))
	f.Add([]byte("aaaaaaab"), "aaab", "aab", "ab", uint64(1))
	f.Fuzz(func(t *testing.T, all []byte, a, b, c string, cuts uint64) {
		var stops []string
		for _, s := range []string{a, b, c} {
			if utf8.ValidString(s) && s != "" {
				stops = append(stops, s)
			}
		}
		var pieces [][]byte
		for rest := all; len(rest) > 0; cuts = cuts*6364136223846793005 + 1442695040888963407 {
			n := min(len(rest), int(cuts>>61))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		text, which := oracle(stops, all)
		shown, got := run(t, stops, pieces...)
		assert.Equal(t, text, strings.Join(shown, ""))
		assert.Equal(t, which, got)
	})
}

func BenchmarkPush(b *testing.B) {
	m := stop.NewMatcher([]string{"</s>", "\nUser:", "###"})
	token := []byte(" token")
	for b.Loop() {
		m.Push(token)
	}
}
