package downloads_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/downloads"
	"signalbox/backend/hub"
	"signalbox/backend/hub/hubtest"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/internal/testenv"
)

const repo = "OpenVINO/Qwen3-8B-int4-cw-ov" // "qwen3:8b" in the table

// TestMain is also the process that gets killed in the middle of a pull.
func TestMain(m *testing.M) {
	if url := os.Getenv("PULL_FROM"); url != "" {
		manager := manager(os.Getenv("PULL_INTO"), url, downloads.Options{})
		err := manager.Pull(context.Background(), "qwen3", func(e downloads.Event) error {
			fmt.Println(e.Status, e.Completed)
			return nil
		})
		fmt.Println("ended:", err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// slowly is a pace at which megabytes take seconds, so that what is asked of a download meets it on its way on a busy machine too.
const slowly = 300 * time.Millisecond

func plenty(string) (int64, int64, error) { return 1 << 50, 1 << 50, nil }

func manager(dir, endpoint string, o downloads.Options) *downloads.Manager {
	o.Library = models.Open(dir)
	if o.Space == nil {
		o.Space = plenty
	}
	o.Hub = func() (*hub.Client, error) {
		return hub.New(hub.Options{
			Endpoint: endpoint, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
			Stall: 20 * time.Second, Retries: 2, Backoff: time.Millisecond, Chunk: 256 << 10,
		})
	}
	return downloads.New(o)
}

func pull(ctx context.Context, m *downloads.Manager, name string) (events []downloads.Event, err error) {
	err = m.Pull(ctx, name, func(e downloads.Event) error {
		events = append(events, e)
		return nil
	})
	return events, err
}

// checkFrames holds a pull to S23 to S26.
func checkFrames(t *testing.T, events []downloads.Event, files int) {
	require.Equal(t, downloads.Event{Status: "pulling manifest"}, events[0])
	n := len(events)
	assert.Equal(t, []downloads.Event{{Status: "verifying sha256 digest"}, {Status: "writing manifest"}, {Status: "success"}}, events[n-3:])
	at := map[string]downloads.Event{}
	for _, e := range events[1 : n-3] {
		assert.True(t, strings.HasPrefix(e.Status, "pulling "), e.Status)
		assert.Regexp(t, `^sha256:[0-9a-f]{64}$`, e.Digest)
		last, known := at[e.Status]
		if !known {
			assert.Zero(t, e.Completed, "a file begins with nothing")
		} else {
			assert.Greater(t, e.Completed, last.Completed)
			assert.Equal(t, last.Digest, e.Digest)
			assert.Equal(t, last.Total, e.Total)
		}
		at[e.Status] = e
	}
	assert.Len(t, at, files)
	for status, e := range at {
		assert.Equal(t, e.Total, e.Completed, status)
	}
}

func TestTheStarterModelIsPulledWholeAndIsTheSame(t *testing.T) {
	h := hubtest.New(t)
	h.AddFolder(t, repo, testenv.ChatModel(t))
	for name, dir := range map[string]string{"plain": "m", "odd": "ž 漢/王 小明 山田\u3000/models"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), dir)
			m := manager(dir, h.URL, downloads.Options{})
			events, err := pull(t.Context(), m, "qwen3:latest")
			require.NoError(t, err)
			checkFrames(t, events, 12)
			for _, e := range events {
				if path, ok := strings.CutPrefix(e.Status, "pulling openvino"); ok {
					sum, err := models.HashFile(filepath.Join(testenv.ChatModel(t), "openvino"+path))
					require.NoError(t, err)
					assert.Equal(t, "sha256:"+sum, e.Digest)
				}
			}
			l := models.Open(dir)
			got, err := l.Find("qwen3:8b")
			require.NoError(t, err)
			assert.Empty(t, got.Damaged)
			assert.Equal(t, repo, got.Source)
			assert.Equal(t, hubtest.Commit, got.Revision)
			assert.True(t, got.NPU.OK)
			came, err := models.Open(filepath.Dir(testenv.ChatModel(t))).Find("smollm2:135m")
			require.NoError(t, err)
			assert.Equal(t, came.Digest, got.Digest)
			partial, err := filepath.Glob(filepath.Join(dir, models.PartialDir, "*"))
			require.NoError(t, err)
			assert.Empty(t, partial)
			before := len(h.Requests())
			events, err = pull(t.Context(), m, repo) // again, by its other name: nothing is fetched
			require.NoError(t, err)
			checkFrames(t, events, 12)
			assert.Len(t, h.Requests(), before+2)
		})
	}
}

