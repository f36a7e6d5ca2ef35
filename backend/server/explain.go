package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/gorilla/mux"

	"signalbox/backend/anthropic"
	"signalbox/backend/cards"
	"signalbox/backend/dispatch"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/ollama"
	"signalbox/backend/openai"
	"signalbox/backend/router"
	"signalbox/backend/wire"
	"signalbox/internal/brief"
)

// Routing tells where requests would go and why, and what is known of models on devices.
type Routing interface {
	Explain(ctx context.Context, call dispatch.Call) (dispatch.Explanation, error)
	Cards() []cards.Card
	CardsOf(m models.Model) []cards.Card                    // on the devices that are here
	Release(device, model string) (released int, err error) // model may be empty: all of them
	ContextLength(m models.Model) int                       // the most tokens that one of the devices here takes
	Rules() []router.Rule                                   // with what the settings say
	Compiled() Compiled
	// Compile compiles a model for a device and tells what is kept of it; Bytes is 0 where that device keeps nothing.
	Compile(ctx context.Context, model, device string, tell func(Compiling) error) (CompiledModel, error)
	RemoveCompiled(device, model string) (freed int64, err error) // both may be empty: all
}

// routingRoutes is what the window's listener has for devices and their cards.
func (s *Server) routingRoutes() []route {
	o := ollamaDialect
	return []route{
		{"GET", "/ui/cards", o, s.uiCards, false},
		{"GET", "/ui/rules", o, s.uiRules, false},
		{"GET", "/ui/compiled", o, s.uiCompiled, false},
		{"DELETE", "/ui/compiled", o, s.uiRemoveCompiled, false},
		{"POST", "/ui/compile", o, s.uiCompile, false},
		{"POST", "/ui/devices/{id}/release", o, s.uiRelease, false},
	}
}

// parsers read a request of a route as far as routing needs it.
var parsers = map[string]func([]byte) (llm.Request, error){
	"/api/chat":            func(b []byte) (llm.Request, error) { r, err := ollama.ParseChat(b); return r.LLM, err },
	"/api/generate":        func(b []byte) (llm.Request, error) { r, err := ollama.ParseGenerate(b); return r.LLM, err },
	"/api/embed":           func(b []byte) (llm.Request, error) { r, err := ollama.ParseEmbed(b); return r.LLM, err },
	"/api/embeddings":      func(b []byte) (llm.Request, error) { r, err := ollama.ParseEmbeddings(b); return r.LLM, err },
	"/v1/chat/completions": func(b []byte) (llm.Request, error) { r, err := openai.ParseChat(b); return r.LLM, err },
	"/v1/responses":        func(b []byte) (llm.Request, error) { r, err := openai.ParseResponses(b); return r.LLM, err },
	"/v1/embeddings":       func(b []byte) (llm.Request, error) { r, err := openai.ParseEmbeddings(b); return r.LLM, err },
	"/v1/messages":         func(b []byte) (llm.Request, error) { r, err := anthropic.ParseMessages(b); return r.LLM, err },
	"/v1/completions": func(b []byte) (llm.Request, error) {
		r, err := openai.ParseCompletions(b)
		req := r.LLM
		if len(r.Prompts) > 0 {
			req.Prompt = r.Prompts[0]
		}
		return req, err
	},
}

// readAny reads a body of any dialect. as names the route it is meant for; without it, the body's fields tell, and where several
// dialects have them, the first that takes the body.
func readAny(body []byte, as string) (llm.Request, string, error) {
	if as != "" {
		parse, ok := parsers[as]
		if !ok {
			e := llm.Errorf(llm.CodeInvalid, "as must be the path of a route that takes prompts, such as /v1/chat/completions, not %q", brief.Text(as))
			e.Param = "as"
			return llm.Request{}, "", e
		}
		req, err := parse(body)
		return req, as, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return llm.Request{}, "", wire.BadJSON(err)
	}
	has := func(name string) bool { _, ok := fields[name]; return ok }
	candidates := []string{"/api/chat", "/v1/chat/completions", "/v1/messages"}
	switch {
	case has("messages") && has("max_tokens") && has("system"):
		candidates = []string{"/v1/messages", "/v1/chat/completions", "/api/chat"}
	case has("messages") && !has("options") && (has("max_tokens") || has("max_completion_tokens") || has("stream_options") || has("temperature")):
		candidates = []string{"/v1/chat/completions", "/v1/messages", "/api/chat"}
	case has("messages"):
	case has("input") && (has("instructions") || has("max_output_tokens") || has("reasoning")):
		candidates = []string{"/v1/responses", "/v1/embeddings"}
	case has("input"):
		candidates = []string{"/api/embed", "/v1/embeddings", "/v1/responses"}
	case has("prompt") && (has("max_tokens") || has("echo") || has("best_of")):
		candidates = []string{"/v1/completions", "/api/generate"}
	case has("prompt"):
		candidates = []string{"/api/generate", "/v1/completions"}
	}
	var first error
	for _, path := range candidates {
		req, err := parsers[path](body)
		if err == nil {
			return req, path, nil
		}
		if first == nil {
			first = err
		}
	}
	return llm.Request{}, "", first
}

