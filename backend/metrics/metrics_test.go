package metrics_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/metrics"
)

// read is what a view says, line by line, without comments.
func read(t *testing.T, view http.Handler) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	view.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	require.Equal(t, 200, w.Code, string(text))
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && line[0] != '#' {
			lines[name+"}"] = value
		} else if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && line[0] != '#' {
			lines[name] = value
		}
	}
	return lines
}

func of[T any](v T) *T { return &v }

// answered is a request as it usually ends.
func answered() metrics.Request {
	return metrics.Request{Route: "/api/chat", Client: "Zed", Took: 2 * time.Second, Record: llm.Record{
		ModelUsed: "smollm2:135m", RoutedDevice: "NPU", ExecutionDevice: "CPU", RouteRule: "busy", FallbackReason: llm.FallbackBusy, Outcome: llm.OutcomeCompleted,
		PromptTokens: of(100), CachedTokens: of(40), CompletionTokens: of(20), QueueMS: of(30.0), LoadMS: of(1500.0), TTFTMS: of(400.0),
		PrefillMS: of(300.0), DecodeMS: of(1000.0), TokensPerSecond: of(19.0),
	}}
}

func TestWhatAnAnswerTookIsCountedOnce(t *testing.T) {
	m := metrics.New("1.2.3", func() []metrics.Device { return nil })
	m.Ended(answered())
	got := read(t, m.Public())
	for name, value := range map[string]string{
		`signalbox_requests_total{device="CPU",outcome="completed",route="/api/chat"}`:               "1",
		`signalbox_routing_decisions_total{executed="CPU",fallback="busy",routed="NPU",rule="busy"}`: "1",
		`signalbox_tokens_total{device="CPU",kind="prompt"}`:                                         "100",
		`signalbox_tokens_total{device="CPU",kind="cached"}`:                                         "40",
		`signalbox_tokens_total{device="CPU",kind="completion"}`:                                     "20",
		`signalbox_loads_total{device="CPU"}`:                                                        "1",
		`signalbox_request_seconds_sum{device="CPU"}`:                                                "2",
		`signalbox_time_to_first_token_seconds_sum{device="CPU"}`:                                    "0.4",
		`signalbox_queue_seconds_sum{device="CPU"}`:                                                  "0.03",
		`signalbox_load_seconds_sum{device="CPU"}`:                                                   "1.5",
		`signalbox_decode_seconds_count{device="CPU"}`:                                               "1",
		`signalbox_tokens_per_second_sum{device="CPU"}`:                                              "19",
		`signalbox_build_info{version="1.2.3"}`:                                                      "1",
	} {
		assert.Equal(t, value, got[name], name)
	}
	assert.NotContains(t, got, `signalbox_cancel_seconds_count{device="CPU"}`, "nothing was cancelled")
}

func TestWhatIsNotKnownIsNotCounted(t *testing.T) {
	m := metrics.New("1", func() []metrics.Device { return nil })
	m.Ended(metrics.Request{Route: "/api/chat", Client: "curl", Record: llm.Record{Outcome: llm.OutcomeRejected}, Err: llm.Errorf(llm.CodeModelNotFound, "no")})
	m.Ended(metrics.Request{Route: "/api/chat", Client: "curl", Record: llm.Record{Outcome: llm.OutcomeError}, Err: errors.New("what is this")})
	got := read(t, m.Public())
	assert.Equal(t, "1", got[`signalbox_requests_total{device="none",outcome="rejected",route="/api/chat"}`])
	assert.Equal(t, "1", got[`signalbox_errors_total{code="model_not_found"}`])
	assert.Equal(t, "1", got[`signalbox_errors_total{code="internal"}`])
	for name := range got {
		for _, absent := range []string{"signalbox_tokens_total", "signalbox_loads_total", "signalbox_routing_decisions_total", "signalbox_time_to_first_token", "signalbox_tokens_per_second"} {
			assert.False(t, strings.HasPrefix(name, absent), name)
		}
	}
}

func TestActiveRequestsAreThoseBetweenBeginAndEnd(t *testing.T) {
	m := metrics.New("1", func() []metrics.Device { return nil })
	first, second := m.Begin(), m.Begin()
	assert.Equal(t, "2", read(t, m.Public())["signalbox_requests_active"])
	first()
	assert.Equal(t, "1", read(t, m.Public())["signalbox_requests_active"])
	second()
	assert.Equal(t, "0", read(t, m.Public())["signalbox_requests_active"])
}

// The public port answers every page and account of this machine: who uses what is for the window alone.
func TestOnlyTheWindowSeesWhoUsesWhichModel(t *testing.T) {
	m := metrics.New("1", func() []metrics.Device { return nil })
	m.Ended(answered())
	public, window := read(t, m.Public()), read(t, m.Window())
	for name := range public {
		assert.NotContains(t, name, "smollm2")
		assert.NotContains(t, name, "Zed")
		assert.Contains(t, window, name, "the window sees all")
	}
	assert.Equal(t, "1", window[`signalbox_model_requests_total{device="CPU",model="smollm2:135m",outcome="completed"}`])
	assert.Equal(t, "100", window[`signalbox_model_tokens_total{kind="prompt",model="smollm2:135m"}`])
	assert.Equal(t, "1", window[`signalbox_client_requests_total{client="Zed",outcome="completed",route="/api/chat"}`])
	assert.Contains(t, window, "go_goroutines")
	assert.NotContains(t, public, "go_goroutines")
}

func TestDevicesAreAskedWhenSomebodyLooks(t *testing.T) {
	list := []metrics.Device{{ID: "npu:0", Up: true, Running: 1, Queued: 3, Loaded: 2}}
	m := metrics.New("1", func() []metrics.Device { return list })
	got := read(t, m.Public())
	for gauge, want := range map[string]int{"up": 1, "requests_running": 1, "requests_queued": 3, "models_loaded": 2} {
		assert.Equal(t, fmt.Sprint(want), got[fmt.Sprintf(`signalbox_device_%s{device="npu:0"}`, gauge)], gauge)
	}
	list = []metrics.Device{{ID: "cpu:0"}}
	got = read(t, m.Public())
	assert.Equal(t, "0", got[`signalbox_device_up{device="cpu:0"}`])
	assert.NotContains(t, got, `signalbox_device_up{device="npu:0"}`, "it is not there any more")
}
