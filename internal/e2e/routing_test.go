//go:build linux

package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // a second program at the journal

	"signalbox/backend/journal"
	"signalbox/backend/server"
	"signalbox/internal/testenv"
)

func (s *Server) explain(body any) (x struct {
	Would, Device, Error string
	Rule                 string `json:"route_rule"`
	PromptTokens         int    `json:"prompt_tokens"`
}) {
	s.t.Helper()
	resp, text := s.Post("/api/route/explain", body)
	require.Equal(s.t, 200, resp.StatusCode, text)
	require.NoError(s.t, json.Unmarshal([]byte(text), &x))
	return x
}

func (s *Server) notices() string {
	var status server.Status
	s.Get("/ui/status", &status)
	var all []string
	for _, n := range status.Notices {
		all = append(all, n.Text)
	}
	return strings.Join(all, "\n")
}

// home makes a folder for a server before it starts.
func newHome(t *testing.T) string {
	home := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	return home
}

func TestExplainSaysWhatThenHappens(t *testing.T) {
	s := Start(t, nil)
	for _, prompt := range []string{france, long(40)} {
		said := s.explain(chat(prompt, map[string]any{"num_predict": 4}))
		require.Equal(t, "run", said.Would, said.Error)
		assert.Empty(t, s.fresh(), "nothing is recorded")
		lines := s.ask(prompt, map[string]any{"num_predict": 4})
		record := lines[len(lines)-1].Record
		require.NotNil(t, record)
		assert.Equal(t, said.Device, record.Device)
		assert.Equal(t, said.PromptTokens, record.Prompt)
		assert.Equal(t, said.Rule, record.Rule)
		s.forget()
	}
	refused := s.explain(chat(strings.Repeat("word ", 9000), nil))
	assert.Equal(t, "refuse", refused.Would)
	assert.Contains(t, refused.Error, "prompt is too long: ")
}

// seen are the requests that a test has looked at already.
var seen = map[*Server]int{}

func (s *Server) all() (list struct{ Requests []journal.Entry }) {
	s.Get("/ui/requests", &list)
	return list
}

func (s *Server) fresh() []journal.Entry { return s.all().Requests[:len(s.all().Requests)-seen[s]] }
func (s *Server) forget()                { seen[s] = len(s.all().Requests) }

func TestRequestsOfAKilledServerAreMarkedAtTheNextStart(t *testing.T) {
	home := newHome(t)
	s := Start(t, []string{"SIGNALBOX_HOME=" + home}, "--engine", "fake")
	resp := s.Open(context.Background(), "/api/chat", chat("[[endless]] [[slow 5]]", nil))
	defer resp.Body.Close()
	Eventually(t, patience, "it decodes", func() bool { return s.state() == journal.StateDecoding })
	id := resp.Header.Get("X-Request-ID")
	Eventually(t, patience, "it stands in the file", func() bool { return noted(home, id) })
	require.NoError(t, s.Cmd.Process.Kill())
	<-s.Exited()

	s = Start(t, []string{"SIGNALBOX_HOME=" + home}, "--engine", "fake")
	var e journal.Entry
	s.Get("/ui/requests/"+id, &e)
	assert.True(t, e.Interrupted)
	assert.Equal(t, "mock", e.ExecutionDevice)
	assert.Contains(t, e.Error, "ended while this request ran")
}

func noted(home, id string) bool {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(home, "journal.db")+"?_pragma=query_only(1)")
	if err != nil {
		return false
	}
	defer db.Close()
	n := 0
	err = db.QueryRow(`SELECT count(*) FROM active WHERE trace_id = ? AND entry LIKE '%"execution_device":"mock"%'`, id).Scan(&n)
	return err == nil && n == 1
}

