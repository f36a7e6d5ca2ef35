package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/schema"
)

func TestNormalForm(t *testing.T) {
	for _, row := range []struct{ raw, want string }{
		{`{"title":"T","type":"object","properties":{"b":{"type":"integer","description":"d"},"a":{"type":"string"}},"required":["b"]}`,
			`{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["b"],"additionalProperties":false}`},
		{`{"type":"object"}`, `{"type":"object","additionalProperties":{"title":"any"}}`},
		{`{"type":"object","required":["z"]}`, `{"type":"object","properties":{"z":{"title":"any"}},"required":["z"],"additionalProperties":{"title":"any"}}`},
		{`{"type":"object","propertyNames":{"enum":["x"]},"additionalProperties":{"type":"null"}}`,
			`{"type":"object","properties":{"x":{"type":"null"}},"additionalProperties":false}`},
		{`{"minLength":2}`, `{"type":"string","minLength":2}`},
		{`{"minLength":2,"minimum":1}`, `{"anyOf":[{"type":"number","minimum":1},{"type":"string","minLength":2}]}`},
		{`{"type":["integer","number"]}`, `{"type":"number"}`},
		{`{"type":"integer","minimum":0.5,"exclusiveMaximum":4}`, `{"type":"integer","minimum":1,"maximum":3}`},
		{`{"type":"integer","minimum":-1e30}`, `{"type":"integer","minimum":-9007199254740992}`},
		{`{"type":"number","multipleOf":2.0}`, `{"type":"integer","multipleOf":2}`},
		{`{"type":"integer","multipleOf":0.5}`, `{"type":"integer"}`},
		{`{"type":"number","minimum":0.12345678}`, `{"type":"number","minimum":0.123457}`},
		{`{"type":"string","enum":["a",1,"b"]}`, `{"enum":["a","b"]}`},
		{`{"const":"a/b<é>"}`, `{"enum":["a/b<é>"]}`},
		{`{"allOf":[{"type":"integer"},{"minimum":1},{"minimum":3}]}`, `{"type":"integer","minimum":3}`},
		{`{"type":"integer","anyOf":[{"minimum":1},{"maximum":-1}]}`, `{"anyOf":[{"type":"integer","minimum":1},{"type":"integer","maximum":-1}]}`},
		{`{"anyOf":[{"type":"integer"},false]}`, `{"type":"integer"}`},
		{`{"type":"array"}`, `{"type":"array","items":{"title":"any"}}`},
		{`{"type":"array","prefixItems":[{"type":"null"}]}`, `{"type":"array","prefixItems":[{"type":"null"}],"items":false}`},
		{`{"type":"array","items":[{"type":"null"}],"additionalItems":{"type":"integer"}}`, `{"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"integer"}}`},
		{`{"type":"string","pattern":"a.c"}`, `{"type":"string","pattern":"^[^\"\\\\\\x00-\\x1f]*a[^\"\\\\\\x00-\\x1f]c[^\"\\\\\\x00-\\x1f]*$"}`},
		{`{"type":"string","format":"date"}`, `{"type":"string","format":"date"}`},
		{`{"type":"string","format":"made-up","minLength":1}`, `{"type":"string","minLength":1}`},
		{`{"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`,
			`{"$defs":{"d0":{"type":"object","properties":{"n":{"$ref":"#/$defs/d0"}},"additionalProperties":false}},"$ref":"#/$defs/d0"}`},
		{`{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"dependentRequired":{"a":["b"]}}`,
			`{"anyOf":[{"type":"object","properties":{"b":{"type":"null"}},"additionalProperties":false},` +
				`{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"required":["a","b"],"additionalProperties":false}]}`},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"dependencies":{"a":{"properties":{"a":{"minimum":3}}},"b":["a"]}}`,
			`{"anyOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":3}},"required":["a"],"additionalProperties":false},` +
				`{"type":"object","properties":{"a":{"type":"integer","minimum":3},"b":{"title":"any"}},"required":["a","b"],"additionalProperties":false}]}`},
		{`{"type":"object","properties":{"a":{"type":"null"}},"required":["z"]}`,
			`{"type":"object","properties":{"a":{"type":"null"},"z":{"title":"any"}},"required":["z"],"additionalProperties":false}`},
		{`{"enum":["a","bé","ccc","B1",7],"minLength":2,"maxLength":2,"pattern":"^[a-z]"}`, `{"enum":["bé",7]}`},
		{`{"enum":[1,2,3.5,5,"x"],"minimum":2,"exclusiveMaximum":5}`, `{"enum":[2,3.5,"x"]}`},
		{`{"enum":["a","b","c"],"not":{"enum":["b","x"]}}`, `{"enum":["a","c"]}`},
		{`{"type":"string","not":{"const":7}}`, `{"type":"string"}`},
		{`{"type":["boolean","null"],"not":{"const":null}}`, `{"enum":[true,false]}`},
		{`{"not":{"type":["null","number","boolean","array","object"]}}`, `{"type":"string"}`},
		{`{"type":"integer","not":{"minimum":5}}`, `{"type":"integer","maximum":4}`},
		{`{"type":"string","not":{"not":{"minLength":5}}}`, `{"type":"string","minLength":5}`},
		{`{"type":"string","not":{"anyOf":[{"minLength":5},{"maxLength":2}]}}`, `{"type":"string","minLength":3,"maxLength":4}`},
		{`{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"not":{"required":["a","b"]}}`,
			`{"anyOf":[{"type":"object","properties":{"b":{"type":"null"}},"additionalProperties":false},{"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":false}]}`},
		{`{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"anyOf":[{"type":"object","properties":{"a":{"type":"null"}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{"type":"null"}},"required":["b"],"additionalProperties":false}]}`},
		{`{"type":"object","properties":{"k":{"enum":["x","y"]},"v":{}},"required":["k"],"if":{"properties":{"k":{"const":"x"}}},"then":{"properties":{"v":{"type":"integer"}}},"else":{"properties":{"v":{"type":"null"}}}}`,
			`{"anyOf":[{"type":"object","properties":{"k":{"enum":["x"]},"v":{"type":"integer"}},"required":["k"],"additionalProperties":false},` +
				`{"type":"object","properties":{"k":{"enum":["y"]},"v":{"type":"null"}},"required":["k"],"additionalProperties":false}]}`},
		{`{"type":"array","items":{"type":"integer"},"contains":{"minimum":5}}`,
			`{"type":"array","prefixItems":[{"type":"integer","minimum":5}],"items":{"type":"integer"},"minItems":1}`},
		{`{"type":"object","properties":{"a":{"type":"null"}},"dependentSchemas":{"a":false}}`, `{"type":"object","additionalProperties":false}`},
		{`true`, `{"title":"any"}`}, {`{}`, `{"title":"any"}`},
		{`{"uniqueItems":false,"type":"array","items":{"type":"null"}}`, `{"type":"array","items":{"type":"null"}}`},
	} {
		got, err := schema.Normal([]byte(row.raw))
		require.NoError(t, err, row.raw)
		assert.Equal(t, row.want, got, row.raw)
	}
}

func TestWhatCannotBeEnforcedIsNamedWithItsPlace(t *testing.T) {
	at := func(keyword string) string {
		return `{"type":"object","properties":{"a":{"type":"array","items":{` + keyword + `}}}}`
	}
	for keyword, text := range map[string]string{
		"const": `"type":"string","if":{"const":"a"},"then":{}`, "enum": `"type":"string","not":{"enum":["a"]}`,
		"not": `"not":{"pattern":"a"}`, "if": `"if":{"pattern":"a"},"then":{}`, "uniqueItems": `"type":"array","uniqueItems":true`,
		"contains":    `"type":"array","items":false,"contains":{"type":"null"}`,
		"maxContains": `"type":"array","contains":{"type":"null"},"maxContains":2`,
		"multipleOf":  `"type":"number","multipleOf":0.01`, "oneOf": `"oneOf":[{"type":"integer"},{"type":"number"}]`,
		"$ref": `"$ref":"https://example.com/schema"`, "$dynamicRef": `"$dynamicRef":"#x"`,
		"pattern": `"type":"string","pattern":"^(?=x)"`, "patternProperties": `"patternProperties":{"a":{},"b":{}}`,
		"propertyNames": `"properties":{"a":{}},"propertyNames":{"maxLength":3}`, "minItems": `"enum":[[1]],"minItems":3`,
		"minProperties": `"minProperties":1000000`, "unevaluatedProperties": `"allOf":[{"properties":{"a":{}},"unevaluatedProperties":false},{"properties":{"b":{}}}]`,
	} {
		_, err := schema.Normal([]byte(at(text)))
		require.Error(t, err, keyword)
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), keyword)
		assert.Contains(t, err.Error(), `"`+keyword+`" at #/properties/a/items`, keyword)
	}
}

