package generate_test

import (
	"testing"

	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
	"signalbox/internal/generate"
	"signalbox/internal/testenv"
)

func TestConformsOnCPU(t *testing.T) {
	cache := t.TempDir()
	llmtest.Run(t, func(t *testing.T) llmtest.Subject {
		r := generate.New(generate.Options{Runtime: testenv.Runtime(t), Device: "CPU", CacheDir: cache, SlotMemory: generate.DefaultSlotMemory})
		t.Cleanup(func() { r.Close() })
		return llmtest.Subject{
			Runner: r, Chat: llm.LoadRequest{Model: model(t)}, Embed: llm.LoadRequest{Model: minilm(t), Embedding: true},
			Short: "Write a short story about a fox.", Long: "Count from one to one thousand.", Slow: 10,
		}
	})
}