func TestJournalThatCannotBeUsedStopsNobody(t *testing.T) {
	t.Run("damaged", func(t *testing.T) {
		home := newHome(t)
		require.NoError(t, os.WriteFile(filepath.Join(home, "journal.db"), []byte(strings.Repeat("this is no database ", 500)), 0o600))
		s := Start(t, []string{"SIGNALBOX_HOME=" + home}, "--engine", "fake")
		resp, _ := s.Post("/api/chat", chat("hello", nil))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Contains(t, s.notices(), "The journal was damaged. It was put aside as ")
		assert.Len(t, s.all().Requests, 1)
	})
	t.Run("deleted while it is in use", func(t *testing.T) {
		s := Start(t, nil, "--engine", "fake")
		resp, _ := s.Post("/api/chat", chat("hello", nil))
		assert.Equal(t, 200, resp.StatusCode)
		Eventually(t, patience, "the first one is in the file", func() bool { return kept(s.Home) == 1 }) // what waits would come into the new one
		for _, suffix := range []string{"", "-wal", "-shm"} {
			require.NoError(t, os.Remove(filepath.Join(s.Home, "journal.db"+suffix)))
		}
		resp, _ = s.Post("/api/chat", chat("hello", nil))
		assert.Equal(t, 200, resp.StatusCode)
		Eventually(t, patience, "it is said", func() bool { return strings.Contains(s.notices(), "deleted or replaced while Signalbox ran") })
		Eventually(t, patience, "the next one is in the file", func() bool { return kept(s.Home) == 1 })
	})
	t.Run("held by another program", func(t *testing.T) {
		s := Start(t, nil, "--engine", "fake")
		db, err := sql.Open("sqlite", filepath.Join(s.Home, "journal.db"))
		require.NoError(t, err)
		defer db.Close()
		db.SetMaxOpenConns(1)
		_, err = db.Exec("BEGIN IMMEDIATE")
		require.NoError(t, err)
		resp, _ := s.Post("/api/chat", chat("hello", nil))
		assert.Equal(t, 200, resp.StatusCode)
		Eventually(t, patience, "it is said", func() bool { return strings.Contains(s.notices(), "Another program holds the journal") })
		assert.Len(t, s.all().Requests, 1, "it is shown from memory")
		_, err = db.Exec("ROLLBACK")
		require.NoError(t, err)
	})
}

// kept counts the requests in a server's journal; -1 while it cannot be read.
func kept(home string) int {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(home, "journal.db")+"?_pragma=query_only(1)")
	if err != nil {
		return -1
	}
	defer db.Close()
	n := -1
	if db.QueryRow(`SELECT count(*) FROM requests`).Scan(&n) != nil {
		return -1
	}
	return n
}

// TestFullDiskCostsNoAnswer has no byte left for the journal, the compile cache, the cards and the log.
func TestFullDiskCostsNoAnswer(t *testing.T) {
	testenv.OnSmallDisk(t, 2<<20, func(t *testing.T, small testenv.SmallDisk) { fullCostsNoAnswer(t, small.Dir) })
}

func fullCostsNoAnswer(t *testing.T, home string) {
	t.Helper()
	s := Start(t, []string{"SIGNALBOX_HOME=" + home})
	t.Cleanup(s.Stop) // before the file system goes
	filler, err := os.Create(filepath.Join(home, "filler"))
	require.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	filler.Close()

	for range 3 {
		s.mustAnswer()
	}
	for range 2 { // what is compiled of this one would be kept
		resp, body := s.Post("/api/embed", map[string]any{"model": embedModel, "input": "a signal box"})
		require.Equal(t, 200, resp.StatusCode, body)
		s.killAndWait()
	}
	var compiled server.Compiled
	s.Get("/ui/compiled", &compiled)
	assert.Empty(t, compiled.Models, "half of a compiled model is none")
	Eventually(t, patience, "it is said", func() bool { return strings.Contains(s.notices(), "The disk is full: the journal") })
	assert.Len(t, s.all().Requests, 5, "they are shown from memory")
	s.mustAnswer()
	require.NoError(t, os.Remove(filler.Name()))
	s.Stop()
	assert.Equal(t, 6, kept(home), "what waited is written as soon as there is room")
}

func TestCompileCacheCostsTimeNeverTheAnswer(t *testing.T) {
	t.Run("damaged", func(t *testing.T) {
		s := Start(t, nil)
		vector := func() any { // what is paged is not kept; an embedding model is
			resp, body := s.Post("/api/embed", map[string]any{"model": "all-minilm", "input": "a signal box"})
			require.Equal(t, 200, resp.StatusCode, "%s", body)
			var got struct{ Embeddings any }
			require.NoError(t, json.Unmarshal([]byte(body), &got))
			return got.Embeddings
		}
		want := vector()
		blobs := 0
		require.NoError(t, filepath.WalkDir(filepath.Join(s.Home, "cache", "compiled"), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			blobs++
			return os.WriteFile(path, []byte(strings.Repeat("damaged ", 10000)), 0o600)
		}))
		require.NotZero(t, blobs, "there is a cache")
		s.killAndWait()
		assert.Equal(t, want, vector())
	})
	t.Run("no place for it", func(t *testing.T) {
		home := newHome(t)
		require.NoError(t, os.MkdirAll(filepath.Join(home, "cache"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(home, "cache", "compiled"), nil, 0o600)) // a file where the folder should be
		s := Start(t, []string{"SIGNALBOX_HOME=" + home})
		s.mustAnswer()
	})
}

