package llmtest

import (
	"io"

	"signalbox/backend/llm"
	"signalbox/internal/pipe"
)

// Child is the life of an engine process that runs the fake. It does not return.
func Child(options Options) {
	pipe.Main(pipe.Config{}, func(frames io.Writer) (llm.Runner, error) {
		options.Noise = frames
		return NewFake(options), nil
	})
}