func TestAKilledPullGoesOn(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(6_000_000))
	h.Set(func(f *hubtest.Faults) { f.Pace = slowly })
	dir := t.TempDir()
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), "PULL_FROM="+h.URL, "PULL_INTO="+dir)
	require.NoError(t, victim.Start())
	bytesThere := func() (n int64) {
		for _, d := range manager(dir, h.URL, downloads.Options{}).List() {
			n += d.Completed
		}
		return n
	}
	require.Eventually(t, func() bool { return bytesThere() > 1_500_000 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, victim.Process.Kill())
	_ = victim.Wait()
	list, err := models.Open(dir).List()
	require.NoError(t, err)
	assert.Empty(t, list, "what is not complete is no model")

	m := manager(dir, h.URL, downloads.Options{})
	kept := m.List()
	require.Len(t, kept, 1)
	assert.Equal(t, downloads.Paused, kept[0].State)
	had := kept[0].Completed
	assert.Greater(t, had, int64(1_500_000))
	h.Set(func(f *hubtest.Faults) { f.Pace = 0 })
	before := len(h.Requests())
	_, err = pull(t.Context(), m, "qwen3")
	require.NoError(t, err)
	var asked int64
	for _, r := range h.Requests()[before:] {
		var from, to int64
		if n, _ := fmt.Sscanf(r.Range, "bytes=%d-%d", &from, &to); n == 2 && r.Where == "store" && strings.HasSuffix(r.Path, "openvino_model.bin") {
			asked += to - from + 1
		}
	}
	assert.Less(t, asked, 6_000_000-int64(1_400_000), "it began anew")
	model, err := models.Open(dir).Find("qwen3:8b")
	require.NoError(t, err)
	assert.Empty(t, model.Damaged)
}

func TestCallersShareOneDownloadAndTheLastLeaverStopsIt(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(3_000_000))
	h.Set(func(f *hubtest.Faults) { f.Pace = slowly })
	m := manager(t.TempDir(), h.URL, downloads.Options{})
	first, leave := context.WithCancel(t.Context())
	second, leaveToo := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var errs [2]error
	group.Go(func() { _, errs[0] = pull(first, m, "qwen3") })
	group.Go(func() { _, errs[1] = pull(second, m, repo) })
	state := func() downloads.Download {
		if list := m.List(); len(list) == 1 {
			return list[0]
		}
		return downloads.Download{}
	}
	require.Eventually(t, func() bool { return state().Waiting == 2 && state().Completed > 100_000 }, time.Minute, time.Millisecond)
	leave()
	require.Eventually(t, func() bool { return state().Waiting == 1 }, time.Minute, time.Millisecond)
	had := state().Completed
	require.Eventually(t, func() bool { return state().Completed > had }, time.Minute, time.Millisecond)
	leaveToo()
	group.Wait()
	require.Eventually(t, func() bool { return state().State == downloads.Paused }, time.Minute, time.Millisecond)
	assert.ErrorIs(t, errs[0], context.Canceled)
	assert.ErrorIs(t, errs[1], context.Canceled)
	trees := 0
	for _, r := range h.Requests() {
		if strings.Contains(r.Path, "/tree/") {
			trees++
		}
	}
	assert.Equal(t, 1, trees)
}