func TestPatternsThatCannotBeEnforced(t *testing.T) {
	for pattern, why := range map[string]string{
		`(a)\\1`: "escape", `\\bword`: "word boundaries", `a^b`: "at the ends", `say \"x\"`: "written differently", `\\\\`: "written differently",
		`(?i)abc`: "either case", `(?m)^a`: "lines", `[\"]`: "written differently", `a{2,1}`: "repeat", `(`: "missing", `[a-z]{1000}b`: "1000",
	} {
		_, err := schema.Normal([]byte(`{"type":"string","pattern":"` + pattern + `"}`))
		if assert.Error(t, err, pattern) {
			assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), pattern)
			assert.Contains(t, err.Error(), why, pattern)
		}
	}
	_, err := schema.Normal([]byte(`{"type":"string","pattern":"^a+$","maxLength":3}`))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "minLength or maxLength")
}

func TestSchemasThatNothingSatisfies(t *testing.T) {
	for _, raw := range []string{
		`false`, `{"allOf":[{"type":"null"},{"type":"string"}]}`, `{"type":"integer","minimum":0.2,"maximum":0.8}`, `{"type":"number","minimum":1,"exclusiveMaximum":1}`,
		`{"type":"string","minLength":3,"maxLength":2}`, `{"type":"object","required":["a"],"additionalProperties":false}`, `{"enum":[1],"type":"string"}`,
		`{"type":"array","items":false,"minItems":1}`, `{"type":"object","maxProperties":0,"required":["a"]}`, `{"type":"object","properties":{"a":false},"required":["a"]}`,
		`{"anyOf":[false,{"enum":["a"],"type":"null"}]}`, `{"type":"integer","multipleOf":7,"minimum":1,"maximum":6}`,
	} {
		_, err := schema.Normal([]byte(raw))
		if assert.Error(t, err, raw) {
			assert.Contains(t, err.Error(), "no value can satisfy the JSON schema", raw)
			assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), raw)
		}
	}
}

