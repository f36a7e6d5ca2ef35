//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/cards"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/internal/testenv"
)

// onNPU asks the question whose answer we know there, with as few tokens as show it.
func (s *Server) onNPU() llm.Record {
	s.t.Helper()
	record, failure := s.whole(france, map[string]any{"num_predict": 2, "device": "npu"})
	require.Empty(s.t, failure)
	require.Equal(s.t, emulated, record.ExecutionDevice)
	return record
}

// killNPU kills the NPU's process as the system does, and waits until the server has seen it.
func (s *Server) killNPU() {
	s.t.Helper()
	pid := s.childOf("NPU")
	require.NotZero(s.t, pid, "no process runs the NPU")
	require.NoError(s.t, syscall.Kill(pid, syscall.SIGKILL))
	Eventually(s.t, time.Minute, "the server has noticed", func() bool { return s.childOf("NPU") != pid && len(s.stateOf(llm.NPU).Models) == 0 })
}

// TestAnNPUThatIsFullAndDamagedAndKilled drives the plugin's own pipeline, the CPU standing in for the hardware.
func TestAnNPUThatIsFullAndDamagedAndKilled(t *testing.T) {
	t.Parallel()
	libraries := filepath.Join(t.TempDir(), "runtime") // a copy, of which the plugin goes in the end
	require.NoError(t, copyTree(testenv.Runtime(t), libraries))
	home := newHome(t)
	require.NoError(t, os.WriteFile(filepath.Join(home, "settings.json"), []byte( // the shortest programs, which compile and load the quickest
		`{"emulate_npu":true,"npu_prompt_limit":64,"npu_response_reserve":16,"runtime_dir":`+strconv.Quote(libraries)+`}`), 0o600))
	s := Start(t, []string{"SIGNALBOX_HOME=" + home})
	s.onNPU()

	t.Run("an answer that fills it goes on on the CPU", func(t *testing.T) {
		// A pattern goes on for ever: the request's own limit ends it, where the NPU's is 80.
		_, body := s.Post("/api/generate", map[string]any{
			"model": model, "raw": true, "prompt": strings.TrimSpace(strings.Repeat("red green blue ", 19)), "stream": false,
			"options": map[string]any{"temperature": 0, "num_ctx": 100},
		})
		var answer struct {
			Response string
			Record   llm.Record `json:"llmeu"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
		record := answer.Record
		assert.Equal(t, emulated, record.ExecutionDevice)
		require.NotNil(t, record.Continued, "%s: %q", record.RouteReason, answer.Response)
		assert.Equal(t, llm.CPU, record.Continued.Device)
		after := record.Continued.After
		assert.Equal(t, 80-*record.PromptTokens, after, "all that its program has room for")
		assert.Equal(t, 100-*record.PromptTokens, *record.CompletionTokens)
		assert.Contains(t, record.Clamped, "options.num_ctx")
		assert.Contains(t, record.RouteReason, fmt.Sprintf("the emulated NPU was full after %d tokens of the answer, and the CPU went on with it", after))
		assert.NotEmpty(t, answer.Response)
	})

	t.Run("a damaged compiled model costs time, never the answer", func(t *testing.T) {
		s.killNPU()
		damaged := 0
		require.NoError(t, filepath.WalkDir(filepath.Join(s.Home, "cache", "compiled"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) == ".json" || !strings.HasPrefix(filepath.Base(filepath.Dir(path)), "npu-") {
				return err
			}
			damaged++
			return damage(path)
		}))
		require.NotZero(t, damaged, "there is a compiled model")
		lines := s.ask(france, map[string]any{"num_predict": 8, "device": "npu"})
		assert.Contains(t, text(lines), "Paris")
		assert.Equal(t, emulated, lines[len(lines)-1].Record.Device)
	})

	t.Run("ten kills in a row cost their requests alone", func(t *testing.T) {
		for range 10 {
			resp := s.Open(context.Background(), "/api/chat", chat("Tell me a story.", map[string]any{"num_predict": 40, "device": "npu"}))
			reader := bufio.NewReader(resp.Body)
			for said := ""; said == ""; { // while it loads, lines without text keep the connection
				var l line
				text, err := reader.ReadBytes('\n')
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(text, &l), string(text))
				said = l.Message.Content
			}
			s.killNPU()
			lines := stream(t, reader)
			resp.Body.Close()
			require.NotEmpty(t, lines)
			assert.Contains(t, lines[len(lines)-1].Error, "killed")
		}
		assert.Empty(t, s.stateOf(llm.NPU).Note, "kills from outside close no device")
		s.onNPU()
		s.idle()
	})

	t.Run("its driver goes while it is in use, and the CPU answers", func(t *testing.T) {
		require.NoError(t, os.Remove(filepath.Join(libraries, "openvino", "libs", "libopenvino_intel_npu_plugin.so")))
		s.killNPU() // as the process of a device does whose driver is taken away
		_, failure := s.whole(france, map[string]any{"num_predict": 2, "device": "npu"})
		assert.Contains(t, failure, "NPU", "who asks for it is told")
		for range 2 {
			record, failure := s.whole(france, map[string]any{"num_predict": 2})
			require.Empty(t, failure)
			assert.Equal(t, llm.CPU, record.ExecutionDevice)
		}
		var known struct{ Cards []cards.Card }
		s.Get("/ui/cards", &known)
		said := ""
		for _, c := range known.Cards {
			if c.Model == model && c.Device == "npu:0" {
				said = c.LoadError
			}
		}
		assert.Contains(t, said, `Device with "NPU" name is not registered`)
		s.Send("PUT", "/ui/settings", map[string]any{"never_fall_back": true}, nil)
		resp, body := s.Post("/api/chat", chat(france, nil))
		assert.Equal(t, 503, resp.StatusCode)
		assert.Contains(t, body, "the CPU may not stand in for the emulated NPU")
	})
}

// copyTree copies a folder, by hard links where the disk allows it.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if os.Link(path, filepath.Join(to, rel)) == nil {
			return nil
		}
		return duplicate(path, filepath.Join(to, rel))
	})
}

// damage changes a file in its middle, as a bad disk does.
func damage(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var b [64]byte
	if _, err := f.ReadAt(b[:], info.Size()/2); err != nil {
		return err
	}
	for i := range b {
		b[i] ^= 0xff
	}
	_, err = f.WriteAt(b[:], info.Size()/2)
	return err
}

// TestALoadThatNeverReturnsCostsItsProcess stops the real engine's process in the middle of a load: nothing comes back from it any more.
func TestALoadThatNeverReturnsCostsItsProcess(t *testing.T) {
	t.Parallel()
	s := Start(t, nil)
	type answer struct {
		record llm.Record
		err    string
	}
	for try := 0; ; try++ {
		got := make(chan answer, 1)
		go func() {
			record, err := s.whole(france, map[string]any{"num_predict": 2})
			got <- answer{record, err}
		}()
		stopped := 0
		Eventually(t, time.Minute, "it loads", func() bool {
			if s.state() == journal.StateLoading {
				stopped = s.childOf("CPU")
			}
			return stopped != 0 || len(got) > 0
		})
		if stopped != 0 {
			require.NoError(t, syscall.Kill(stopped, syscall.SIGSTOP))
		}
		a := <-got
		require.Empty(t, a.err)
		assert.Equal(t, llm.CPU, a.record.ExecutionDevice)
		if strings.Contains(a.record.RouteReason, "it was asked again there, since the engine process for CPU was ended: the process did not answer for") {
			assert.NotEqual(t, stopped, s.childOf("CPU"), "it is another process")
			assert.False(t, alive(stopped))
			s.mustAnswer()
			return
		}
		require.Less(t, try, 20, "never stopped in a load: %s", a.record.RouteReason)
		if stopped != 0 { // it had answered in this very moment
			require.NoError(t, syscall.Kill(stopped, syscall.SIGCONT))
		}
		s.Post("/api/generate", map[string]any{"model": model, "keep_alive": 0})
		Eventually(t, time.Minute, "the model is unloaded", func() bool { return len(s.loaded()) == 0 })
	}
}
