package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAClientBySomeOtherNameIsSuggested(t *testing.T) {
	clients := []connectable{{ID: "claude", Name: "Claude Code"}, {ID: "zed", Name: "Zed"}, {ID: "copilot", Name: "GitHub Copilot"}, {ID: "copilot-cli", Name: "Copilot CLI"}}
	for asked, want := range map[string]string{
		"claude-code":    `no client is called "claude-code"; there is claude`,
		"github copilot": `no client is called "github copilot"; there is copilot`,
		"emacs":          "no client is called \"emacs\"; `signalbox connect` lists those that are known",
		"--":             "no client is called \"--\"; `signalbox connect` lists those that are known",
	} {
		assert.EqualError(t, unknownClient(asked, clients), want)
	}
}