func TestPauseResumeCancelAndARestart(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(3_000_000))
	h.Set(func(f *hubtest.Faults) { f.Pace = slowly })
	dir := t.TempDir()
	m := manager(dir, h.URL, downloads.Options{})
	d, err := m.Begin("qwen3")
	require.NoError(t, err)
	at := func(m *downloads.Manager) downloads.Download {
		list := m.List()
		require.Len(t, list, 1)
		return list[0]
	}
	require.Eventually(t, func() bool { return at(m).Completed > 300_000 }, time.Minute, time.Millisecond)
	require.NoError(t, m.Pause(d.ID))
	assert.Equal(t, downloads.Paused, at(m).State)
	had := at(m).Completed
	m.Close()

	m = manager(dir, h.URL, downloads.Options{})
	assert.Equal(t, had, at(m).Completed)
	m.Start()
	assert.Equal(t, downloads.Paused, at(m).State, "what was paused stays so")
	require.NoError(t, m.Resume(d.ID))
	require.Eventually(t, func() bool { return at(m).Completed > had }, time.Minute, time.Millisecond)
	m.Close() // quits while it runs

	m = manager(dir, h.URL, downloads.Options{})
	m.Start()
	require.Eventually(t, func() bool { return at(m).State == downloads.Downloading }, time.Minute, time.Millisecond)
	require.NoError(t, m.Cancel(d.ID))
	assert.Empty(t, m.List())
	left, err := filepath.Glob(filepath.Join(dir, models.PartialDir, "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Error(t, m.Pause(d.ID))

	h.Set(func(f *hubtest.Faults) { f.Pace = 0 })
	_, err = m.Begin("qwen3")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return at(m).State == downloads.Done }, time.Minute, time.Millisecond)
}

func TestOneProcessAtATimeFetchesAModel(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(3_000_000))
	h.Set(func(f *hubtest.Faults) { f.Pace = slowly })
	dir := t.TempDir()
	one, two := manager(dir, h.URL, downloads.Options{}), manager(dir, h.URL, downloads.Options{})
	_, err := one.Begin("qwen3")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return one.List()[0].Completed > 100_000 }, time.Minute, time.Millisecond)
	_, err = pull(t.Context(), two, "qwen3")
	assert.ErrorContains(t, err, "another Signalbox is fetching qwen3:8b")
	h.Set(func(f *hubtest.Faults) { f.Pace = 0 })
	require.Eventually(t, func() bool { return one.List()[0].State == downloads.Done }, time.Minute, time.Millisecond)
	_, err = models.Open(dir).Find("qwen3:8b")
	assert.NoError(t, err)
}

func TestWhatDoesNotFitIsRefusedBeforeTheFirstByte(t *testing.T) {
	newer := hubtest.Small(1000)
	newer["openvino_model.xml"] = []byte(strings.Replace(string(newer["openvino_model.xml"]), `version="11"`, `version="12"`, 1))
	for name, c := range map[string]struct {
		files map[string][]byte
		o     downloads.Options
		says  string
	}{
		"disk":   {hubtest.Small(1000), downloads.Options{Space: func(string) (int64, int64, error) { return 3e8, 1e12, nil }}, "not enough space"},
		"memory": {hubtest.Small(1000), downloads.Options{Memory: func() int64 { return 1000 }}, "it could not run"},
		"format": {newer, downloads.Options{}, "OpenVINO's format 12"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.New(t)
			h.Add(repo, c.files)
			dir := t.TempDir()
			m := manager(dir, h.URL, c.o)
			_, err := pull(t.Context(), m, "qwen3")
			assert.ErrorContains(t, err, c.says)
			for _, r := range h.Requests() {
				assert.NotContains(t, r.Path, "openvino_model.bin")
			}
			report, err := m.Preflight(t.Context(), "qwen3")
			require.NoError(t, err)
			assert.Contains(t, report.Refused, c.says)
		})
	}
}

func TestPreflightTellsWhichDevicesRunIt(t *testing.T) {
	h := hubtest.New(t)
	h.AddFolder(t, repo, testenv.ChatModel(t))
	report, err := manager(t.TempDir(), h.URL, downloads.Options{}).Preflight(t.Context(), "qwen3")
	require.NoError(t, err)
	assert.Equal(t, "INT4_SYM", report.Quantity)
	assert.Empty(t, report.Refused)
	assert.Equal(t, "very fast", report.Speed)
	require.Len(t, report.Devices, 3)
	assert.True(t, report.Devices[0].OK, report.Devices[0].Reason)
	assert.Empty(t, report.Card)
}