func TestEngineOutOfMemoryEndsTheRequestAndTheNextOneWorks(t *testing.T) {
	s := Start(t, nil)
	s.mustAnswer()
	for _, pid := range children(s.Cmd.Process.Pid) {
		limit := unix.Rlimit{Cur: uint64(addressSpace(t, pid)) + 8<<20, Max: unix.RLIM_INFINITY}
		require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_AS, &limit, nil))
	}
	resp := s.Open(context.Background(), "/api/chat", chat(long(500), map[string]any{"num_predict": 4}))
	lines := stream(t, resp.Body)
	resp.Body.Close()
	require.NotEmpty(t, lines)
	last := lines[len(lines)-1]
	assert.False(t, last.Done, "there was no memory for it")
	assert.NotEmpty(t, last.Error)
	s.idle()
	s.killAndWait() // the limit goes with it, if it is still there
	s.mustAnswer()
}

// addressSpace is what RLIMIT_AS counts.
func addressSpace(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	require.NoError(t, err)
	var pages int64
	require.NoError(t, json.Unmarshal([]byte(strings.Fields(string(text))[0]), &pages))
	return pages * int64(os.Getpagesize())
}

func TestThreeCrashesCloseADeviceUntilItIsReleased(t *testing.T) {
	home := newHome(t)
	s := Start(t, []string{"SIGNALBOX_HOME=" + home}, "--engine", "fake")
	crash := func(prompt string) {
		s.Post("/api/chat", chat(prompt, nil))
		s.Post("/api/chat", chat("hello", nil)) // without a success between, the restarts wait longer and longer
	}
	for range 5 {
		crash("[[die]] a")
	}
	assert.NotContains(t, s.note(), "crashed", "one poisoned request says nothing about a device")
	crash("[[die]] b")
	crash("[[die]] c")
	assert.Contains(t, s.note(), "still runs on this device, since no other can take it")
	resp, _ := s.Post("/api/chat", chat("hello", nil))
	assert.Equal(t, 200, resp.StatusCode, "it is the last usable device")
	s.Stop()

	s = Start(t, []string{"SIGNALBOX_HOME=" + home}, "--engine", "fake")
	Eventually(t, patience, "it is known at the next start", func() bool {
		return strings.Contains(s.note(), "still runs on this device, since no other can take it")
	})
	s.Send("POST", "/ui/devices/mock:0/release", struct{}{}, nil)
	assert.NotContains(t, s.note(), "crashed")
}

func (s *Server) note() string {
	var status server.Status
	s.Get("/ui/status", &status)
	if len(status.Devices) == 0 {
		return ""
	}
	return status.Devices[0].Note
}

func TestCertifyProvesADevice(t *testing.T) {
	real, _ := filepath.Glob("/dev/accel/accel*")
	npu := "emulated"
	if len(real) > 0 {
		npu = "hardware"
	}
	for device, want := range map[string]string{"cpu": "hardware", "npu": npu} {
		t.Run(device, func(t *testing.T) {
			home := newHome(t)
			report := filepath.Join(home, "report.json")
			cmd := exec.Command(Binary(t), "certify", "--own", "--device", device, "--json", report)
			cmd.Env = append(os.Environ(), "SIGNALBOX_HOME="+home)
			said, err := cmd.CombinedOutput()
			require.NoError(t, err, string(said))
			var got struct {
				Certified, Device string
				Checks            []struct{ Name, Result, Detail string }
				Records           []map[string]any
			}
			text, err := os.ReadFile(report)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &got))
			assert.Equal(t, want, got.Certified)
			assert.Len(t, got.Checks, 7)
			assert.NotEmpty(t, got.Records)
			for _, check := range got.Checks {
				assert.NotEqual(t, "failed", check.Result, check)
				assert.NotEmpty(t, check.Detail, check.Name)
				assert.Contains(t, string(said), check.Name)
			}
			if want == "emulated" {
				assert.Equal(t, emulated, got.Device)
				assert.Contains(t, string(said), "certified as emulated: the plugin works, no hardware was tried")
				assert.Regexp(t, `it went to CPU: \d+ prompt tokens are more than the emulated NPU's 256`, string(said))
			}
		})
	}
	cmd := exec.Command(Binary(t), "certify", "--own", "--device", "gpu", "--json", "-")
	cmd.Env = append(os.Environ(), "SIGNALBOX_HOME="+newHome(t))
	said, err := cmd.Output()
	if err == nil {
		return // this machine has one
	}
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), string(said))
	var got struct{ Certified string }
	require.NoError(t, json.Unmarshal(said, &got), "the report alone is on standard output: %s", said)
	assert.Equal(t, "no", got.Certified)
}

// killAndWait kills the engine's processes and waits until the server has seen it: none of them gets the next request.
func (s *Server) killAndWait() {
	s.t.Helper()
	list := children(s.Cmd.Process.Pid)
	for _, pid := range list {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	Eventually(s.t, patience, "the server has noticed", func() bool {
		var status server.Status
		s.Get("/ui/status", &status)
		for _, d := range status.Devices {
			if len(d.Models) > 0 || d.State == "idle" {
				return false
			}
		}
		return true
	})
}
