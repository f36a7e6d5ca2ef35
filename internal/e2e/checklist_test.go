//go:build linux

package e2e

import (
	"testing"

	"signalbox/backend/server/wiretest"
)

// TestSeedChecklist holds the built program to every line of the two documents it starts from, on both engines: the real one
// cannot fail on demand, the fake one can.
func TestSeedChecklist(t *testing.T) {
	t.Run("openvino", func(t *testing.T) {
		s := Start(t, nil)
		wiretest.SeedChecklist(t, s.URL, wiretest.Options{
			Chat: model, Embed: embedModel, Prompt: "What is the capital of France? Answer in one short sentence.", UI: s.UI, Token: s.Token,
		})
	})
	t.Run("S29 fake", func(t *testing.T) {
		s := Start(t, nil, "--engine", "fake")
		wiretest.SeedChecklist(t, s.URL, wiretest.Options{
			Chat: model, Embed: embedModel, LongPrompt: "[[endless]] [[slow 5]]", FailPrompt: "[[error-after 3]]", UI: s.UI, Token: s.Token,
		})
	})
}