func TestSchemasThatAreNone(t *testing.T) {
	for _, raw := range []string{
		``, `nonsense`, `{"type":`, `1`, `"x"`, `[]`, `{} {}`, `{"type":"thing"}`, `{"type":7}`, `{"type":[]}`, `{"properties":[]}`, `{"required":"a"}`, `{"required":[1]}`,
		`{"enum":[]}`, `{"enum":{}}`, `{"anyOf":[]}`, `{"anyOf":{}}`, `{"allOf":[]}`, `{"items":7}`, `{"prefixItems":{}}`, `{"minItems":-1}`, `{"minItems":1.5}`,
		`{"type":"string","minLength":"a"}`, `{"minimum":"a"}`, `{"type":"integer","multipleOf":0}`, `{"pattern":1}`, `{"$ref":1}`, `{"$ref":"#/nowhere"}`, `{"$ref":"#nowhere"}`,
		`{"a":1,"a":2}`, `{"exclusiveMinimum":true,"minimum":3}`, `{"const":"\u0000"}`, `{"const":123456789012345678901234567890}`, `{"uniqueItems":7,"type":"array"}`,
	} {
		_, err := schema.Normal([]byte(raw))
		if assert.Error(t, err, raw) {
			assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), "%s: %v", raw, err)
		}
	}
}

