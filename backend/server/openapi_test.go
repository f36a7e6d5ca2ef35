package server_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/anthropic"
	"signalbox/backend/ollama"
	"signalbox/backend/openai"
	"signalbox/backend/server"
	"signalbox/backend/wire"
)

type described struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas map[string]struct {
			Properties map[string]json.RawMessage
		}
	}
}

func description(t *testing.T) described {
	r := newRig(t)
	resp, text := do(t, "GET", r.public.URL+"/openapi.json", "")
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "application/json; charset=utf-8", resp.Header.Get("Content-Type"))
	var d described
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	return d
}

func TestEveryPublicRouteIsDescribedAndNoOther(t *testing.T) {
	var there, told []string
	for _, route := range server.New(newRig(t).deps).Routes(false) {
		route, _, _ = strings.Cut(route, "  ")
		there = append(there, strings.ReplaceAll(route, ":.+}", "}"))
	}
	for path, methods := range description(t).Paths {
		for method := range methods {
			told = append(told, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(there)
	slices.Sort(told)
	assert.Equal(t, there, told)
}

// TestEveryNumberOfTheTablesIsDescribed looks for each row in the requests of its dialect.
func TestEveryNumberOfTheTablesIsDescribed(t *testing.T) {
	schemas := description(t).Components.Schemas
	for _, d := range []struct {
		names []string
		rows  []wire.Number
		other []string // names that only some clients use
	}{
		{[]string{"OllamaOptions", "OllamaChatRequest", "OllamaEmbedRequest"}, ollama.Numbers, []string{"max_tokens", "max_output_tokens"}},
		{[]string{"OpenAIChatRequest", "OpenAICompletionRequest", "OpenAIResponsesRequest", "OpenAIEmbeddingRequest"}, openai.Numbers, []string{"repeat_penalty", "max_tool_calls"}},
		{[]string{"AnthropicRequest"}, anthropic.Numbers, []string{"budget_tokens"}},
	} {
		for _, row := range d.rows {
			found := slices.Contains(d.other, row.Name)
			for _, name := range d.names {
				require.Contains(t, schemas, name)
				_, ok := schemas[name].Properties[row.Name]
				found = found || ok
			}
			assert.True(t, found, "%v: %s", d.names, row.Name)
		}
	}
}
