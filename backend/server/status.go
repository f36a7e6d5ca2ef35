package server

import "signalbox/backend/journal"

// Status is all that tray and window are drawn from.
type Status struct {
	Version string          `json:"version"` // Signalbox's own
	Server  ServerStatus    `json:"server"`
	Runtime RuntimeStatus   `json:"runtime"`
	Engine  string          `json:"engine"` // "openvino" or "fake"
	Devices []DeviceStatus  `json:"devices"`
	Models  int             `json:"models"`
	Active  []journal.Entry `json:"active"`
	Desktop DesktopStatus   `json:"desktop"`
	Notices []Notice        `json:"notices"`
}

// ServerStatus is the public listener.
type ServerStatus struct {
	State string `json:"state"` // running, stopped or failed
	URL   string `json:"url"`
	Error string `json:"error,omitempty"`
}

// RuntimeStatus is the native libraries.
type RuntimeStatus struct {
	OK      bool   `json:"ok"`
	Version string `json:"version"`
	Error   string `json:"error,omitempty"`
}

// DeviceStatus is one device.
type DeviceStatus struct {
	ID              string   `json:"id"` // "npu:0"
	Label           string   `json:"label"`
	Class           string   `json:"class"`
	Name            string   `json:"name"`
	Emulated        bool     `json:"emulated"`
	State           string   `json:"state"`           // off, idle, loading, busy, restarting or unavailable
	Phase           string   `json:"phase,omitempty"` // of a load; of a busy one: that it finishes what was cancelled
	Model           string   `json:"model,omitempty"` // that is loading or was used last
	Models          []string `json:"models"`          // loaded
	Running         int      `json:"running"`
	Queued          int      `json:"queued"`
	TokensPerSecond *float64 `json:"tokens_per_second"`
	Note            string   `json:"note,omitempty"`
}

// DesktopStatus is what this desktop can do.
type DesktopStatus struct {
	Window bool   `json:"window"`
	Tray   string `json:"tray"` // shown, missing or none
	Note   string `json:"note,omitempty"`
}

// Notice is a sentence for the window.
type Notice struct {
	Level string `json:"level"` // info, warn or error
	Text  string `json:"text"`
}

// status is the Status of now, with lists where the page expects lists.
func (s *Server) status() Status {
	st := s.deps.Status()
	st.Active = s.deps.Journal.Active()
	if st.Active == nil {
		st.Active = []journal.Entry{}
	}
	if st.Devices == nil {
		st.Devices = []DeviceStatus{}
	}
	for i := range st.Devices {
		if st.Devices[i].Models == nil {
			st.Devices[i].Models = []string{}
		}
	}
	if st.Notices == nil {
		st.Notices = []Notice{}
	}
	return st
}
