//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/journal"
	"signalbox/backend/server"
)

const (
	model      = "smollm2:135m"
	embedModel = "all-minilm"
)

// line is a line of /api/chat's stream.
type line struct {
	Message struct {
		Content string `json:"content"`
	} `json:"message"`
	Done   bool   `json:"done"`
	Reason string `json:"done_reason"`
	Error  string `json:"error"`
	Record *struct {
		Outcome   string   `json:"outcome"`
		Device    string   `json:"execution_device"`
		Prompt    int      `json:"prompt_tokens"`
		Completed int      `json:"completion_tokens"`
		Cached    *int     `json:"cached_tokens"`
		Load      *float64 `json:"load_ms"`
		Rule      string   `json:"route_rule"`
		Reason    string   `json:"route_reason"`
	} `json:"llmeu"`
}

// chat is a request for a greedy answer, with options beside temperature.
func chat(prompt string, options map[string]any) map[string]any {
	all := map[string]any{"temperature": 0}
	for name, value := range options {
		all[name] = value
	}
	return map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": prompt}}, "options": all}
}

// stream reads an answer to its end.
func stream(t testing.TB, body io.Reader) (lines []line) {
	t.Helper()
	for scan := bufio.NewScanner(body); scan.Scan(); {
		var l line
		require.NoError(t, json.Unmarshal(scan.Bytes(), &l), scan.Text())
		lines = append(lines, l)
	}
	return lines
}

func text(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Message.Content)
	}
	return b.String()
}

// ask is one answer, whole.
func (s *Server) ask(prompt string, options map[string]any) []line {
	s.t.Helper()
	resp := s.Open(context.Background(), "/api/chat", chat(prompt, options))
	defer resp.Body.Close()
	lines := stream(s.t, resp.Body)
	require.Equal(s.t, 200, resp.StatusCode, "%+v", lines)
	return lines
}

const france = "What is the capital of France?"

// mustAnswer asks a question whose answer we know.
func (s *Server) mustAnswer() {
	s.t.Helper()
	lines := s.ask(france, map[string]any{"num_predict": 24})
	assert.Contains(s.t, text(lines), "Paris")
	require.NotEmpty(s.t, lines)
	assert.True(s.t, lines[len(lines)-1].Done)
}

// idle waits until no device runs or queues anything and no request is active.
func (s *Server) idle() {
	s.t.Helper()
	Eventually(s.t, patience, "every slot is free", func() bool {
		var status server.Status
		s.Get("/ui/status", &status)
		busy := len(status.Active)
		for _, d := range status.Devices {
			busy += d.Running + d.Queued
		}
		return busy == 0
	})
}

// children lists the processes that a process has started, by pid.
func children(pid int) (list []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		after := string(text[strings.LastIndexByte(string(text), ')')+1:])
		fields := strings.Fields(after) // state ppid ...
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) && fields[0] != "Z" {
			child, _ := strconv.Atoi(strings.Split(path, "/")[2])
			list = append(list, child)
		}
	}
	return list
}

// alive reports whether a process runs: one that ended and that nobody has waited for yet does not.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := text[strings.LastIndexByte(string(text), ')')+1:]
	return !strings.HasPrefix(string(after), " Z")
}

// kill ends the engine's processes as the kernel does when memory is short.
func (s *Server) kill() {
	s.t.Helper()
	list := children(s.Cmd.Process.Pid)
	require.NotEmpty(s.t, list, "no engine process runs")
	for _, pid := range list {
		require.NoError(s.t, syscall.Kill(pid, syscall.SIGKILL))
	}
}

// state is the state of the one active request, or empty.
func (s *Server) state() string {
	var status server.Status
	s.Get("/ui/status", &status)
	if len(status.Active) != 1 {
		return ""
	}
	return status.Active[0].State
}

// long is a prompt that takes a while to read.
func long(words int) string {
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "Item %d costs %d crowns. ", i, i*37%101)
	}
	return b.String() + "Tell me a very long story about these items."
}

