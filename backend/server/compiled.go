package server

import (
	"encoding/json"
	"net/http"
	"time"
)

// Compiled is what is kept of compiled models.
type Compiled struct {
	Bytes  int64           `json:"bytes"`
	Limit  int64           `json:"limit"` // above it the longest unused goes
	Models []CompiledModel `json:"models"`
}

// CompiledModel is one model as it was compiled for one device.
type CompiledModel struct {
	Model      string    `json:"model"`
	Device     string    `json:"device"` // llm.Device.ID
	Label      string    `json:"label"`
	Bytes      int64     `json:"bytes"`
	CompiledAt time.Time `json:"compiled_at"`
	UsedAt     time.Time `json:"used_at"`
	Runtime    string    `json:"runtime"`
	Driver     string    `json:"driver,omitempty"`
	Again      string    `json:"again,omitempty"` // why it is compiled again at the next load, a clause; empty: it is not
}

// Compiling is how far the compiling of a model is.
type Compiling struct {
	Status   string  `json:"status"` // "compiling for NPU, once only, the last time it took 42s"
	ElapsedS float64 `json:"elapsed_s"`
}

// uiCompile compiles a model for a device, ahead of the first request. It ends when the client leaves.
func (s *Server) uiCompile(w *response, r *http.Request) error {
	var want struct {
		Model  string `json:"model"`
		Device string `json:"device"`
	}
	if err := decode(w, r, &want); err != nil {
		return err
	}
	if s.deps.Routing == nil {
		return notBuilt(w, r)
	}
	out := &lineStream{w: w}
	kept, err := s.deps.Routing.Compile(r.Context(), want.Model, want.Device, func(c Compiling) error {
		line, _ := json.Marshal(c) // a text and a number
		return out.send(line)
	})
	if err != nil {
		return out.end(r.Context(), err)
	}
	line, err := json.Marshal(struct {
		Status string        `json:"status"`
		Kept   CompiledModel `json:"kept"`
	}{"success", kept})
	if err != nil {
		return err
	}
	return out.send(line)
}

func (s *Server) uiCompiled(w *response, r *http.Request) error {
	if s.deps.Routing == nil {
		return notBuilt(w, r)
	}
	return w.jsonOf(http.StatusOK, s.deps.Routing.Compiled())
}

// uiRemoveCompiled removes what is kept of compiled models: of one device, of one model, or all.
func (s *Server) uiRemoveCompiled(w *response, r *http.Request) error {
	if s.deps.Routing == nil {
		return notBuilt(w, r)
	}
	freed, err := s.deps.Routing.RemoveCompiled(r.URL.Query().Get("device"), r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	return w.jsonOf(http.StatusOK, struct {
		Freed int64 `json:"freed"`
	}{freed})
}
