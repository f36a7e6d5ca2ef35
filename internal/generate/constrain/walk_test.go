package constrain_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/schema"
	"signalbox/internal/generate/constrain"
)

// walk writes an answer at random, with a preference for what brings it to an end. It returns false when that takes too long.
func walk(t *testing.T, m *constrain.Matcher, r *rand.Rand) (string, bool) {
	var text []byte
	for range 600 {
		mask, err := m.Mask()
		require.NoError(t, err, "after %s", text)
		if m.Done() {
			return string(text), true
		}
		id := pick(mask, r)
		require.NoError(t, m.Accept(id), "after %s", text)
		if id == end {
			return string(text), true
		}
		text = append(text, byte(id-2))
	}
	return string(text), false
}

func pick(mask []int32, r *rand.Rand) int32 {
	allowed := func(id int32) bool { return mask == nil || mask[id/32]>>(id%32)&1 == 1 }
	for _, id := range []int32{end, token('"'), token('}'), token(']')} {
		if allowed(id) && r.IntN(3) == 0 {
			return id
		}
	}
	for range 40 { // plain letters rather than the first half of another script's
		if id := token(byte(' ' + r.IntN(95))); allowed(id) {
			return id
		}
	}
	for {
		if id := int32(r.IntN(258)); allowed(id) && id != 1 {
			return id
		}
	}
}

// TestWhatTheGrammarLetsThroughIsValid is the promise of package schema, tried on random answers.
func TestWhatTheGrammarLetsThroughIsValid(t *testing.T) {
	c := newCompiler(t, constrain.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	for _, text := range walked(t) {
		if _, err := schema.Normal(json.RawMessage(text)); err != nil {
			continue // TestSuite and the tests of package schema look at these
		}
		finished := 0
		for range 40 {
			m := compile(t, c, schemaOf(text))
			answer, whole := walk(t, m, r)
			m.Close()
			if !whole {
				continue
			}
			finished++
			err := schema.Validate(json.RawMessage(text), answer)
			if err != nil && strings.Contains(err.Error(), "too large") {
				continue // 1e99999 is a number, though one that few programs read
			}
			if !assert.NoError(t, err, "%s lets %s through", text, answer) {
				break
			}
		}
		assert.Positive(t, finished, "no answer to %s came to an end", text)
	}
}

func walked(t *testing.T) []string {
	raw, err := os.ReadFile("testdata/schemas.json")
	require.NoError(t, err)
	var own []json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &own))
	var all []string
	for _, s := range own {
		all = append(all, string(s))
	}
	for _, groups := range suite(t) {
		for _, g := range groups {
			all = append(all, string(g.Schema))
		}
	}
	return all
}

func TestAnyJSONIsAnObject(t *testing.T) {
	c := newCompiler(t, constrain.Options{})
	for range 20 {
		answer, whole := walk(t, compile(t, c, &llm.Constraint{JSON: true}), rand.New(rand.NewPCG(3, 4)))
		if whole {
			assert.True(t, json.Valid([]byte(answer)), answer)
			assert.Equal(t, byte('{'), answer[0])
		}
	}
}