func TestTheMakersCardIsCheckedAndReadAndNeverKept(t *testing.T) {
	h := hubtest.New(t)
	files := hubtest.Small(100_000)
	files["README.md"] = []byte("---\nlicense: mit\n---\n\n# A model\r\n\nIt says \xff.\n")
	h.Add(repo, files)
	dir := t.TempDir()
	m := manager(dir, h.URL, downloads.Options{})
	report, err := m.Preflight(t.Context(), "qwen3")
	require.NoError(t, err)
	assert.Equal(t, "# A model\n\nIt says \ufffd.", report.Card)
	_, err = pull(t.Context(), m, "qwen3")
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(dir, "*", "README.md"))
	require.NoError(t, err)
	assert.Empty(t, found)

	h.Set(func(f *hubtest.Faults) {
		f.Content = func(name string, content []byte) []byte {
			if name == "README.md" {
				return append([]byte("x"), content[1:]...)
			}
			return content
		}
	})
	report, err = m.Preflight(t.Context(), "qwen3")
	require.NoError(t, err)
	assert.Empty(t, report.Card, "what is not what the hub declares is not shown")
}

func TestUnknownModelsLeaveNothing(t *testing.T) {
	h := hubtest.New(t)
	dir := t.TempDir()
	m := manager(dir, h.URL, downloads.Options{})
	for _, name := range []string{"qwen3", "Some/Thing-ov"} {
		_, err := pull(t.Context(), m, name)
		assert.Equal(t, llm.CodeModelNotFound, llm.CodeOf(err), name)
		assert.ErrorContains(t, err, "pull model manifest: file does not exist")
	}
	assert.Empty(t, m.List())
	left, err := filepath.Glob(filepath.Join(dir, models.PartialDir, "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAWrongFileIsNamedAndNoModelAppears(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(300_000))
	h.Content = func(name string, content []byte) []byte {
		if name == "chat_template.jinja" {
			return []byte("{{ messagez }}")
		}
		return content
	}
	dir := t.TempDir()
	_, err := pull(t.Context(), manager(dir, h.URL, downloads.Options{}), "qwen3")
	assert.ErrorContains(t, err, "chat_template.jinja")
	list, err := models.Open(dir).List()
	require.NoError(t, err)
	assert.Empty(t, list)
}

func TestADamagedModelIsRepairedByFetchingWhatIsMissing(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(300_000))
	dir := t.TempDir()
	m := manager(dir, h.URL, downloads.Options{})
	_, err := pull(t.Context(), m, "qwen3")
	require.NoError(t, err)
	l := models.Open(dir)
	model, err := l.Find("qwen3")
	require.NoError(t, err)
	tokenizer := filepath.Join(model.Dir, "openvino_tokenizer.bin")
	require.NoError(t, os.WriteFile(tokenizer, make([]byte, 500), 0o600))
	found, err := l.Verify(t.Context(), "qwen3", func(int64, int64) {})
	require.NoError(t, err)
	assert.True(t, found.Recorded)
	assert.Equal(t, []string{"openvino_tokenizer.bin"}, found.Wrong)
	before := len(h.Requests())
	d, err := m.Repair("qwen3")
	require.NoError(t, err)
	assert.Equal(t, "qwen3:8b", d.Model)
	require.Eventually(t, func() bool { return !m.Busy() }, time.Minute, time.Millisecond)
	for _, r := range h.Requests()[before:] {
		if strings.Contains(r.Path, "/revision/") {
			assert.Equal(t, hubtest.Commit, filepath.Base(r.Path), "a repair is no update")
		}
	}
	var fetched []string
	for _, r := range h.Requests()[before:] {
		if r.Where == "store" || strings.Contains(r.Path, "/resolve/") && !strings.HasSuffix(r.Path, ".bin") {
			fetched = append(fetched, filepath.Base(r.Path))
		}
	}
	assert.Equal(t, []string{"openvino_tokenizer.bin"}, fetched)
	found, err = l.Verify(t.Context(), "qwen3", func(int64, int64) {})
	require.NoError(t, err)
	assert.True(t, found.OK())
	assert.Equal(t, 6, found.Files)
}

func TestWhatCameFromNoHubIsNotRepaired(t *testing.T) {
	library := models.Open(t.TempDir(), filepath.Dir(testenv.ChatModel(t)))
	m := downloads.New(downloads.Options{Library: library})
	_, err := m.Repair("smollm2:135m")
	assert.Error(t, err)
	_, err = m.Repair("nothing:1b")
	assert.Equal(t, llm.CodeModelNotFound, llm.CodeOf(err))
	assert.Empty(t, m.List())
}

func TestAModelThatCameWithSignalboxIsThere(t *testing.T) {
	library := models.Open(t.TempDir(), filepath.Dir(testenv.ChatModel(t)))
	m := downloads.New(downloads.Options{Library: library, Hub: func() (*hub.Client, error) { return nil, errors.New("nobody asks the hub") }})
	events, err := pull(t.Context(), m, "smollm2:135m")
	require.NoError(t, err)
	checkFrames(t, events, 2)
}

func TestOneCommitIsFetchedWhileMainMoves(t *testing.T) {
	h := hubtest.New(t)
	h.Add(repo, hubtest.Small(100_000))
	var moved atomic.Bool
	h.Before = func(_ string, w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/revision/") && moved.Swap(true) {
			fmt.Fprintf(w, `{"sha":%q}`, strings.Repeat("f", 40))
			return true
		}
		return false
	}
	dir := t.TempDir()
	_, err := pull(t.Context(), manager(dir, h.URL, downloads.Options{}), "qwen3")
	require.NoError(t, err)
	for _, r := range h.Requests() {
		if strings.Contains(r.Path, "/resolve/") {
			assert.Contains(t, r.Path, "/resolve/"+hubtest.Commit+"/")
		}
	}
}