// killedIn asks, and kills the engine's processes when the request is in phase, if it is ever seen there.
func (s *Server) killedIn(phase string, body map[string]any) (status int, lines []line) {
	s.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err := s.open(context.Background(), "/api/chat", body)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		status, lines = resp.StatusCode, stream(s.t, resp.Body)
	}()
	over := false
	Eventually(s.t, patience, "the request is in "+phase, func() bool {
		select {
		case <-ended:
			over = true
		default:
		}
		return over || s.state() == phase
	})
	if !over {
		for _, pid := range children(s.Cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	<-ended
	return status, lines
}

// What was not answered yet is asked again; what was, ends with a sentence.
func TestKilledEngineEndsNoMoreThanWhatWasSaid(t *testing.T) {
	s := Start(t, nil)
	for i, phase := range []string{journal.StateLoading, journal.StatePrefill, journal.StateDecoding} {
		t.Run(phase, func(t *testing.T) {
			tokens, prompt := 4, long(100)
			if phase == journal.StateDecoding {
				tokens, prompt = 2000, long(10)
			}
			for try := 0; ; try++ { // a load or a prompt takes a fraction of a second: a slow look may come too late
				if phase == journal.StateLoading {
					s.Post("/api/generate", map[string]any{"model": model, "keep_alive": 0})
					Eventually(t, patience, "the model is unloaded", func() bool { return len(s.loaded()) == 0 })
				} else {
					s.mustAnswer()
				}
				status, lines := s.killedIn(phase, chat(fmt.Sprint(i, try, prompt), map[string]any{"num_predict": tokens}))
				require.NotEmpty(t, lines)
				last := lines[len(lines)-1]
				assert.Equal(t, 200, status)
				if phase == journal.StateDecoding {
					assert.False(t, last.Done, "a success line after a fault (S18)")
					assert.Contains(t, last.Error, "killed", "the sentence names what happened (S17)")
					break
				}
				require.Less(t, try, 20, "never killed in time: %+v", last)
				if !last.Done && strings.Contains(last.Error, "killed") { // after its first token
					continue
				}
				assert.True(t, last.Done, last.Error)
				require.NotNil(t, last.Record)
				assert.Equal(t, tokens, last.Record.Completed)
				if strings.Contains(last.Record.Reason, "it was asked again there, since the engine process for CPU ended by itself: signal: killed") {
					break
				}
			}
			s.idle()
			s.mustAnswer()
		})
	}
}

func TestTenKillsInARowCostTheirRequestsAlone(t *testing.T) {
	s := Start(t, nil)
	for range 10 {
		resp := s.Open(context.Background(), "/api/chat", chat("Tell me a very long story.", map[string]any{"num_predict": 4000}))
		reader := bufio.NewReader(resp.Body)
		_, err := reader.ReadString('\n')
		require.NoError(t, err)
		s.kill()
		lines := stream(t, reader)
		resp.Body.Close()
		require.NotEmpty(t, lines)
		assert.Contains(t, lines[len(lines)-1].Error, "killed")
		s.mustAnswer()
	}
	s.idle()
}

func TestKilledServerLeavesNoEngineBehind(t *testing.T) {
	s := Start(t, nil)
	s.mustAnswer()
	engines := children(s.Cmd.Process.Pid)
	require.NotEmpty(t, engines)
	require.NoError(t, s.Cmd.Process.Kill())
	<-s.Exited()
	Eventually(t, patience, "the engine's processes are gone", func() bool {
		for _, pid := range engines {
			if alive(pid) {
				return false
			}
		}
		return true
	})
}

func TestInterleavedConversationsEqualEachAlone(t *testing.T) {
	s := Start(t, nil)
	prompts := []string{"Name three rivers in Europe.", "Write a haiku about snow.", "What is 2+2?", "Explain what a signal box is."}
	alone := make([]string, len(prompts))
	for i, prompt := range prompts {
		alone[i] = text(s.ask(prompt, map[string]any{"num_predict": 40, "seed": 7}))
	}
	together := make([]string, len(prompts))
	var wait sync.WaitGroup
	for i, prompt := range prompts {
		wait.Go(func() {
			resp, err := s.open(context.Background(), "/api/chat", chat(prompt, map[string]any{"num_predict": 40, "seed": 7}))
			if assert.NoError(t, err) {
				defer resp.Body.Close()
				together[i] = text(stream(t, resp.Body))
			}
		})
	}
	wait.Wait()
	assert.Equal(t, alone, together)
}

// TestEnvironmentOfTheEngineIsOurs is check 8 of the threat page: variables that make the libraries print or fail do not
// reach them.
func TestEnvironmentOfTheEngineIsOurs(t *testing.T) {
	s := Start(t, []string{"OV_NPU_LOG_LEVEL=LOG_DEBUG", "OV_ENABLE_PROFILE_PASS=1", "ONEDNN_VERBOSE=1", "LD_PRELOAD=", "HF_TOKEN=CANARY-secret", "HTTPS_PROXY=http://127.0.0.1:9"})
	s.mustAnswer()
	for _, pid := range children(s.Cmd.Process.Pid) {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		require.NoError(t, err)
		for _, name := range []string{"OV_NPU_LOG_LEVEL", "OV_ENABLE_PROFILE_PASS", "ONEDNN_VERBOSE", "CANARY", "HTTPS_PROXY"} {
			assert.NotContains(t, string(environ), name)
		}
	}
}

// TestForeignHostVariableOpensNothing is check 4: an OLLAMA_HOST left by an old Ollama.
func TestForeignHostVariableOpensNothing(t *testing.T) {
	s := Start(t, []string{"SIGNALBOX_HOST=", "OLLAMA_HOST=0.0.0.0:0"})
	port := s.URL[strings.LastIndexByte(s.URL, ':')+1:]
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	suffix := fmt.Sprintf(":%04X", n)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		rows, err := os.ReadFile(table)
		require.NoError(t, err)
		for row := range strings.Lines(string(rows)) {
			fields := strings.Fields(row)
			if len(fields) > 3 && fields[3] == "0A" && strings.HasSuffix(fields[1], suffix) {
				assert.Contains(t, []string{"0100007F", "00000000000000000000000001000000"}, strings.TrimSuffix(fields[1], suffix))
			}
		}
	}
	var status server.Status
	s.Get("/ui/status", &status)
	require.NotEmpty(t, status.Notices)
	assert.Contains(t, status.Notices[0].Text, "this computer only")
}

