package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"signalbox/backend/llm"
	"signalbox/backend/schema"
)

// FuzzCheck: whatever is asked for, the answer is nil or a refusal in words, and soon.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"type":"structural_tag","format":{"type":"tag","begin":"<a>","content":{"type":"json_schema","json_schema":{"type":"object"}},"end":"</a>"}}`,
		`{"format":{"type":"repeat","max":5,"content":{"type":"regex","pattern":"a{1,9}"}}}`, `{"type":"array","items":{"$ref":"#"}}`,
		`(?=a)b`, `^(a|b){2,1000}$`, `[[:alpha:]]\p{L}`, `root ::= "a"{1,999} | "b"*`, `{"type":"json_schema"}`, `[[[`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4000 {
			t.Skip()
		}
		for name, want := range map[string]*llm.Constraint{
			"a schema": {Schema: json.RawMessage(text)}, "a structural tag": {Structural: json.RawMessage(text)}, "a regex": {Regex: text}, "a grammar": {EBNF: text},
		} {
			if err := schema.Check(want); err != nil {
				assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), "%s: %v", name, err)
			}
		}
	})
}

// FuzzValidate: what Normal takes, Validate can read, and no answer makes it fail otherwise than in words.
func FuzzValidate(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"a":1}`}, {`{"enum":[1,"a"]}`, `1e999999999`},
		{`true`, `{"a":`}, {`{"type":"string","pattern":"^a+$"}`, `"aaa"`}, {`{"$ref":"#/$defs/a","$defs":{"a":{"type":"null"}}}`, `null`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, raw, answer string) {
		if len(raw)+len(answer) > 4000 {
			t.Skip()
		}
		if _, err := schema.Normal([]byte(raw)); err != nil {
			return
		}
		err := schema.Validate([]byte(raw), answer)
		if err != nil {
			assert.NotContains(t, err.Error(), "read the JSON schema", "%s was taken", raw)
		}
	})
}