func TestCirclesAreErrors(t *testing.T) {
	for _, raw := range []string{
		`{"$ref":"#"}`, `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, `{"allOf":[{"$ref":"#"}]}`,
		`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, `{"type":"object","anyOf":[{"$ref":"#"},{"required":["a"]}]}`, `{"oneOf":[{"$ref":"#"},{"type":"null"}]}`,
		`{"$defs":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},"type":"array","items":{"$ref":"#/$defs/a"}}`,
		`{"$defs":{"a":{"allOf":[{"properties":{"x":{"$ref":"#/$defs/a"}}},{"properties":{"x":{"$ref":"#/$defs/a","minProperties":1}}}]}},"$ref":"#/$defs/a"}`,
	} {
		_, err := schema.Normal([]byte(raw))
		if assert.Error(t, err, raw) {
			assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), raw)
		}
	}
}

// Bombs: 1,000 nested arrays took the library 88 s.
func TestLargeSchemasAreRefusedAtOnce(t *testing.T) {
	list := func(n int, format string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = strings.ReplaceAll(format, "%d", fmt.Sprint(i))
		}
		return strings.Join(items, ",")
	}
	chain := func(n int) string { // found from the inside out: nothing is deep where it is met first
		var b strings.Builder
		b.WriteString(`"d0":{"type":"integer"}`)
		for i := 1; i < n; i++ {
			fmt.Fprintf(&b, `,"d%d":{"type":"array","items":{"$ref":"#/$defs/d%d"}}`, i, i-1)
		}
		return `{"$defs":{` + b.String() + `},"type":"object","properties":{` + list(n, `"p%d":{"$ref":"#/$defs/d%d"}`) + `}}`
	}
	doubling := `{"$defs":{"d0":{"type":"object","properties":{"x":{"type":"integer"}}},` + func() string {
		var parts []string
		for i := 1; i < 28; i++ {
			parts = append(parts, fmt.Sprintf(`"d%d":{"anyOf":[{"$ref":"#/$defs/d%d","minProperties":%d},{"$ref":"#/$defs/d%d","maxProperties":%d}]}`, i, i-1, i, i-1, i+100))
		}
		return strings.Join(parts, ",")
	}() + `},"$ref":"#/$defs/d27"}`
	for name, raw := range map[string]string{
		"deep arrays":      strings.Repeat(`{"type":"array","items":`, 400) + `{}` + strings.Repeat(`}`, 400),
		"deeper arrays":    strings.Repeat(`{"type":"array","items":`, 10000) + `{}` + strings.Repeat(`}`, 10000),
		"40 deep":          strings.Repeat(`{"type":"array","items":`, 40) + `{}` + strings.Repeat(`}`, 40),
		"deep choices":     strings.Repeat(`{"anyOf":[`, 60) + `{}` + strings.Repeat(`]}`, 60),
		"deep allOf":       strings.Repeat(`{"allOf":[`, 60) + `{"type":"array","uniqueItems":true}` + strings.Repeat(`]}`, 60),
		"deep JSON":        strings.Repeat(`[`, 100000),
		"a chain":          chain(300),
		"many choices":     `{"anyOf":[` + list(10000, `{"const":%d}`) + `]}`,
		"many values":      `{"enum":[` + list(20000, `%d`) + `]}`,
		"many bytes":       `{"enum":[` + list(100000, `%d`) + `]}`,
		"many properties":  `{"type":"object","properties":{` + list(6000, `"p%d":{}`) + `}}`,
		"counted":          `{"type":"object","properties":{` + list(300, `"p%d":{}`) + `},"minProperties":150}`,
		"doubling":         doubling,
		"opposites":        `{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"$ref":"#"}},"not":{"$ref":"#"}}`,
		"many opposites":   `{"type":"object","allOf":[` + list(40, `{"not":{"required":["a%d","b%d","c%d"]}}`) + `]}`,
		"nested pattern":   `{"type":"string","pattern":"^([a-z]{0,30}){0,30}$"}`,
		"open patterns":    `{"type":"string","pattern":"^.{0,100}a.{0,100}b.{0,100}$"}`,
		"optional letters": `{"type":"string","pattern":"^` + strings.Repeat("[a-z]*", 300) + `$"}`,
		"long values":      `{"enum":[` + list(1990, `"`+strings.Repeat("x", 100)+`%d"`) + `]}`,
		"long names":       `{"type":"object","properties":{` + list(700, `"`+strings.Repeat("x", 100)+`%d":{"type":"boolean"}`) + `}}`,
		"many addresses":   `{"type":"object","properties":{` + list(500, `"p%d":{"type":"string","format":"ipv6"}`) + `}}`,
		"many ranges":      `{"type":"object","properties":{` + list(900, `"p%d":{"type":"number","minimum":1.5,"maximum":2.75}`) + `}}`,
		"many multiples":   `{"type":"object","properties":{` + list(40, `"p%d":{"type":"integer","multipleOf":7}`) + `}}`,
		"repeated pattern": `{"type":"string","pattern":"^([a-z]{0,100}-){0,100}$"}`,
		"many patterns":    `{"type":"object","properties":{` + list(200, `"p%d":{"type":"string","pattern":"^[a-z]{1,20}%d$"}`) + `}}`,
		"a huge number":    `{"type":"number","minimum":1e999999999}`,
		"a long number":    `{"const":` + strings.Repeat("9", 100000) + `}`,
		"many of oneOf":    `{"oneOf":[` + list(3000, `{"const":%d}`) + `]}`,
		"compared":         `{"oneOf":[` + list(700, `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"k%d":{"const":1}}}`) + `]}`,
	} {
		started := time.Now()
		_, err := schema.Normal([]byte(raw))
		if assert.Error(t, err, name) {
			assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), name)
			assert.Less(t, len(err.Error()), 1000, name)
		}
		assert.Less(t, time.Since(started), 30*time.Second, name) // milliseconds, on a machine that has time for them
	}
}

