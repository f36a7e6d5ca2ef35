package tray

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func speed(v float64) *float64 { return &v }

func TestDeviceLineTellsWhatTheDeviceDoes(t *testing.T) {
	for _, c := range []struct {
		device Device
		want   string
	}{
		{Device{Label: "NPU", State: "busy", Model: "smollm2:135m", TokensPerSecond: speed(61.23)}, "NPU: smollm2:135m, 61 tok/s"},
		{Device{Label: "NPU", State: "busy", Model: "smollm2:135m"}, "NPU: smollm2:135m"},
		{Device{Label: "NPU", State: "busy", Model: "m", TokensPerSecond: speed(5), Queued: 2}, "NPU: m, 5 tok/s, 2 waiting"},
		{Device{Label: "GPU", State: "loading", Model: "m", Phase: "compiling for GPU"}, "GPU: loading m, compiling for GPU"},
		{Device{Label: "GPU", State: "loading", Model: "m"}, "GPU: loading m"},
		{Device{Label: "CPU", State: "idle"}, "CPU: idle"},
		{Device{Label: "CPU", State: "off"}, "CPU: idle"},
		{Device{Label: "CPU", State: "idle", Model: "m"}, "CPU: idle (m is loaded)"},
		{Device{Label: "NPU (emulated on CPU)", State: "idle"}, "NPU (emulated on CPU): idle"},
		{Device{Label: "GPU.1", State: "restarting", Queued: 1}, "GPU.1: restarting after a fault, 1 waiting"},
		{Device{Label: "NPU", State: "unavailable"}, "NPU: not available"},
	} {
		assert.Equal(t, c.want, c.device.line())
	}
}

func TestServerLinesAndToggle(t *testing.T) {
	for _, c := range []struct {
		status Status
		lines  []string
		toggle string
		look   look
	}{
		{Status{Server: Server{State: "running", URL: "http://127.0.0.1:11434"}}, []string{"Server: http://127.0.0.1:11434"}, "Stop server", lookRunning},
		{Status{Server: Server{State: "stopped"}}, []string{"Server stopped"}, "Start server", lookStopped},
		{Status{}, []string{"Server stopped"}, "Start server", lookStopped},
		{Status{Server: Server{State: "failed", Error: "port 11434 is in use by ollama (pid 7)"}},
			[]string{"Server failed: port 11434 is in use by ollama (pid 7)"}, "Start server", lookProblem},
		{Status{Problem: "The runtime is missing.", Server: Server{State: "running", URL: "u"}},
			[]string{"The runtime is missing.", "Server: u"}, "Stop server", lookProblem},
		{Status{Server: Server{State: "running", URL: "u"}, Devices: []Device{{State: "idle"}, {State: "busy"}}}, []string{"Server: u"}, "Stop server", lookBusy},
		{Status{Devices: []Device{{State: "loading"}}}, []string{"Server stopped"}, "Start server", lookBusy},
		{Status{Devices: []Device{{State: "unavailable"}}, Server: Server{State: "running", URL: "u"}}, []string{"Server: u"}, "Stop server", lookRunning},
	} {
		assert.Equal(t, c.lines, c.status.serverLines())
		assert.Equal(t, c.toggle, c.status.toggleLabel())
		assert.Equal(t, c.look, c.status.look(), "%+v", c.status)
	}
}

func TestMoreDevicesThanLinesAreCounted(t *testing.T) {
	s := Status{Devices: make([]Device, maxDevices)}
	assert.Len(t, s.deviceLines(), maxDevices)
	s.Devices = make([]Device, maxDevices+3)
	lines := s.deviceLines()
	assert.Len(t, lines, maxDevices)
	assert.Equal(t, "and 4 more devices", lines[maxDevices-1])
}

func TestForeignTextBecomesOneShortLine(t *testing.T) {
	assert.Equal(t, "a b c", clean("a\nb\t\u202e  c\x07"))
	long := clean(strings.Repeat("é", 500))
	assert.Equal(t, 90, len([]rune(long)))
	assert.True(t, strings.HasSuffix(long, "…"))
}

func TestEachLookHasAPicture(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range []look{lookStopped, lookRunning, lookBusy, lookProblem} {
		data := string(picture(l))
		assert.NotEmpty(t, data)
		assert.False(t, seen[data])
		seen[data] = true
	}
}