func TestNoNameMakesAFileOutsideTheLibrary(t *testing.T) {
	h := hubtest.New(t)
	outside := t.TempDir()
	dir := filepath.Join(outside, "models")
	m := manager(dir, h.URL, downloads.Options{})
	for _, name := range []string{"../x", `..\x`, "CON", "nul.bin", "x.", "a:b", "Org/..", "Org/.", "Org/CON", "Org/nul.bin", "Org/x.", "Org/console", strings.Repeat("n", 300), "sm\u212allm2", "a/b@../../x"} {
		_, err := pull(t.Context(), m, name)
		assert.Contains(t, []llm.Code{llm.CodeInvalid, llm.CodeModelNotFound}, llm.CodeOf(err), name)
	}
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	for _, e := range entries {
		assert.Equal(t, "models", e.Name())
	}
	for _, r := range h.Requests() {
		assert.Contains(t, r.Path, "Org/console", "a name that is none was sent to the hub")
	}
	assert.NotEmpty(t, h.Requests())
}

func TestWeightsOfAnotherKindAreNamedWithWhatToPullInstead(t *testing.T) {
	h := hubtest.New(t)
	said := `"gguf":{"total":8190735360,"architecture":"qwen3"},"tags":[]`
	for repo, file := range map[string]string{"a/Renamed": "m-q4_k_m.gguf", "Qwen/Qwen2.5-7B-Instruct": "model.safetensors", "b/Own": "model.safetensors", "c/Odd-GGUF": "m.gguf"} {
		h.Add(repo, map[string][]byte{file: []byte("GGUF")})
	}
	h.Before = func(where string, w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/revision/") {
			return false
		}
		info := `"tags":["base_model:finetune:Qwen/Qwen3-4B"]`
		switch {
		case strings.Contains(r.URL.Path, "Renamed"):
			info = said
		case strings.Contains(r.URL.Path, "Odd"):
			info = `"gguf":{"total":"many","architecture":"mamba"}`
		}
		fmt.Fprintf(w, `{"sha":%q,%s}`, hubtest.Commit, info)
		return true
	}
	m := manager(t.TempDir(), h.URL, downloads.Options{})
	for repo, want := range map[string]string{
		"a/Renamed":                "it has GGUF files of the architecture \"qwen3\"; `signalbox pull qwen3:8b` fetches OpenVINO/Qwen3-8B-int4-cw-ov instead",
		"Qwen/Qwen2.5-7B-Instruct": "it has PyTorch files; `signalbox pull qwen2.5:7b` fetches OpenVINO/Qwen2.5-7B-Instruct-int4-ov instead",
		"b/Own":                    "it has PyTorch files; `signalbox pull qwen3:4b` fetches OpenVINO/Qwen3-4B-int4-ov instead",
		"c/Odd-GGUF":               "it has GGUF files; look for the same model with -ov at the end of its name (`signalbox search`)",
	} {
		_, err := m.Preflight(t.Context(), repo)
		assert.ErrorContains(t, err, want)
		_, err = pull(t.Context(), m, repo)
		assert.ErrorContains(t, err, want)
	}
}
