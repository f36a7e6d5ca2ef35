package toolcall_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"signalbox/backend/toolcall"
)

func TestFillInTheMiddleTakesTheModelsOwnTokens(t *testing.T) {
	for want, tokens := range map[string][]string{
		"<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>": {"<|fim_middle|>", "<|fim_prefix|>", "<|fim_suffix|>"},
		"<fim_prefix>a<fim_suffix>b<fim_middle>":       {"<fim_middle>", "<fim_prefix>", "<fim_suffix>"},
		"<｜fim▁begin｜>a<｜fim▁hole｜>b<｜fim▁end｜>":       {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
		"[SUFFIX]b[PREFIX]a":                           {"[PREFIX]", "[SUFFIX]"},
		"":                                             {"<|im_start|>", "<|fim_prefix|>"},
	} {
		got, ok := toolcall.FillInTheMiddle("a", "b", func(s string) bool { return slices.Contains(tokens, s) })
		assert.Equal(t, want, got)
		assert.Equal(t, want != "", ok)
	}
	assert.True(t, toolcall.Inserts(`{"content": "<fim_prefix>"}, {"content": "<fim_suffix>"}, {"content": "<fim_middle>"}`))
	assert.False(t, toolcall.Inserts(`{"content": "<fim_prefix>"}`))
}