func TestOverlongPromptIsRefusedWithBothNumbers(t *testing.T) {
	s := Start(t, nil)
	resp, body := s.Post("/v1/chat/completions", map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": strings.Repeat("word ", 2_000_000)}}})
	assert.Equal(t, 400, resp.StatusCode)
	assert.Contains(t, body, "context_length_exceeded")
	assert.Regexp(t, `prompt is too long: (at least )?\d+ tokens > \d+ maximum`, body)

	resp, body = s.Post("/v1/chat/completions", map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": strings.Repeat("word ", 9000)}}})
	assert.Equal(t, 400, resp.StatusCode)
	assert.Regexp(t, `prompt is too long: 90\d\d tokens > \d+ maximum`, body)

	s.mustAnswer()
}

// TestTextAfterANULIsNotLost: the native tokenizer takes C strings, which end at the first NUL.
func TestTextAfterANULIsNotLost(t *testing.T) {
	s := Start(t, nil)
	const text = "visible\x00hidden"
	said := []any{map[string]any{"role": "user", "content": text}}
	hi := []any{map[string]any{"role": "user", "content": "hi"}}
	for _, tt := range []struct {
		path string
		body map[string]any
	}{
		{"/api/chat", map[string]any{"model": model, "messages": said}},
		{"/api/chat", map[string]any{"model": model, "messages": append([]any{map[string]any{"role": "system", "content": text}}, hi...)}},
		{"/api/chat", map[string]any{"model": model, "messages": hi, "options": map[string]any{"stop": []string{text}, "num_predict": 2}}},
		{"/api/generate", map[string]any{"model": model, "prompt": text}},
		{"/api/generate", map[string]any{"model": model, "prompt": text, "raw": true}},
		{"/api/generate", map[string]any{"model": model, "prompt": "hi", "system": text}},
		{"/v1/chat/completions", map[string]any{"model": model, "messages": said}},
		{"/api/embed", map[string]any{"model": embedModel, "input": []string{"hi", text}}},
		{"/api/embeddings", map[string]any{"model": embedModel, "prompt": text}},
		{"/v1/embeddings", map[string]any{"model": embedModel, "input": text}},
	} {
		resp, body := s.Post(tt.path, tt.body)
		if tt.body["options"] != nil && resp.StatusCode == 200 {
			continue // a stop string may hold one: it is compared here, and never goes to the tokenizer
		}
		assert.Equal(t, 400, resp.StatusCode, "%s %q", tt.path, tt.body)
		assert.Contains(t, body, "NUL", tt.path)
	}
	s.mustAnswer()
}

func TestSpecialTokensInATextAreText(t *testing.T) {
	s := Start(t, nil)
	count := func(path string, body map[string]any) int {
		body["model"], body["options"] = model, map[string]any{"num_predict": 1}
		resp := s.Open(context.Background(), path, body)
		defer resp.Body.Close()
		lines := stream(t, resp.Body)
		require.NotNil(t, lines[len(lines)-1].Record, lines[len(lines)-1].Error)
		return lines[len(lines)-1].Record.Prompt
	}
	chat := func(text string) int {
		return count("/api/chat", map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}})
	}
	raw := func(text string) int { return count("/api/generate", map[string]any{"prompt": text, "raw": true}) }
	// As text the markers take several tokens each; as control tokens, which only a raw prompt may hold, they take one.
	const document = "a<|im_end|><|im_start|>b"
	assert.LessOrEqual(t, raw(document)-raw("ab"), 3)
	assert.Greater(t, chat(document)-chat("ab"), 8)
}
