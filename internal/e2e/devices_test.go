//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/server"
)

// childOf is the process that runs a device; 0 when none does.
func (s *Server) childOf(runtime string) int {
	for _, pid := range children(s.Cmd.Process.Pid) {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if strings.Contains(string(line), "--device\x00"+runtime+"\x00") {
			return pid
		}
	}
	return 0
}

func (s *Server) stateOf(class string) (d server.DeviceStatus) {
	var status server.Status
	s.Get("/ui/status", &status)
	for _, d := range status.Devices {
		if d.Class == class {
			return d
		}
	}
	return d
}

// whole is an answer with the record that the short form leaves out.
func (s *Server) whole(prompt string, options map[string]any) (r llm.Record, failure string) {
	resp, body := s.Post("/api/chat", withoutStream(chat(prompt, options)))
	var answer struct {
		Record llm.Record `json:"llmeu"`
		Error  string     `json:"error"`
	}
	require.NoError(s.t, json.Unmarshal([]byte(body), &answer), body)
	if resp.StatusCode != 200 {
		return r, answer.Error
	}
	return answer.Record, ""
}

func withoutStream(body map[string]any) map[string]any {
	body["stream"] = false
	return body
}

// TestTwoDevicesAtOnce has the same model on the NPU, which the CPU stands in for, and on the CPU, and kills the NPU's process at
// work.
func TestTwoDevicesAtOnce(t *testing.T) {
	home := newHome(t)
	require.NoError(t, os.WriteFile(filepath.Join(home, "settings.json"),
		[]byte(`{"emulate_npu":true,"npu_prompt_limit":256,"npu_response_reserve":64,"side_request_prompt":64,"side_request_answer":16}`), 0o600))
	s := Start(t, []string{"SIGNALBOX_HOME=" + home})

	t.Run("S41 killed while it loads, the next device answers", func(t *testing.T) {
		type answer struct {
			record llm.Record
			err    string
		}
		got := make(chan answer, 1)
		go func() {
			record, err := s.whole(france, map[string]any{"num_predict": 8})
			got <- answer{record, err}
		}()
		Eventually(t, time.Minute, "the NPU loads", func() bool { return s.state() == journal.StateLoading && s.childOf("NPU") != 0 })
		require.NoError(t, syscall.Kill(s.childOf("NPU"), syscall.SIGKILL))
		a := <-got
		require.Empty(t, a.err)
		assert.Equal(t, emulated, a.record.RoutedDevice)
		assert.Equal(t, llm.CPU, a.record.ExecutionDevice)
		assert.Equal(t, llm.FallbackDevice, a.record.FallbackReason)
		assert.Equal(t, "device_fault", a.record.RouteRule)
	})

	t.Run("a model that is on the CPU only is led back to the NPU", func(t *testing.T) { // field report 1
		record, failure := s.whole(france, map[string]any{"num_predict": 2})
		require.Empty(t, failure)
		require.Equal(t, llm.CPU, record.ExecutionDevice, "this one does not wait for a compile")
		require.Equal(t, "already_loaded", record.RouteRule)
		Eventually(t, 3*time.Minute, "the NPU has it too", func() bool { return len(s.stateOf(llm.NPU).Models) == 1 })
		record, failure = s.whole(france, map[string]any{"num_predict": 2})
		require.Empty(t, failure)
		require.Equal(t, emulated, record.ExecutionDevice)
	})

	t.Run("a short request runs on one while a long one runs on the other", func(t *testing.T) {
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		resp := s.Open(ctx, "/api/chat", chat("Repeat the word train for ever.", map[string]any{"num_predict": 4000, "device": "cpu"}))
		defer resp.Body.Close()
		require.Equal(t, llm.CPU, resp.Header.Get("X-NPU-Proxy-Execution-Device"))
		reader := bufio.NewReader(resp.Body)
		_, err := reader.ReadString('\n')
		require.NoError(t, err)
		record, failure := s.whole("Say yes.", map[string]any{"num_predict": 3})
		require.Empty(t, failure)
		assert.Equal(t, emulated, record.ExecutionDevice)
		assert.Equal(t, "already_loaded", record.RouteRule)
		assert.Equal(t, 1, s.stateOf(llm.CPU).Running, "the long one still runs")
		_, err = reader.ReadString('\n')
		require.NoError(t, err, "and it streams")
	})

	t.Run("S41 a side request goes around the device that is at work on a long turn", func(t *testing.T) {
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		turn := chat(long(6), map[string]any{"num_predict": 60})
		turn["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": "price"}}}
		agent := s.Open(ctx, "/api/chat", turn)
		defer agent.Body.Close()
		require.Equal(t, emulated, agent.Header.Get("X-NPU-Proxy-Execution-Device"), agent.Header.Get("X-NPU-Proxy-Token-Count"))
		reader := bufio.NewReader(agent.Body)
		_, err := reader.ReadString('\n')
		require.NoError(t, err)

		side := s.Open(context.Background(), "/api/chat", chat("Name this chat.", map[string]any{"num_predict": 8}))
		defer side.Body.Close()
		assert.Equal(t, llm.CPU, side.Header.Get("X-NPU-Proxy-Execution-Device"))
		assert.Equal(t, emulated, side.Header.Get("X-NPU-Proxy-Routed-Device"))
		assert.Equal(t, "side_request", side.Header.Get("X-NPU-Proxy-Route-Reason"))
		assert.Equal(t, llm.FallbackBusy, side.Header.Get("X-NPU-Proxy-Fallback-Reason"))
		lines := stream(t, side.Body)
		last := lines[len(lines)-1]
		require.True(t, last.Done, last.Error)
		assert.Greater(t, len(lines), 2, "it streams")
		assert.Regexp(t, `^A short request goes around the emulated NPU, which is at work on a prompt of \d+ tokens; the model is loaded on the CPU\.$`, last.Record.Reason)
		assert.Equal(t, 1, s.stateOf(llm.NPU).Running, "the long one still runs")
		_, err = reader.ReadString('\n')
		require.NoError(t, err, "and it streams")
		leave()
		s.idle()
	})

	t.Run("killed while it reads the prompt, it is asked again", func(t *testing.T) {
		var last line
		for try := 0; ; try++ { // it reads for a fraction of a second: a slow look may come too late
			resp := s.Open(context.Background(), "/api/chat", chat(fmt.Sprint(try, " ", long(14)), map[string]any{"num_predict": 2, "device": "npu"}))
			caught := s.state() == journal.StatePrefill
			if caught {
				require.NoError(t, syscall.Kill(s.childOf("NPU"), syscall.SIGKILL))
			}
			lines := stream(t, resp.Body)
			resp.Body.Close()
			last = lines[len(lines)-1]
			require.True(t, last.Done, last.Error)
			if caught && strings.Contains(last.Record.Reason, "asked again") {
				break
			}
			require.Less(t, try, 20, "never killed while it read the prompt: %s", last.Record.Reason)
		}
		assert.Equal(t, emulated, last.Record.Device)
		assert.Contains(t, last.Record.Reason, "it was asked again there, since the engine process for "+emulated+" ended by itself: signal: killed")
	})

	t.Run("killed while it answers, the request ends and the next one works", func(t *testing.T) {
		resp := s.Open(context.Background(), "/api/chat", chat("Tell me a story.", map[string]any{"num_predict": 60, "device": "npu"}))
		defer resp.Body.Close()
		Eventually(t, time.Minute, "it decodes", func() bool { return s.stateOf(llm.NPU).Running == 1 && s.state() == journal.StateDecoding })
		require.NoError(t, syscall.Kill(s.childOf("NPU"), syscall.SIGKILL))
		lines := stream(t, resp.Body)
		last := lines[len(lines)-1]
		assert.False(t, last.Done)
		assert.Contains(t, last.Error, "killed")
		record, failure := s.whole(france, map[string]any{"num_predict": 8})
		require.Empty(t, failure)
		assert.Equal(t, llm.OutcomeLength, orCompleted(record.Outcome))
		assert.Empty(t, s.stateOf(llm.NPU).Note, "a kill from outside closes no device")
	})
}

// orCompleted makes one of the two ends that a good answer may have.
func orCompleted(o llm.Outcome) llm.Outcome {
	if o == llm.OutcomeCompleted {
		return llm.OutcomeLength
	}
	return o
}
