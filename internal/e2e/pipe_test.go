//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFloodOnStderrBreaksNoStream is the rest of check 8: what the engine's libraries print, however much, is in no stream's way.
func TestFloodOnStderrBreaksNoStream(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	const streams = 4
	var all sync.WaitGroup
	for i := range streams {
		said := strings.Repeat(fmt.Sprintf("Stream %d is whole. ", i), 100)
		prompt := "[[slow 2]] [[say " + said + "]]"
		if i == 0 {
			prompt = "[[flood 100]] " + prompt
		}
		all.Go(func() {
			resp, err := s.open(context.Background(), "/api/chat", chat(prompt, nil))
			if !assert.NoError(t, err) {
				return
			}
			defer resp.Body.Close()
			lines := stream(t, resp.Body)
			assert.Equal(t, said, text(lines))
			assert.True(t, lines[len(lines)-1].Done)
		})
	}
	all.Wait()
	assert.Less(t, len(s.Log()), 1<<20, "a flood must not fill the log")
}

// TestChildLivesAsLongAsItsParent is check 8 for every engine: the child goes with its parent, and not before it. Children that
// are tied to a thread of the parent die when that thread ends; many requests at once make and end threads.
func TestChildLivesAsLongAsItsParent(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	s.ask("hi", nil)
	engines := children(s.Cmd.Process.Pid)
	require.NotEmpty(t, engines)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			resp, err := s.open(context.Background(), "/api/chat", chat("[[slow 5]] hi", nil))
			if assert.NoError(t, err) {
				defer resp.Body.Close()
				lines := stream(t, resp.Body)
				assert.True(t, lines[len(lines)-1].Done)
			}
		})
	}
	all.Wait()
	assert.Equal(t, engines, children(s.Cmd.Process.Pid), "a child died under its living parent")
	resp := s.Open(context.Background(), "/api/chat", chat("[[endless]] [[slow 5]]", nil))
	defer resp.Body.Close()
	require.NoError(t, s.Cmd.Process.Kill())
	<-s.Exited()
	Eventually(t, patience, "no child is left", func() bool {
		for _, pid := range engines {
			if alive(pid) {
				return false
			}
		}
		return true
	})
}

// TestFakeTakesPromptsAsLongAsItSays: the NPU's limit is none of its business.
func TestFakeTakesPromptsAsLongAsItSays(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	for range 2 { // also once it is loaded
		lines := s.ask(strings.Repeat("word ", 2000), nil)
		assert.True(t, lines[len(lines)-1].Done, lines[len(lines)-1].Error)
	}
}