func TestStructuralTagsHoldNormalSchemas(t *testing.T) {
	got, err := schema.Structural([]byte(`{"type":"structural_tag","format":{"type":"tag","begin":"<a>","content":{"type":"json_schema","json_schema":{"properties":{"x":{"type":"integer"}}}},"end":"</a>"}}`), 4)
	require.NoError(t, err)
	assert.Equal(t, `{"type":"structural_tag","format":{"type":"tag","begin":"<a>","content":{"type":"json_schema","json_schema":`+
		`{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":false},"max_whitespace_cnt":4},"end":"</a>"}}`, got)

	got, err = schema.Structural([]byte(`{"type":"structural_tag","format":{"type":"regex","pattern":"^a|b$"}}`), 4)
	require.NoError(t, err)
	assert.Contains(t, got, `"pattern":"(?:a|b)"`)
	for _, raw := range []string{
		`{"format":{"type":"json_schema"}}`, `{"format":{"type":"json_schema","json_schema":{"not":{}}}}`, `{"format":{"type":"regex","pattern":"(?=a)"}}`,
		`{"format":{"type":"repeat","min":0,"max":100000,"content":{"type":"any_text"}}}`, `{`,
	} {
		_, err := schema.Structural([]byte(raw), 4)
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), raw)
	}
}

func TestValidateSaysWhere(t *testing.T) {
	raw := []byte(`{"type":"object","properties":{"age":{"type":"integer","minimum":0}},"required":["age"]}`)
	assert.NoError(t, schema.Validate(raw, `{"age":3}`))
	for text, says := range map[string]string{
		`{"age":-1}`: "/age", `{}`: "age", `{"age":`: "not valid JSON", `{"age":1} x`: "not valid JSON", `{"age":1e999999999}`: "too large", ``: "not valid JSON",
	} {
		err := schema.Validate(raw, text)
		if assert.Error(t, err, text) {
			assert.Contains(t, err.Error(), says, text)
		}
	}
	assert.Error(t, schema.Validate([]byte(`{"$ref":"https://example.com/x"}`), `1`))
	assert.Error(t, schema.Validate([]byte(`{"type":7}`), `1`))
	assert.NoError(t, schema.Validate([]byte(`{"items":[{"type":"null"}]}`), `[null]`), "an older spelling")
}

func FuzzNormal(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{}}}`)
	f.Add(`{"anyOf":[{"type":"string","pattern":"^a[b-d]*$"},{"enum":[1,"x",null]}]}`)
	f.Add(`{"oneOf":[{"properties":{"k":{"const":1}}},{"properties":{"k":{"const":2}}}],"patternProperties":{"^x":{}}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		normal, err := schema.Normal([]byte(raw))
		if err != nil {
			assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err), "%v", err)
			return
		}
		assert.True(t, json.Valid([]byte(normal)), normal)
	})
}