// explained is the answer of /api/route/explain.
type explained struct {
	Would        string            `json:"would"` // "run" or "refuse"
	As           string            `json:"as"`    // the route whose body it was taken for
	Model        string            `json:"model"`
	Device       string            `json:"device,omitempty"`
	RoutedDevice string            `json:"routed_device,omitempty"`
	EndpointID   string            `json:"endpoint_id,omitempty"`
	Rule         string            `json:"route_rule"`
	Reason       string            `json:"route_reason"`
	PolicyID     string            `json:"policy_id,omitempty"`
	Fallback     string            `json:"fallback_reason,omitempty"`
	Rejected     []llm.Rejection   `json:"rejected"`
	PromptTokens int               `json:"prompt_tokens"`
	PromptLimit  *int              `json:"prompt_limit"` // of the device; null: not known
	Assumed      bool              `json:"assumed"`      // the limit was not measured
	WarmUp       string            `json:"warm_up,omitempty"`
	Devices      []explainedDevice `json:"devices"`
	Error        string            `json:"error,omitempty"`
	Status       int               `json:"status"` // what the request would be answered with
}

// explainedDevice is what a decision knew of a device.
type explainedDevice struct {
	Device      string   `json:"device"`
	EndpointID  string   `json:"endpoint_id"`
	Loaded      bool     `json:"loaded"`
	Running     int      `json:"running"`
	Queued      int      `json:"queued"`
	PromptLimit *int     `json:"prompt_limit"`
	Assumed     bool     `json:"assumed"`
	FirstTokenS *float64 `json:"first_token_s"` // expected, in seconds; null: not measured
	Absent      string   `json:"absent,omitempty"`
	Quarantined string   `json:"quarantined,omitempty"`
	Wrong       string   `json:"wrong_answers,omitempty"`
}

func (s *Server) explainRoute(w *response, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	req, as, err := readAny(body, r.URL.Query().Get("as"))
	if err != nil {
		return err
	}
	if err := pinDevice(r, &req); err != nil {
		return err
	}
	if s.deps.Routing == nil {
		return notBuilt(w, r)
	}
	call := s.call(w, r, req)
	call.Route = as
	e, err := s.deps.Routing.Explain(r.Context(), call)
	if err != nil && e.Model.Name == "" {
		return named(err, req.Model)
	}
	return w.jsonOf(http.StatusOK, explanation(e, as, err))
}

func explanation(e dispatch.Explanation, as string, err error) explained {
	d := e.Decision
	x := explained{
		Would: "run", As: as, Model: e.Model.Name, Rule: d.Rule, Reason: d.Reason, PolicyID: d.PolicyID, Fallback: d.Fallback,
		Rejected: d.Rejected, PromptTokens: e.Facts.Request.PromptTokens, PromptLimit: known(d.PromptLimit), Assumed: d.Assumed,
		Devices: []explainedDevice{}, Status: http.StatusOK,
	}
	if x.Rejected == nil {
		x.Rejected = []llm.Rejection{}
	}
	if err != nil {
		x.Would, x.Error, x.Status, x.Reason = "refuse", err.Error(), statusOf(llm.CodeOf(err)), err.Error()
	} else {
		x.Device, x.RoutedDevice, x.EndpointID = d.Device.Label(), d.Routed.Label(), d.Device.ID()
	}
	if d.WarmUp != nil {
		x.WarmUp = d.WarmUp.Label()
	}
	for _, f := range e.Facts.Devices {
		x.Devices = append(x.Devices, explainDevice(f, e.Facts))
	}
	return x
}

func explainDevice(f router.DeviceFacts, facts router.Facts) explainedDevice {
	d := explainedDevice{
		Device: f.Label(), EndpointID: f.ID(), Loaded: f.Loaded, Running: f.Running, Queued: f.Queued, Assumed: f.Assumed,
		PromptLimit: known(facts.PromptLimit(f)), Absent: f.Absent, Quarantined: f.Quarantined, Wrong: f.Wrong,
	}
	if first, ok := f.FirstToken(facts.Request.PromptTokens); ok {
		seconds := first.Seconds()
		d.FirstTokenS = &seconds
	}
	return d
}

func known(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func (s *Server) uiCards(w *response, r *http.Request) error {
	if s.deps.Routing == nil {
		return notBuilt(w, r)
	}
	return w.jsonOf(http.StatusOK, struct {
		Cards []cards.Card `json:"cards"`
	}{s.deps.Routing.Cards()})
}

// uiRules lists the rules in the order in which they apply, for the window to explain them.
func (s *Server) uiRules(w *response, r *http.Request) error {
	if s.deps.Routing == nil {
		return notBuilt(w, r)
	}
	return w.jsonOf(http.StatusOK, struct {
		Rules []router.Rule `json:"rules"`
	}{s.deps.Routing.Rules()})
}

// uiRelease ends quarantines: of the model that the body names, else of all on the device.
func (s *Server) uiRelease(w *response, r *http.Request) error {
	var want struct {
		Model string `json:"model"`
	}
	if err := decode(w, r, &want); err != nil {
		return err
	}
	if s.deps.Routing == nil {
		return notBuilt(w, r)
	}
	n, err := s.deps.Routing.Release(mux.Vars(r)["id"], want.Model)
	if err != nil {
		return err
	}
	return w.jsonOf(http.StatusOK, struct {
		Released int `json:"released"`
	}{n})
}
