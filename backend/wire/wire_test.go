package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

func words(path, want, got string) *llm.Error {
	return llm.Errorf(llm.CodeInvalid, "%s: want %s, got %s", path, want, got)
}

func parse(t *testing.T, body string) *wire.Object {
	t.Helper()
	o, err := wire.Parse([]byte(body), words)
	require.NoError(t, err, body)
	return o
}

func TestBodiesThatAreNoObject(t *testing.T) {
	for body, want := range map[string]string{
		"":                            "missing request body",
		" \n":                         "missing request body",
		"}":                           "the request body is not JSON: invalid character '}' looking for beginning of value",
		`{"a":`:                       "the request body is no whole JSON: it ends in the middle",
		`[1]`:                         "request body: want object, got array",
		`"a"`:                         "request body: want object, got string",
		`{} x`:                        "the request body goes on after its JSON object",
		`{}{}`:                        "the request body goes on after its JSON object",
		strings.Repeat(`{"a":`, 201):  "the request's JSON is nested deeper than 200 levels",
		`{"a":"` + "[[[" + `"} trail`: "the request body goes on after its JSON object",
		"{\"a\":\"Gr\xfc\xdfe\"}":     "the request body is not UTF-8: byte 0xfc at offset 8 begins no letter: send the JSON encoded as UTF-8",
		"{\"a\":\"\xed\xa0\x80\"}":    "the request body is not UTF-8: byte 0xed at offset 6 begins no letter: send the JSON encoded as UTF-8",
		"\uFEFF":                      "missing request body",
	} {
		_, err := wire.Parse([]byte(body), words)
		assert.EqualError(t, err, want, "%.40q", body)
		assert.Equal(t, llm.CodeInvalid, llm.CodeOf(err))
	}
}

