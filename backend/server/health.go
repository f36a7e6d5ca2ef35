package server

import "net/http"

// check is one thing that must be so before requests can be answered. Its words are ours: no path of this machine is in them.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// checks look at what is known already and wait for nothing.
func checks(st Status) []check {
	runtime := check{Name: "runtime", OK: st.Runtime.OK}
	if !runtime.OK {
		runtime.Reason = "the native runtime was not found, or not looked for yet: run signalbox doctor"
	}
	models := check{Name: "models", OK: st.Models > 0}
	if !models.OK {
		models.Reason = "no model is installed"
	}
	return []check{runtime, models}
}

type health struct {
	Status  string  `json:"status"`
	Version string  `json:"version,omitempty"`
	Engine  string  `json:"engine,omitempty"`
	Checks  []check `json:"checks,omitempty"`
}

// health tells that this process answers, and how things stand. It is 200 while anything answers.
func (s *Server) health(w *response, _ *http.Request) error {
	st := s.deps.Status()
	h := health{"ok", st.Version, st.Engine, checks(st)}
	for _, c := range h.Checks {
		if !c.OK {
			h.Status = "degraded"
		}
	}
	return w.jsonOf(http.StatusOK, h)
}

func (s *Server) liveness(w *response, _ *http.Request) error {
	return w.jsonOf(http.StatusOK, health{Status: "alive"})
}

// readiness is 503 while a request could not be answered. A model that is loading is no reason: requests wait for it.
func (s *Server) readiness(w *response, _ *http.Request) error {
	h := health{Status: "ready", Checks: checks(s.deps.Status())}
	status := http.StatusOK
	for _, c := range h.Checks {
		if !c.OK {
			h.Status, status = "not ready", http.StatusServiceUnavailable
		}
	}
	return w.jsonOf(status, h)
}

// healthDevices is how the devices stand, without what is for the window alone: notes and models.
func (s *Server) healthDevices(w *response, _ *http.Request) error {
	type device struct {
		ID       string `json:"id"`
		Label    string `json:"label"`
		Class    string `json:"class"`
		Name     string `json:"name"`
		Emulated bool   `json:"emulated"`
		State    string `json:"state"`
		Running  int    `json:"running"`
		Queued   int    `json:"queued"`
		Loaded   int    `json:"models_loaded"`
	}
	list := []device{}
	for _, d := range s.deps.Status().Devices {
		list = append(list, device{d.ID, d.Label, d.Class, d.Name, d.Emulated, d.State, d.Running, d.Queued, len(d.Models)})
	}
	return w.jsonOf(http.StatusOK, struct {
		Devices []device `json:"devices"`
	}{list})
}
