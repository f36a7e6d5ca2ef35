package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/dispatch"
	"signalbox/backend/llm"
	"signalbox/backend/server"
)

// standing is a status with secrets where they could be.
func standing() server.Status {
	return server.Status{
		Version: "0.1.0", Engine: "openvino", Runtime: server.RuntimeStatus{OK: true}, Models: 2,
		Devices: []server.DeviceStatus{{ID: "npu:0", Label: "NPU", Class: "NPU", Name: "Intel(R) AI Boost", State: "loading", Phase: "compiling",
			Models: []string{"secret-model"}, Running: 1, Queued: 3, Note: "/home/secret/model is kept off this device"}},
	}
}

func TestHealthWaitsForNothingAndTellsNoPaths(t *testing.T) {
	st := standing()
	r := newRig(t, func(d *server.Deps) { d.Status = func() server.Status { return st } })
	hold := make(chan struct{})
	entered := make(chan struct{})
	r.before = func(ctx context.Context, _ dispatch.Call) error { // a load that goes on
		close(entered)
		<-hold
		return ctx.Err()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody)
	}()
	<-entered
	for path, want := range map[string]string{
		"/health":           `{"status":"ok","version":"0.1.0","engine":"openvino","checks":[{"name":"runtime","ok":true},{"name":"models","ok":true}]}`,
		"/health/liveness":  `{"status":"alive"}`,
		"/health/readiness": `{"status":"ready","checks":[{"name":"runtime","ok":true},{"name":"models","ok":true}]}`,
		"/health/devices":   `{"devices":[{"id":"npu:0","label":"NPU","class":"NPU","name":"Intel(R) AI Boost","emulated":false,"state":"loading","running":1,"queued":3,"models_loaded":1}]}`,
	} {
		resp, text := do(t, "GET", r.public.URL+path, "")
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, want, text)
	}
	close(hold)
	<-done
	st.Runtime = server.RuntimeStatus{Error: "/home/secret/runtime is missing"}
	resp, text := do(t, "GET", r.public.URL+"/health/readiness", "")
	assert.Equal(t, 503, resp.StatusCode)
	assert.NotContains(t, text, "secret")
	resp, text = do(t, "GET", r.public.URL+"/health", "")
	assert.Equal(t, 200, resp.StatusCode)
	assert.Contains(t, text, `"status":"degraded"`)
	assert.NotContains(t, text, "secret")
}

func TestMetricsCountByDeviceAndReasonWithoutNames(t *testing.T) {
	r := newRig(t, func(d *server.Deps) { d.Status = standing })
	for _, agent := range []string{"Zed/1", "evil-name-1/2", "evil-name-2/2"} {
		_, _ = do(t, "POST", r.public.URL+"/api/chat", `{"model":"smollm2:135m","messages":[{"role":"user","content":"CANARY"}],"stream":false}`, "User-Agent", agent)
	}
	r.before = func(context.Context, dispatch.Call) error { return llm.Errorf(llm.CodeOverloaded, "full") }
	_, _ = do(t, "POST", r.public.URL+"/v1/messages", fmt.Sprintf(askers["/v1/messages"], false))
	_, _ = do(t, "POST", r.public.URL+"/v1/embeddings", `{"model":"CANARY","input":"x"}`)

	resp, public := do(t, "GET", r.public.URL+"/metrics", "")
	require.Equal(t, 200, resp.StatusCode)
	assert.Contains(t, resp.Header.Get("Content-Type"), "text/plain")
	for _, line := range []string{
		`signalbox_requests_total{device="mock",outcome="completed",route="/api/chat"} 3`,
		`signalbox_errors_total{code="overloaded"} 1`,
		`signalbox_errors_total{code="model_not_found"} 1`,
		`signalbox_routing_decisions_total{executed="mock",fallback="none",routed="mock",rule="preference"}`,
		`signalbox_tokens_total{device="mock",kind="completion"}`,
		`signalbox_device_requests_queued{device="npu:0"} 3`,
		`signalbox_requests_active 0`,
		`signalbox_request_seconds_count{device="mock"}`,
	} {
		assert.Contains(t, public, line)
	}
	for _, word := range []string{"CANARY", "smollm2", "Zed", "evil", "secret", "process_", "go_"} {
		assert.NotContains(t, public, word, "A4, A26: nothing that callers wrote, no models, no clients")
	}
	resp, window := do(t, "GET", r.ui.URL+"/metrics", "", "Authorization", "Bearer "+token)
	require.Equal(t, 200, resp.StatusCode)
	assert.Contains(t, window, `signalbox_client_requests_total{client="Zed",outcome="completed",route="/api/chat"} 1`)
	assert.Contains(t, window, `signalbox_client_requests_total{client="other",outcome="completed",route="/api/chat"} 2`)
	assert.Contains(t, window, `signalbox_model_requests_total{device="mock",model="smollm2:135m",outcome="completed"} 3`)
	assert.NotContains(t, window, "evil")
	resp, _ = do(t, "GET", r.ui.URL+"/metrics", "")
	assert.Equal(t, 403, resp.StatusCode)
}

func TestConnectKnowsPortModelAndWhoWasThere(t *testing.T) {
	r := newRig(t, func(d *server.Deps) {
		d.Status = func() server.Status {
			return server.Status{Server: server.ServerStatus{State: "running", URL: "http://127.0.0.1:4711"}}
		}
	})
	get := func(query string) (int, map[string]any) {
		resp, text := do(t, "GET", r.ui.URL+"/ui/connect"+query, "", "Authorization", "Bearer "+token)
		return resp.StatusCode, object(t, text)
	}
	_, _ = do(t, "POST", r.public.URL+"/api/generate", chatBody, "User-Agent", "Zed/1")
	status, o := get("")
	require.Equal(t, 200, status)
	assert.Equal(t, "http://127.0.0.1:4711", o["url"])
	assert.Equal(t, chatModel, o["model"])
	for _, c := range o["clients"].([]any) {
		client := c.(map[string]any)
		assert.Equal(t, client["id"] == "zed", client["last_seen"] != nil, client["id"])
	}
	status, o = get("?model=smollm2:135m")
	assert.Equal(t, 200, status)
	assert.Equal(t, chatModel, o["model"])
	status, _ = get("?model=nobody")
	assert.Equal(t, 404, status)
	status, _ = get("?model=" + embedModel)
	assert.Equal(t, 400, status)
	_, text := do(t, "GET", r.public.URL+"/ui/connect", "")
	assert.True(t, strings.HasPrefix(text, "404"), "not on the public port")
}