func TestFieldsAreTakenByTheirType(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1}`: "a: want string, got number", `{"a":true}`: "a: want string, got boolean", `{"a":[]}`: "a: want string, got array",
		`{"a":{}}`: "a: want string, got object", `{"a":null}`: "", `{"a":"x"}`: "", `{}`: "",
		`{"a":"x\u0000y"}`: `a holds a NUL character (\u0000), which no model can read: leave it out`,
	} {
		o := parse(t, body)
		o.Text("a")
		if want == "" {
			assert.NoError(t, o.Err(), body)
		} else {
			assert.EqualError(t, o.Err(), want)
		}
	}
	o := parse(t, `{"messages":[{"content":"x"},{"content":7}]}`)
	for _, m := range o.Objects("messages") {
		m.Text("content")
	}
	assert.EqualError(t, o.Err(), "messages[1].content: want string, got number")
}

func TestNumbersAreWholeOrCutOrRefused(t *testing.T) {
	cut := wire.Number{Name: "n", Integer: true, Min: -1, Max: 100}
	for raw, want := range map[string]int64{
		"5": 5, "5.0": 5, "5e1": 50, "-0": 0, "101": 100, "1e308": 100, "1e999": 100, "-7": -1, "-1e999": -1, "9223372036854775808": 100,
	} {
		o := parse(t, `{"n":`+raw+`}`)
		n := o.Int(cut)
		require.NoError(t, o.Err(), raw)
		assert.Equal(t, want, *n, raw)
		_, clamped := o.Notes()
		assert.Equal(t, want == 100 || want == -1, len(clamped) == 1, raw)
	}
	for _, raw := range []string{`"5"`, "true", "0.5", "[]"} {
		o := parse(t, `{"n":`+raw+`}`)
		o.Int(cut)
		assert.ErrorContains(t, o.Err(), "n: want integer")
	}
	exact := wire.Number{Name: "n", Integer: true, Min: -1 << 63, Max: 1<<63 - 1}
	o := parse(t, `{"n":9007199254740993}`)
	assert.Equal(t, int64(9007199254740993), *o.Int(exact), "seeds are kept to the last digit")
	o = parse(t, `{"n":9223372036854775807}`)
	assert.Equal(t, int64(1<<63-1), *o.Int(exact))

	refuse := wire.Number{Name: "n", Min: 0, Max: 20, Refuse: true}
	o = parse(t, `{"n":21}`)
	o.Float(refuse)
	assert.EqualError(t, o.Err(), "n must be between 0 and 20")
	assert.Nil(t, parse(t, `{"n":null}`).Float(refuse))
}

func TestWhatNobodyTookIsNamed(t *testing.T) {
	o := parse(t, `{"model":"x","temprature":1,"user":"u","gone":null,"o":{"num_ctxx":1},"\u001b[31m":1,"a b":2}`)
	o.Text("model")
	o.Ignore("user", "absent")
	o.Object("o").Rest()
	o.Rest()
	ignored, _ := o.Notes()
	assert.Equal(t, []string{"user", "o.num_ctxx", "temprature"}, ignored)
	flood := "{"
	for i := range 100 {
		flood += `"f` + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + `":1,`
	}
	o = parse(t, flood+`"z":1}`)
	o.Rest()
	ignored, _ = o.Notes()
	assert.LessOrEqual(t, len(ignored), 20)
}

// The rest of such a text counts, and one of many must not fail the batch: it is read, and named.
func TestHalfASurrogatePairIsNamed(t *testing.T) {
	for raw, half := range map[string]bool{
		`a\ud800b`: true, `\udfff`: true, `\ude00\ud83d`: true, `\ud83d\ude00\ud83d`: true, `\ud83d\ud83d\ude00`: true, `\ud83d\n`: true,
		`\ud83d\ude00`: false, `\uD83D\uDE00 x`: false, "\uFFFD": false, `\ufffd`: false, `\\ud800`: false, `\ufffd\\ud800`: false,
	} {
		o := parse(t, "\uFEFF"+`{"a":"`+raw+`"}`)
		o.Text("a")
		require.NoError(t, o.Err(), raw)
		ignored, _ := o.Notes()
		if half {
			assert.Equal(t, []string{"a (half a surrogate pair)"}, ignored, raw)
		} else {
			assert.Empty(t, ignored, raw)
		}
	}
	o := parse(t, `{"input":[`+strings.Repeat(`"\ud800",`, 1999)+`"x"]}`)
	assert.Len(t, o.Texts("input", 2000), 2000)
	ignored, _ := o.Notes()
	assert.Len(t, ignored, 20)
	assert.Equal(t, "input[0] (half a surrogate pair)", ignored[0])
}

func TestDevicesAreTakenOffNames(t *testing.T) {
	for name, want := range map[string][2]string{
		"smollm2:135m": {"smollm2:135m", ""}, "smollm2:135m@npu": {"smollm2:135m", "npu"}, "a/b@GPU.1": {"a/b", "gpu:1"},
		"x@gpu:12": {"x", "gpu:12"}, "x@tpu": {"x@tpu", ""}, "@npu": {"@npu", ""}, "x@npu@cpu": {"x@npu", "cpu"},
	} {
		model, device := wire.SplitDevice(name)
		assert.Equal(t, want, [2]string{model, device}, name)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":{"b":[1,2,{"c":"d"}]}}`, `{"a":"\u0000"}`, `{"a":1e999}`, `[`, `{"a":"\ud800"}`, "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		o, err := wire.Parse([]byte(body), words)
		if err != nil {
			return
		}
		for _, name := range o.Names() {
			o.Text(name)
			o.Texts(name, 3)
			o.Objects(name)
			o.Int(wire.Number{Name: name, Min: -5, Max: 5})
			o.Float(wire.Number{Name: name, Min: -5, Max: 5})
		}
		o.Rest()
	})
}

func TestToolsHaveOneLimit(t *testing.T) {
	for _, n := range []int{1024, 1025, 1 << 14, 1<<14 + 1} {
		o := parse(t, `{"tools":[`+strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"f"}},`, n), ",")+`]}`)
		tools := o.Functions("tools")
		if n == 1024 {
			require.NoError(t, o.Err())
			assert.Len(t, tools.List, n)
		} else {
			assert.EqualError(t, o.Err(), fmt.Sprintf("tools takes at most 1024 entries, not %d", n))
		}
	}
}
