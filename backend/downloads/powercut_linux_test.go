package downloads_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/hub/hubtest"
	"signalbox/backend/models"
)

var (
	written = regexp.MustCompile(`(?:write|pwrite64|ftruncate|fallocate)\(\d+<([^>]*)>`)
	synced  = regexp.MustCompile(`(?:fsync|fdatasync)\(\d+<([^>]*)>`)
	renamed = regexp.MustCompile(`rename(?:at2?)?\((?:AT_FDCWD[^,]*, )?"([^"]*)", (?:AT_FDCWD[^,]*, )?"([^"]*)"`)
	removed = regexp.MustCompile(`unlink(?:at)?\((?:AT_FDCWD[^,]*, )?"([^"]*)"`)
)

// TestAPowerCutLeavesAWholeModelOrNone watches the system calls of a pull. What was written and not synced may be gone after
// a power cut, so at the moment at which the model's folder appears in the library, all that is in it must have been synced,
// and the names in it too; and before anybody is told of success the library's folder must have been.
func TestAPowerCutLeavesAWholeModelOrNone(t *testing.T) {
	h := hubtest.New(t)
	files := hubtest.Small(3_000_000)
	files["1_Pooling/config.json"] = []byte(`{"pooling_mode_mean_tokens":true}`)
	h.Add(repo, files)
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-y", "-s", "32", "-o", trace,
		"-e", "trace=write,pwrite64,ftruncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat", os.Args[0])
	cmd.Env = append(os.Environ(), "PULL_FROM="+h.URL, "PULL_INTO="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "ended: <nil>")
	text, err := os.ReadFile(trace)
	require.NoError(t, err)

	dirty := map[string]bool{} // files with bytes, and folders with names, that a power cut may take
	appeared, told := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := written.FindStringSubmatch(line); m != nil && strings.HasPrefix(m[1], dir) {
			dirty[m[1]] = true
		}
		if strings.Contains(line, `"success`) && appeared != "" {
			told = true
			assert.False(t, dirty[dir], "the model's name was not synced when success was told")
		}
		if m := synced.FindStringSubmatch(line); m != nil {
			delete(dirty, m[1])
		}
		if m := removed.FindStringSubmatch(line); m != nil {
			delete(dirty, m[1])
		}
		if m := renamed.FindStringSubmatch(line); m != nil {
			from, to := m[1], m[2]
			if filepath.Dir(to) == dir && strings.HasPrefix(filepath.Base(to), "m-") {
				appeared = to
				for path := range dirty {
					assert.False(t, path == from || strings.HasPrefix(path, from+"/"), "%s was not synced when its model appeared", path)
				}
			}
			if dirty[from] {
				delete(dirty, from)
				dirty[to] = true
			}
			dirty[filepath.Dir(to)] = true
		}
	}
	require.NotEmpty(t, appeared, "the trace has no model:\n%.2000s", text)
	assert.True(t, told)

	// What such a cut can leave of a file that was being fetched is no model.
	for _, torn := range []func(path string) error{
		os.Remove,
		func(path string) error { return os.Truncate(path, 0) },
		func(path string) error { return os.Truncate(path, 50) },
	} {
		into := t.TempDir()
		copied := filepath.Join(into, filepath.Base(appeared))
		require.NoError(t, os.CopyFS(copied, os.DirFS(appeared)))
		require.NoError(t, torn(filepath.Join(copied, "openvino_model.bin")))
		m, err := models.Open(into).Find("qwen3:8b")
		require.NoError(t, err)
		assert.NotEmpty(t, m.Damaged)
	}
}
