//go:build linux

package e2e

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
)

// TestADeviceSaysWhatItIsStillAtWorkOn: a native call cannot be interrupted, so that a device may be busy with nothing in the list.
func TestADeviceSaysWhatItIsStillAtWorkOn(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	_, text := s.Post("/api/chat", chat("hello", nil))
	require.Contains(t, text, `"done":true`)

	got := make(chan string, 1)
	go func() {
		resp := s.Open(context.Background(), "/api/chat", withoutStream(chat("[[prefill 12000]]", nil)))
		resp.Body.Close()
		got <- resp.Status
	}()
	Eventually(t, patience, "it reads", func() bool { return s.state() == journal.StatePrefill })
	assert.Empty(t, s.stateOf(llm.Mock).Phase)
	req, err := http.NewRequest("POST", s.UI+"/ui/requests/"+s.running()+"/cancel", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.Token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 204, resp.StatusCode)
	Eventually(t, patience, "it says so at once", func() bool {
		d := s.stateOf(llm.Mock)
		return d.State == "busy" && d.Phase == "finishing a cancelled request"
	})
	assert.Contains(t, <-got, "499")
	Eventually(t, patience, "it is free", func() bool {
		d := s.stateOf(llm.Mock)
		return d.State == "idle" && d.Phase == "" && d.Running == 0
	})

	pid := children(s.Cmd.Process.Pid)[0]
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	defer syscall.Kill(pid, syscall.SIGCONT)
	Eventually(t, patience, "a silent process is noticed", func() bool {
		return strings.Contains(s.stateOf(llm.Mock).Note, "Its engine process has not answered for ")
	})
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	Eventually(t, patience, "and one that answers again", func() bool { return s.stateOf(llm.Mock).Note == "" })
}

// running is the id of the only active request.
func (s *Server) running() string {
	var status struct {
		Active []journal.Entry `json:"active"`
	}
	s.Get("/ui/status", &status)
	require.Len(s.t, status.Active, 1)
	return status.Active[0].TraceID
}
