package jinja_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/generate/prompt/jinja"
)

var now = time.Date(2026, 11, 30, 9, 5, 7, 0, time.UTC)

// data reads testdata/data.json, the variables that constructs.json was made with (testdata/gen.py of package prompt).
func data(t testing.TB) map[string]any {
	raw, err := os.ReadFile("testdata/data.json")
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &fields))
	values := map[string]any{}
	for name, field := range fields {
		values[name], err = jinja.FromJSON(field, nil)
		require.NoError(t, err)
	}
	return values
}

type construct struct {
	Source          string
	Expected, Error *string
}

func constructs(t testing.TB) (list []construct) {
	raw, err := os.ReadFile("testdata/constructs.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &list))
	return list
}

func render(source string, values map[string]any, limits jinja.Limits) (string, error) {
	t, err := jinja.Parse(source)
	if err != nil {
		return "", err
	}
	return t.Render(values, limits, now)
}

func TestEveryConstructRendersAsInJinja2(t *testing.T) {
	values := data(t)
	for _, c := range constructs(t) {
		t.Run(c.Source, func(t *testing.T) {
			got, err := render(c.Source, values, jinja.Limits{})
			if c.Expected == nil {
				require.Error(t, err, "Jinja2 refuses this: %s", *c.Error)
				assert.IsType(t, &jinja.Error{}, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, *c.Expected, got)
		})
	}
}
