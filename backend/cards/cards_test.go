package cards_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/cards"
	"signalbox/backend/llm"
)

var (
	npu   = llm.Device{Class: llm.NPU, Runtime: "NPU", Name: "AI Boost"}
	basis = cards.Basis{Digest: "sha256:1", Driver: "1.2", Runtime: "openvino/2026.4.1"}
)

func TestCardsOutliveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cards.json")
	s, notice := cards.Open(path, nil)
	require.Empty(t, notice)
	s.Update("m", npu, basis, func(c *cards.Card) { c.Loads, c.Prefill, c.Quarantined = true, 100, "it crashed" })
	s.See([]llm.Device{npu}, time.Now())
	require.NoError(t, s.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Perm()&0o077)

	s, notice = cards.Open(path, nil)
	require.Empty(t, notice)
	c, ok := s.Get("m", "npu:0", basis)
	require.True(t, ok)
	assert.Equal(t, 100.0, c.Prefill)
	assert.Equal(t, "it crashed", c.Quarantined)
	require.Len(t, s.Seen(), 1)
	require.NoError(t, s.Close())
}

func TestAnotherBasisBeginsANewCard(t *testing.T) {
	for name, other := range map[string]cards.Basis{
		"driver":  {Digest: basis.Digest, Driver: "1.3", Runtime: basis.Runtime},
		"runtime": {Digest: basis.Digest, Driver: basis.Driver, Runtime: "openvino/2027.0"},
		"files":   {Digest: "sha256:2", Driver: basis.Driver, Runtime: basis.Runtime},
	} {
		s, _ := cards.Open(filepath.Join(t.TempDir(), "cards.json"), nil)
		s.Update("m", npu, basis, func(c *cards.Card) { c.Verdict, c.Quarantined = cards.Wrong, "it crashed" })
		_, ok := s.Get("m", "npu:0", other)
		assert.False(t, ok, name)
		s.Update("m", npu, other, func(c *cards.Card) { c.Loads = true })
		c, ok := s.Get("m", "npu:0", other)
		assert.True(t, ok, name)
		assert.Empty(t, c.Quarantined, "%s: what another one did says nothing", name)
		assert.Empty(t, c.Verdict, name)
		require.NoError(t, s.Close())
	}
}

func TestADamagedFileIsPutAside(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"version":99}`, "\x00\x00"} {
		path := filepath.Join(t.TempDir(), "cards.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		s, notice := cards.Open(path, nil)
		assert.Contains(t, notice, "put aside", text)
		assert.Empty(t, s.Cards())
		aside, err := os.ReadFile(path + ".damaged")
		require.NoError(t, err)
		assert.Equal(t, text, string(aside))
		s.Update("m", npu, basis, func(c *cards.Card) { c.Loads = true })
		require.NoError(t, s.Close())
	}
}

func TestAFileThatCannotBeWrittenCostsNothingElse(t *testing.T) {
	var told error
	s, _ := cards.Open(filepath.Join(t.TempDir(), "missing", "cards.json"), func(err error) { told = err })
	s.Update("m", npu, basis, func(c *cards.Card) { c.Loads = true })
	assert.Error(t, s.Close())
	assert.ErrorIs(t, told, os.ErrNotExist)
	assert.True(t, errors.Is(told, os.ErrNotExist))
	_, ok := s.Get("m", "npu:0", basis)
	assert.True(t, ok)
	s.Update("m", npu, basis, func(c *cards.Card) { c.Prefill = math.NaN() })
	c, _ := s.Get("m", "npu:0", basis)
	assert.Zero(t, c.Prefill, "what is no number is not taken")
}

func TestAnswersAreJudged(t *testing.T) {
	mark := func(said ...string) (list []cards.Answer) {
		for i, text := range said {
			list = append(list, cards.Questions[i].Mark(text))
		}
		return list
	}
	good := mark("Oslo.", "4", "Earth")
	for name, c := range map[string]struct {
		said, reference []cards.Answer
		want            cards.Verdict
	}{
		"right":                              {mark("The capital of Norway is Oslo.", "2+2 = 4.", "We live on Earth!"), nil, cards.Right},
		"word salad":                         {mark("cohclclcl", "clhcl cohcl", "lclcohcl"), nil, cards.Wrong}, // field report 3
		"word salad among good answers":      {mark("cohclclcl", "4", "Earth"), good, cards.Wrong},
		"a loop of the cpu proves nothing":   {mark("the the the the the the the", "4", "Earth"), nil, cards.Right},
		"the same loop on both":              {mark("the the the the the the the", "4", "x"), mark("the the the the the the the", "4", "x"), cards.Right},
		"one flip of several":                {mark("Oslo", "5", "Earth"), good, cards.Right},
		"nothing of what the cpu knows":      {mark("Paris is it.", "5", "Mars"), good, cards.Wrong},
		"nothing at all":                     {mark("", "4", "Earth"), good, cards.Wrong},
		"always the same":                    {mark("the the the the the the the", "4", "Earth"), good, cards.Wrong},
		"broken characters":                  {mark("O\ufffdlo", "4", "Earth"), good, cards.Wrong},
		"wrong where the cpu is right":       {mark("Paris is the capital.", "4", "Mars"), mark("Oslo", "5", "Mars"), cards.Wrong}, // field report 2
		"wrong where the cpu is wrong":       {mark("Paris", "4", "Earth"), mark("Paris", "4", "Earth"), cards.Right},
		"a model that knows nothing":         {mark("I am a model.", "Let us see.", "Mars"), mark("No idea.", "Five", "Mars"), cards.Unsure},
		"nothing known without a comparison": {mark("I am a model.", "Let us see.", "Mars"), nil, cards.Unsure},
		"other alphabets are language":       {mark("奥斯陆", "四", "地球"), nil, cards.Unsure},
		"14 is not 4":                        {mark("Bergen", "14", "Mars"), mark("Oslo", "4", "Mars"), cards.Wrong},
	} {
		assert.Equal(t, c.want, cards.Judge(c.said, c.reference), name)
	}
}

func TestWronglySaysWhat(t *testing.T) {
	c := cards.Card{Verdict: cards.Wrong, Answers: []cards.Answer{cards.Questions[0].Mark("Oslo"), cards.Questions[2].Mark("Mars")}}
	assert.Equal(t, "asked “Which planet do people live on? Answer with its name.” it said “Mars”", c.Wrongly())
	c.Verdict = cards.Right
	assert.Empty(t, c.Wrongly())
}

func TestHowLongAModelTookToCompileIsKnownWithAnotherDriver(t *testing.T) {
	s, _ := cards.Open(filepath.Join(t.TempDir(), "cards.json"), nil)
	assert.Zero(t, s.Compiling("m", npu))
	s.Update("m", npu, basis, func(c *cards.Card) { c.Compile = 42 * time.Second })
	updated := basis
	updated.Driver = "1.3"
	s.Update("m", npu, updated, func(c *cards.Card) { c.Loads = true })
	assert.Equal(t, 42*time.Second, s.Compiling("m", npu))
	emulated := npu
	emulated.Emulated = true
	assert.Zero(t, s.Compiling("m", emulated), "a CPU that stands in for it is another matter")
	require.NoError(t, s.Close())
}
