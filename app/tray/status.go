package tray

import (
	"fmt"
	"strings"
	"unicode"
)

// Status is all that the tray shows. The zero value is a stopped server without devices.
type Status struct {
	Title   string // "Signalbox 0.1.0"
	Server  Server
	Devices []Device
	Problem string // what keeps Signalbox from working, such as a missing runtime; empty for nothing
}

// Server is the public server.
type Server struct {
	State string // "running", "stopped" or "failed"
	URL   string // "http://127.0.0.1:11434"; while it runs
	Error string // why it failed
}

// Device is one processor that can run a model.
type Device struct {
	Label           string   // "NPU"
	State           string   // "off", "idle", "loading", "busy", "restarting" or "unavailable"
	Phase           string   // while loading: "compiling for NPU"
	Model           string   // the model that runs, loads or is loaded
	Queued          int      // requests that wait
	TokensPerSecond *float64 // nil when not known
}

// Running reports whether the public server takes requests.
func (s Status) Running() bool { return s.Server.State == "running" }

// look is which picture the icon shows.
type look int

const (
	lookStopped look = iota
	lookRunning
	lookBusy
	lookProblem
)

func (s Status) look() look {
	if s.Problem != "" || s.Server.State == "failed" {
		return lookProblem
	}
	for _, d := range s.Devices {
		if d.State == "busy" || d.State == "loading" {
			return lookBusy // the window chats while the server is stopped, too
		}
	}
	if s.Running() {
		return lookRunning
	}
	return lookStopped
}

// tooltip is one line for the pointer that rests on the icon.
func (s Status) tooltip() string {
	switch s.look() {
	case lookProblem:
		return s.Title + ": problem"
	case lookBusy:
		return s.Title + ": at work"
	case lookRunning:
		return s.Title + ": ready"
	}
	return s.Title + ": server stopped"
}

// maxDevices is how many devices have a line of their own.
const maxDevices = 8

// serverLines and deviceLines are the lines of the menu that only tell.
func (s Status) serverLines() []string {
	var lines []string
	if s.Problem != "" {
		lines = append(lines, clean(s.Problem))
	}
	switch s.Server.State {
	case "running":
		return append(lines, "Server: "+clean(s.Server.URL))
	case "failed":
		return append(lines, clean("Server failed: "+s.Server.Error))
	}
	return append(lines, "Server stopped")
}

func (s Status) deviceLines() []string {
	var lines []string
	for i, d := range s.Devices {
		if i == maxDevices-1 && len(s.Devices) > maxDevices {
			return append(lines, fmt.Sprintf("and %d more devices", len(s.Devices)-i))
		}
		lines = append(lines, clean(d.line()))
	}
	return lines
}

// line says what a device does: "NPU: smollm2:135m, 61 tok/s".
func (d Device) line() string {
	var text string
	switch d.State {
	case "busy":
		text = d.Model
		if d.TokensPerSecond != nil {
			text += fmt.Sprintf(", %.0f tok/s", *d.TokensPerSecond)
		}
	case "loading":
		text = "loading " + d.Model
		if d.Phase != "" {
			text += ", " + d.Phase
		}
	case "restarting":
		text = "restarting after a fault"
	case "unavailable":
		text = "not available"
	default:
		text = "idle"
		if d.Model != "" {
			text += " (" + d.Model + " is loaded)"
		}
	}
	if d.Queued > 0 {
		text += fmt.Sprintf(", %d waiting", d.Queued)
	}
	return d.Label + ": " + text
}

// toggleLabel is what the one item for the server does.
func (s Status) toggleLabel() string {
	if s.Running() {
		return "Stop server"
	}
	return "Start server"
}

// clean makes one short line of text that may hold names from the disk and errors of any length.
func clean(text string) string {
	const most = 90
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // Cf: bidi marks, which turn a line around
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return text
}
