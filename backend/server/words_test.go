package server_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/dispatch"
	"signalbox/backend/llm"
	"signalbox/backend/server"
	"signalbox/internal/config"
)

// goWords are what the JSON decoder says to programmers.
var goWords = []string{"EOF", "json:", "Go struct", "Go value", "unmarshal", "config.", "struct", "float64", "invalid duration"}

func TestNoOneIsToldInTheWordsOfOurLanguage(t *testing.T) {
	r := newRig(t)
	for path := range askers {
		for _, body := range []string{`{`, `{"model":`, `{"model":"smollm2:135m"`, `[]`, `"`, `nul`, `{"model":1}`, `{"model":"smollm2:135m","keep_alive":"soon"}`, `{"model":"smollm2:135m","stream":"yes"}`} {
			_, text := do(t, "POST", r.public.URL+path, body)
			for _, word := range goWords {
				assert.NotContains(t, text, word, "%s %s", path, body)
			}
		}
	}
	for _, coding := range []string{"gzip", "zstd"} {
		resp, text := do(t, "POST", r.public.URL+"/api/show", "{}", "Content-Encoding", coding)
		assert.Equal(t, 400, resp.StatusCode, coding)
		for _, word := range goWords {
			assert.NotContains(t, text, word, coding)
		}
	}
	for body, want := range map[string]string{
		``:                                       "missing request body",
		`{`:                                      "the request body is no whole JSON: it ends in the middle",
		`{"port":`:                               "the request body is no whole JSON: it ends in the middle",
		`{"port":1`:                              "the request body is no whole JSON: it ends in the middle",
		`x`:                                      "the request body is not JSON: invalid character 'x' looking for beginning of value",
		`[]`:                                     "the request body must be an object, not an array",
		`{"port":"one"}`:                         "port must be a whole number, not a string",
		`{"port":1.5}`:                           "port must be a whole number, not 1.5",
		`{"port":1e300}`:                         "port must be a whole number, not 1e300",
		`{"emulate_npu":1}`:                      "emulate_npu must be a boolean, not a number",
		`{"origins":"x"}`:                        "origins must be an array, not a string",
		`{"pins":[{"device":true}]}`:             "pins.device must be a string, not a boolean",
		`{"keep_alive":"soon"}`:                  `keep_alive: \"soon\" is no duration`,
		`{"keep_alive":true}`:                    "keep_alive: true is no duration",
		`{"keep_alive":1e300}`:                   "keep_alive must be at most 87600h",
		`{"origins":["evil"]}`:                   `origins: \"evil\" is no origin`,
		`{"hub_endpoint":"javascript:alert(1)"}`: "hub_endpoint: ",
		`{"models_dir":"/dev/null"}`:             "models_dir: ",
		`{"runtime_dir":"/dev/null"}`:            "runtime_dir: ",
		`null`:                                   "the request body must be an object, not null",
		`{"preference":["CPU","CPU"]}`:           "preference has CPU twice",
		`{"default_model":"` + strings.Repeat("x", 1000) + `"}`: "default_model: ",
		`{"prot":1}`: `there is no field called \"prot\" here`,
		`{"` + strings.Repeat("x", 1<<16) + `":1}`: "there is no field called",
	} {
		status, text := r.call(t, "PUT", "/ui/settings", body)
		assert.Equal(t, 400, status, "%.40s", body)
		assert.Contains(t, text, want, "%.40s", body)
		assert.Less(t, len(text), 200, "%.40s", body)
	}
	_, settings := r.call(t, "GET", "/ui/settings", "")
	assert.Contains(t, settings, `"origins":[]`)
	assert.Contains(t, settings, `"hub_endpoint":""`)
	assert.Contains(t, settings, `"refuse_client_downloads":false`)
	_, text := do(t, "POST", r.public.URL+"/api/route/explain", "")
	assert.Contains(t, text, "missing request body")
	_, text = do(t, "POST", r.public.URL+"/v1/responses", `{"model":"smollm2:135m","input":"x","instructions":1}`)
	assert.Contains(t, text, "Invalid type for 'instructions': expected a string, but got a number instead.")
	resp, text := do(t, "POST", r.public.URL+"/api/route/explain", `{"model":`)
	assert.Equal(t, 400, resp.StatusCode)
	assert.Contains(t, text, "it ends in the middle")
}

