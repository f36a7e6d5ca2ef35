package engine_test

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
)

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

func TestACrashIsOneSentenceInTheLogAndItsStackAFile(t *testing.T) {
	var log lines
	words := make(chan string, 10)
	b := openReal(t, engine.Options{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Keep: func(device llm.Device, text string) (string, error) {
			words <- text
			return "/logs/" + device.ID(), nil
		},
	})
	_, err := b.run(t.Context(), job(0, "m", "[[die]]"))
	require.Error(t, err)
	until(t, "the child's end is written down", func() bool { return !b.state(0).Up })
	said := slices.DeleteFunc(log.all(), func(line string) bool { return !strings.Contains(line, `msg="engine process ended"`) })
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "SIGSEGV")
	assert.Contains(t, said[0], "stderr=/logs/")
	assert.Less(t, len(said[0]), 400, said[0])
	assert.NotContains(t, said[0], `\n`)
	require.Len(t, words, 1)
	assert.Contains(t, <-words, "goroutine ")
}
