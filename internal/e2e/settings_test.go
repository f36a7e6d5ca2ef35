//go:build linux

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
)

// TestSettingsOfTheRulesCountFromTheNextRequestOn asks where requests would go: nothing has to be loaded for that.
func TestSettingsOfTheRulesCountFromTheNextRequestOn(t *testing.T) {
	s := Start(t, nil)
	set := func(settings map[string]any) { s.Send("PUT", "/ui/settings", settings, nil) }
	type answer struct {
		Would, Device string
		Rule          string `json:"route_rule"`
		Reason        string `json:"route_reason"`
	}
	explain := func(client, prompt string) (a answer) {
		body, err := json.Marshal(map[string]any{"model": model, "prompt": prompt})
		require.NoError(t, err)
		req, err := http.NewRequest("POST", s.URL+"/api/route/explain", strings.NewReader(string(body)))
		require.NoError(t, err)
		req.Header.Set("User-Agent", client)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&a))
		return a
	}
	set(map[string]any{"emulate_npu": true}) // where there is none
	assert.Contains(t, explain("curl/8", "hi").Device, llm.NPU)

	set(map[string]any{"preference": []string{"CPU", "NPU", "GPU"}})
	a := explain("curl/8", "hi")
	assert.Equal(t, llm.CPU, a.Device)
	assert.Contains(t, a.Reason, "it comes first in the order of preference")
	set(map[string]any{"preference": []string{"NPU", "GPU", "CPU"}})
	assert.Contains(t, explain("curl/8", "hi").Device, llm.NPU)

	set(map[string]any{"pins": []any{map[string]any{"client": "Zed", "device": "cpu"}}})
	a = explain("Zed/1.0", "hi")
	assert.Equal(t, answer{"run", llm.CPU, "pinned", "The settings send Zed to the CPU."}, a)
	assert.Contains(t, explain("curl/8", "hi").Device, llm.NPU, "others go where they went")
	set(map[string]any{"pins": []any{map[string]any{"model": model, "device": "cpu"}}})
	a = explain("curl/8", "hi")
	assert.Equal(t, answer{"run", llm.CPU, "pinned", "The settings keep smollm2:135m on the CPU."}, a)
	set(map[string]any{"pins": []any{}})
	assert.Contains(t, explain("curl/8", "hi").Device, llm.NPU)

	var rules struct {
		Rules []struct{ Name, Set string }
	}
	said := func(name string) string {
		s.Get("/ui/rules", &rules)
		for _, r := range rules.Rules {
			if r.Name == name {
				return r.Set
			}
		}
		return ""
	}
	set(map[string]any{"never_fall_back": true, "battery_prefers_npu": false, "side_request_prompt": 100, "side_request_answer": 20})
	assert.Equal(t, "on", said("never_fall_back"))
	assert.Equal(t, "off", said("battery"))
	assert.Equal(t, "prompts up to 100 tokens, answers up to 20; a long one has 200 or more", said("side_request"))
	set(map[string]any{"never_fall_back": false, "battery_prefers_npu": true, "side_request_prompt": 0})
	assert.Equal(t, "off", said("never_fall_back"))
	assert.Equal(t, "on", said("battery"))
	assert.Equal(t, "off", said("side_request"))
}