func TestAFullDiskIsSaidAndNoFaultOfOurs(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "settings.json", Err: syscall.ENOSPC}
	if runtime.GOOS == "windows" {
		full.Err = syscall.Errno(112) // ERROR_DISK_FULL
	}
	r := newRig(t, func(d *server.Deps) {
		d.ChangeSettings = func(func(*config.Settings) error) error { return fmt.Errorf("save the settings: %w", full) }
	})
	status, text := r.call(t, "PUT", "/ui/settings", `{"theme":"dark"}`)
	assert.Equal(t, 507, status)
	assert.Contains(t, text, "the disk is full: save the settings: ")
	assert.Contains(t, text, "free some space and try again")
}

func TestAHeaderThatNamesNoDeviceIsNotPassedOver(t *testing.T) {
	r := newRig(t)
	for path, body := range askers {
		for device, want := range map[string]int{"toaster": 400, "gpu:x": 400, "GPU.1": 200, "": 200} {
			resp, text := do(t, "POST", r.public.URL+path, fmt.Sprintf(body, false), "X-Signalbox-Device", device)
			assert.Equal(t, want, resp.StatusCode, "%s %s: %s", path, device, text)
			if want == 400 {
				assert.Contains(t, text, "the header X-Signalbox-Device must be npu, gpu or cpu")
			}
		}
	}
}

func TestALongNameIsNotSentBackWhole(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("x", 1<<16)
	for path, body := range map[string]string{
		"/api/show": `{"model":"` + long + `"}`, "/v1/embeddings": `{"model":"` + long + `","input":"x"}`, "/api/embed": `{"model":"` + long + `","input":"x"}`,
		"/api/route/explain": `{"model":"` + long + `","prompt":"x"}`,
	} {
		_, text := do(t, "POST", r.public.URL+path, body)
		assert.Less(t, len(text), 1000, path)
	}
	for path, body := range askers {
		resp, text := do(t, "POST", r.public.URL+path, strings.Replace(strings.Replace(body, "%t", "false", 1), "smollm2:135m", long, 1))
		assert.Contains(t, []int{400, 404}, resp.StatusCode, path)
		assert.Less(t, len(text), 1000, path)
	}
}

func TestAHeaderThatNamesTwoDevicesIsRefused(t *testing.T) {
	r := newRig(t)
	for path, body := range askers {
		for _, c := range []struct {
			devices []string
			want    int
		}{{[]string{"npu", "cpu"}, 400}, {[]string{"GPU.1", "gpu:1"}, 200}} {
			req, err := http.NewRequest("POST", r.public.URL+path, strings.NewReader(fmt.Sprintf(body, false)))
			require.NoError(t, err)
			req.Header["X-Signalbox-Device"] = c.devices
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			require.NoError(t, err)
			assert.Equal(t, c.want, resp.StatusCode, "%s %v: %s", path, c.devices, text)
			if c.want == 400 {
				assert.Contains(t, string(text), "the header X-Signalbox-Device names npu and cpu: send it once")
			}
		}
	}
}

// again is a dispatcher whose first try fails half-way.
type again struct{ server.Dispatcher }

func (d again) Generate(ctx context.Context, call dispatch.Call, answer dispatch.Answer) (llm.Record, llm.Stats, error) {
	if answer.Again != nil {
		_ = answer.Delta(llm.Delta{Text: "HALF"})
		answer.Again()
	}
	return d.Dispatcher.Generate(ctx, call, answer)
}

func TestAnAnswerThatIsMadeAgainHasNothingOfTheFirst(t *testing.T) {
	r := newRig(t, func(d *server.Deps) { d.Dispatch = again{d.Dispatch} })
	for path, body := range askers {
		for _, stream := range []bool{false, true} {
			resp, text := do(t, "POST", r.public.URL+path, fmt.Sprintf(body, stream))
			assert.Equal(t, 200, resp.StatusCode, "%s: %s", path, text)
			assert.NotContains(t, text, "HALF", path)
		}
	}
}
