//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
)

// sixty asks sixty things at once. Of every two clients one leaves somewhere in the middle.
func (s *Server) sixty(tokens int) {
	random := rand.New(rand.NewPCG(1, 2))
	var wait sync.WaitGroup
	for i := range 60 {
		leaveAfter := random.IntN(12) // lines read before the client leaves; the upper half stays to the end
		wait.Go(func() {
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			resp, err := s.open(ctx, "/api/chat", chat(fmt.Sprintf("Count from %d to %d.", i, i+5), map[string]any{"num_predict": tokens}))
			if !assert.NoError(s.t, err) {
				return
			}
			defer resp.Body.Close()
			assert.Equal(s.t, 200, resp.StatusCode)
			n, done := 0, false
			for scan := bufio.NewScanner(resp.Body); scan.Scan(); n++ {
				var l line
				assert.NoError(s.t, json.Unmarshal(scan.Bytes(), &l))
				done = done || l.Done
				if leaveAfter < 6 && n >= leaveAfter {
					return
				}
			}
			assert.True(s.t, done, "stream %d ended without its last line", i)
		})
	}
	wait.Wait()
	s.idle()
}

// holding is what the processes of a server hold while nobody asks anything.
type holding struct {
	processes int
	files     []string // what their descriptors are, sorted
	memory    int64
}

// held waits until the descriptors do not change any more.
func (s *Server) held() (h holding) {
	s.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	look := func() (h holding) {
		pids := append(children(s.Cmd.Process.Pid), s.Cmd.Process.Pid)
		for _, pid := range pids {
			links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
			for _, link := range links {
				if target, err := os.Readlink(link); err == nil {
					kind, _, _ := strings.Cut(target, ":[") // "socket:[123]": the number is another each time
					h.files = append(h.files, kind)
				}
			}
		}
		slices.Sort(h.files)
		h.processes, h.memory = len(pids), memory(s.Cmd.Process.Pid)
		return h
	}
	same := 0
	Eventually(s.t, patience, "the descriptors are settled", func() bool {
		now := look()
		if same++; !slices.Equal(now.files, h.files) {
			same = 0
		}
		h = now
		return same >= 25
	})
	return h
}

// goroutines ends the server with a picture of what runs in it, and returns where each goroutine began.
func (s *Server) goroutines() (began []string) {
	s.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	s.held()
	require.NoError(s.t, s.Cmd.Process.Signal(syscall.SIGQUIT))
	<-s.exited
	for part := range strings.SplitSeq(s.Log(), "\n\n") {
		if !strings.HasPrefix(strings.TrimLeft(part, "\n"), "goroutine ") {
			continue
		}
		_, by, found := strings.Cut(part, "created by ")
		if found {
			by, _, _ = strings.Cut(by, " in goroutine")
			began = append(began, by)
		}
	}
	slices.Sort(began)
	require.NotEmpty(s.t, began, "no goroutine was told: %s", s.Log())
	return began
}

func TestSixtyStreamsWithDisconnectsLoseNothing(t *testing.T) {
	home := newHome(t)
	// Few conversations are kept, so that what grows is a leak.
	require.NoError(t, os.WriteFile(filepath.Join(home, "settings.json"), []byte(`{"prefix_cache_megabytes":16}`), 0o600))
	s := Start(t, []string{"SIGNALBOX_HOME=" + home})
	before := text(s.ask(france, map[string]any{"num_predict": 24}))
	s.sixty(16)
	first, engine := s.held(), children(s.Cmd.Process.Pid)
	assert.Equal(t, before, text(s.ask(france, map[string]any{"num_predict": 24})))

	var list struct {
		Requests []journal.Entry `json:"requests"`
	}
	s.Get("/ui/requests?limit=100", &list)
	assert.Len(t, list.Requests, 62)
	for _, entry := range list.Requests {
		assert.Equal(t, journal.StateDone, entry.State)
		assert.Contains(t, []string{"completed", "length", "cancelled"}, string(entry.Outcome), entry.Error)
	}

	// Once more: what it holds afterwards is what it held before.
	s.sixty(4)
	second := s.held()
	assert.Equal(t, engine, children(s.Cmd.Process.Pid), "the engine is still the same process")
	assert.Equal(t, first.files, second.files, "descriptors")
	t.Logf("%d descriptors, %d MiB, then %d MiB", len(first.files), first.memory>>20, second.memory>>20)
	assert.Less(t, second.memory, first.memory+first.memory/10, "resident bytes")
	assert.Equal(t, before, text(s.ask(france, map[string]any{"num_predict": 24})))

	// A server that answered one request has the same goroutines.
	other := Start(t, nil)
	other.ask(france, map[string]any{"num_predict": 24})
	other.idle()
	s.idle()
	assert.Equal(t, other.goroutines(), s.goroutines())
}
