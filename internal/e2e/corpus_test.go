//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
)

// vectors are those of texts, by Ollama's route. It may be called from any goroutine.
func (s *Server) vectors(texts []string) ([][]float64, error) {
	resp, err := s.open(context.Background(), "/api/embed", map[string]any{"model": "all-minilm", "input": texts})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		return nil, fmt.Errorf("status %d: %.300s: %w", resp.StatusCode, body, err)
	}
	var out struct{ Embeddings [][]float64 }
	return out.Embeddings, json.Unmarshal(body, &out)
}

// cosine of two vectors of length 1.
func cosine(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// TestACorpusIsEmbeddedBesideAChat: 2,000 texts in one call keep their order and take bounded memory; chats that stream meanwhile
// come to their end, and small calls have their turns between the corpus's: they do not wait for its end.
func TestACorpusIsEmbeddedBesideAChat(t *testing.T) {
	s := Start(t, nil)
	s.mustAnswer()
	corpus := make([]string, 2000)
	for i := range corpus {
		corpus[i] = fmt.Sprintf("Train %d was late.", i)
		if i%3 == 0 { // of unlike lengths, so that the order of the work is not theirs
			corpus[i] += " The signal stayed red."
		}
	}
	samples := []int{0, 1, 3, 500, 999, 1234, 1998, 1999}
	var alone [][]float64
	for _, i := range samples {
		v, err := s.vectors(corpus[i : i+1])
		require.NoError(t, err)
		alone = append(alone, v[0])
	}
	before := memory(s.Cmd.Process.Pid)

	type result struct {
		vectors [][]float64
		err     error
	}
	whole := make(chan result, 1)
	go func() {
		v, err := s.vectors(corpus)
		whole <- result{v, err}
	}()
	Eventually(t, time.Minute, "the corpus has its turn", func() bool {
		var list struct{ Requests []journal.Entry }
		s.Get("/ui/requests?limit=100", &list)
		for _, e := range list.Requests {
			if e.Route == "/api/embed" && e.State == "prefill" {
				return true
			}
		}
		return false
	})
	var beside sync.WaitGroup
	beside.Go(func() {
		resp, err := s.open(context.Background(), "/api/chat", chat(france, map[string]any{"num_predict": 24}))
		if !assert.NoError(t, err) {
			return
		}
		defer resp.Body.Close()
		lines := stream(t, resp.Body)
		assert.Contains(t, text(lines), "Paris")
		assert.True(t, lines[len(lines)-1].Done, "%+v", lines[len(lines)-1])
	})
	peak := before
	for range 5 {
		v, err := s.vectors(corpus[:1])
		require.NoError(t, err)
		assert.Greater(t, cosine(v[0], alone[0]), 0.999)
		peak = max(peak, memory(s.Cmd.Process.Pid))
	}
	got := <-whole
	peak = max(peak, memory(s.Cmd.Process.Pid))
	require.NoError(t, got.err)
	require.Len(t, got.vectors, len(corpus))
	for n, i := range samples {
		assert.Greater(t, cosine(got.vectors[i], alone[n]), 0.999, "text %d is at its place", i)
	}
	beside.Wait()
	s.idle()
	var list struct{ Requests []journal.Entry }
	s.Get("/ui/requests?limit=100", &list)
	long := slices.MaxFunc(list.Requests, func(a, b journal.Entry) int { return tokens(a) - tokens(b) })
	small := 0
	for _, e := range list.Requests {
		if e.Route == "/api/embed" && e.StartedAt.After(long.StartedAt) && e.EndedAt.Before(long.EndedAt) {
			small++
		}
	}
	t.Logf("%d of 5 small calls ended before the corpus; %d MiB, at most %d", small, before>>20, peak>>20)
	assert.GreaterOrEqual(t, small, 3, "small calls waited for the corpus")
	assert.Less(t, peak-before, int64(400<<20))
}

func tokens(e journal.Entry) int {
	if e.PromptTokens == nil {
		return 0
	}
	return *e.PromptTokens
}
