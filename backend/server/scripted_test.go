package server_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"signalbox/backend/dispatch"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
	"signalbox/backend/models"
	"signalbox/backend/ollama"
	"signalbox/backend/server"
	"signalbox/internal/config"
)

// scripted is a dispatcher over the fake engine in this process: it keeps records, and nothing else that a real one does.
// Hooks let a test stand where the real one would wait or refuse.
type scripted struct {
	journal *journal.Journal
	library library
	engine  *llmtest.Fake
	before  func(context.Context, dispatch.Call) error          // before the decision; may be nil
	decided func(context.Context)                               // after Begin, before the first token; may be nil
	says    func(emit func(llm.Delta) error) (llm.Stats, error) // in place of the engine; may be nil

	mu      sync.Mutex
	calls   []dispatch.Call                    // guarded by mu
	running map[string]context.CancelCauseFunc // guarded by mu
}

var _ server.Dispatcher = (*scripted)(nil)

type library []models.Model

func (l library) List() ([]models.Model, error) { return l, nil }

func (l library) Find(name string) (models.Model, error) {
	for _, m := range l {
		if m.Name == name || m.Name == name+":latest" {
			return m, nil
		}
	}
	return models.Model{}, llm.Errorf(llm.CodeModelNotFound, "no model is called %q", name).WithHint("there is smollm2:135m")
}

func (d *scripted) begin(ctx context.Context, call dispatch.Call) (context.Context, *journal.Live, llm.Record) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := 0.5
	rec := llm.Record{
		TraceID: call.TraceID, ModelUsed: call.Request.Model, ModelVersion: "sha256:00", Provider: "fake/1", EndpointID: "mock:0",
		InferenceRegion: "local", SovereigntyClass: "on-device", PolicyID: "preference", Retention: "metadata/30d",
		CostEstimate: llm.Cost{Currency: "EUR", Basis: "measured", DeviceSeconds: &one}, RoutedDevice: "mock", ExecutionDevice: "mock",
		RouteRule: "preference", RouteReason: "It is the only one.", Ignored: call.Request.Ignored, Clamped: call.Request.Clamped,
	}
	live := d.journal.Begin(journal.Entry{
		Record: rec, Client: call.Client, UserAgent: call.UserAgent, Route: call.Route, ModelAsked: call.Request.Model, StartedAt: call.Arrived,
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, call)
	d.running[call.TraceID] = cancel
	return ctx, live, rec
}

func (d *scripted) end(ctx context.Context, live *journal.Live, rec llm.Record, stats llm.Stats, err error) (llm.Record, error) {
	if why, ok := context.Cause(ctx).(*llm.Error); ok && err != nil {
		err = why
	}
	rec.Outcome = llm.OutcomeCompleted
	if stats.Finish == llm.FinishLength {
		rec.Outcome = llm.OutcomeLength
	}
	if err != nil {
		rec.Outcome = llm.OutcomeError
		switch llm.CodeOf(err) {
		case llm.CodeCancelled:
			rec.Outcome = llm.OutcomeCancelled
		case llm.CodeTimeout:
			rec.Outcome = llm.OutcomeTimeout
		}
	}
	rec.PromptTokens, rec.CompletionTokens, rec.CachedTokens = &stats.PromptTokens, &stats.CompletionTokens, &stats.CachedTokens
	live.End(func(e *journal.Entry) { e.Record, e.State, e.EndedAt = rec, journal.StateDone, time.Now() })
	return rec, err
}

func (d *scripted) Generate(ctx context.Context, call dispatch.Call, answer dispatch.Answer) (llm.Record, llm.Stats, error) {
	ctx, live, rec := d.begin(ctx, call)
	deliver := answer.Delta
	answer.Delta = func(delta llm.Delta) error {
		live.Update(func(e *journal.Entry) { e.State, e.TokensSoFar = journal.StateDecoding, delta.Tokens })
		return deliver(delta)
	}
	stats, err := d.run(ctx, call, answer, &rec)
	rec, err = d.end(ctx, live, rec, stats, err)
	return rec, stats, err
}

func (d *scripted) run(ctx context.Context, call dispatch.Call, answer dispatch.Answer, rec *llm.Record) (llm.Stats, error) {
	m, err := d.library.Find(call.Request.Model)
	if err != nil {
		return llm.Stats{}, err
	}
	if d.before != nil {
		if err := d.before(ctx, call); err != nil {
			return llm.Stats{}, err
		}
	}
	prompt, err := d.prepare(ctx, m, call.Request)
	if err != nil {
		return llm.Stats{}, err
	}
	if _, err := d.engine.Load(ctx, llm.LoadRequest{Model: m.Ref()}, nil); err != nil {
		return llm.Stats{}, err
	}
	n := len(prompt.Tokens)
	rec.PromptTokens = &n
	if answer.Begin == nil {
		answer.Begin = func(llm.Record) error { return nil } // a whole answer
	}
	if err := answer.Begin(*rec); err != nil {
		return llm.Stats{PromptTokens: n}, err
	}
	if d.decided != nil {
		d.decided(ctx)
	}
	if d.says != nil {
		stats, err := d.says(answer.Delta)
		stats.PromptTokens = n
		return stats, err
	}
	stats, err := d.engine.Generate(ctx, llm.GenerateRequest{
		Model: m.Ref(), Tokens: prompt.Tokens, Sampling: call.Request.Sampling, Stop: call.Request.Stop, MaxTokens: call.Request.MaxTokens,
		Logprobs: call.Request.Logprobs, TopLogprobs: call.Request.TopLogprobs,
	}, answer.Delta)
	if asked, _ := json.Marshal(call.Request); err != nil && strings.Contains(string(asked), late) {
		err = llm.Errorf(llm.CodeTimeout, "the model gave no token for 3m0s")
	}
	return stats, err
}

// late in a prompt makes an error of the engine one of the clock.
const late = "no token comes"

func (d *scripted) prepare(ctx context.Context, m models.Model, req llm.Request) (llm.Prompt, error) {
	messages := req.Messages
	if len(messages) == 0 {
		messages = []llm.Message{{Role: "user", Content: req.Prompt}}
	}
	return d.engine.Prepare(ctx, llm.PrepareRequest{Model: m.Ref(), Messages: messages, Tools: req.Tools})
}

func (d *scripted) Count(ctx context.Context, call dispatch.Call) (int, error) {
	m, err := d.library.Find(call.Request.Model)
	if err != nil {
		return 0, err
	}
	prompt, err := d.prepare(ctx, m, call.Request)
	return len(prompt.Tokens), err
}

func (d *scripted) Embed(ctx context.Context, call dispatch.Call, req llm.EmbedRequest) (llm.Record, llm.Embedded, error) {
	ctx, live, rec := d.begin(ctx, call)
	m, err := d.library.Find(call.Request.Model)
	out := llm.Embedded{}
	if err == nil {
		req.Model = m.Ref()
		_, err = d.engine.Load(ctx, llm.LoadRequest{Model: m.Ref(), Embedding: true}, nil)
	}
	if err == nil {
		out, err = d.engine.Embed(ctx, req)
	}
	rec, err = d.end(ctx, live, rec, llm.Stats{PromptTokens: out.Tokens}, err)
	return rec, out, err
}

func (d *scripted) Load(ctx context.Context, call dispatch.Call) (llm.Record, error) {
	ctx, live, rec := d.begin(ctx, call)
	_, err := d.library.Find(call.Request.Model)
	return d.end(ctx, live, rec, llm.Stats{}, err)
}

func (d *scripted) Unload(_ context.Context, name string) error {
	_, err := d.library.Find(name)
	return err
}

func (d *scripted) Cancel(trace string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	cancel, known := d.running[trace]
	if known {
		cancel(llm.Errorf(llm.CodeCancelled, "the request was cancelled in the Signalbox window"))
	}
	return known
}

func (d *scripted) last(t *testing.T) dispatch.Call {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	require.NotEmpty(t, d.calls, "no request reached the dispatcher")
	return d.calls[len(d.calls)-1]
}

func (d *scripted) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.calls)
}

const (
	chatModel  = "smollm2:135m"
	embedModel = "all-minilm"
	token      = "instance-token"
)

// rig is a server with both listeners on real TCP.
type rig struct {
	*scripted
	deps   server.Deps
	public *httptest.Server
	ui     *httptest.Server
	access *server.Access
	stop   context.CancelCauseFunc // of the public server's context
}

func newRig(t testing.TB, change ...func(*server.Deps)) *rig {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	modified := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	lib := library{
		{Name: chatModel, Kind: models.KindChat, Digest: digest('a'), Family: "llama", ParameterSize: "134.5M", ParameterCount: 134515008,
			Quantization: "INT4_SYM", Size: 1 << 27, ModifiedAt: modified, ContextLength: 8192, EmbeddingLength: 576,
			Template: "{{ messages }}", Capabilities: []string{"completion"}, License: "Apache-2.0"},
		{Name: embedModel + ":latest", Kind: models.KindEmbedding, Digest: digest('b'), Family: "bert", ModifiedAt: modified,
			Capabilities: []string{"embedding"}},
	}
	d := &scripted{journal: j, library: lib, engine: llmtest.NewFake(llmtest.Options{ContextLimit: 1 << 20}), running: map[string]context.CancelCauseFunc{}}
	t.Cleanup(func() { _ = d.engine.Close() })
	settings := config.Default()
	deps := server.Deps{
		Dispatch: d, Models: lib, Journal: j, Version: "0.32.9",
		Loaded: func(context.Context) ([]ollama.Loaded, error) {
			return []ollama.Loaded{{Model: lib[0], Device: llmtest.MockDevice(0), Bytes: 1 << 20, ContextLimit: 8192}}, nil
		},
		Status: func() server.Status {
			return server.Status{Version: "0.1.0", Server: server.ServerStatus{State: "running"}}
		},
		Run:      func(context.Context, bool) error { return nil },
		Settings: func() config.Settings { return settings },
		ChangeSettings: func(change func(*config.Settings) error) error {
			s := settings.Clone()
			if err := change(&s); err != nil {
				return err
			}
			settings = s
			return nil
		},
	}
	for _, c := range change {
		c(&deps)
	}
	s := server.New(deps)
	ctx, stop := context.WithCancelCause(context.Background())
	t.Cleanup(func() { stop(nil) })
	r := &rig{scripted: d, deps: deps, stop: stop}
	r.public = serve(t, ctx, s.Public())
	r.ui = serveLater(t, context.Background(), func(port int) http.Handler {
		r.access = server.NewAccess(port, token)
		return s.UI(r.access)
	})
	return r
}

func digest(c byte) string {
	b := make([]byte, 64)
	for i := range b {
		b[i] = c
	}
	return string(b)
}

func serve(t testing.TB, ctx context.Context, h http.Handler) *httptest.Server {
	return serveLater(t, ctx, func(int) http.Handler { return h })
}

// serveLater makes the handler when the port is known, as main does.
func serveLater(t testing.TB, ctx context.Context, handler func(port int) http.Handler) *httptest.Server {
	t.Helper()
	ts := httptest.NewUnstartedServer(nil)
	hs := server.HTTPServer(handler(ts.Listener.Addr().(*net.TCPAddr).Port), ctx, discard)
	hs.ConnState = nil
	ts.Config = hs
	ts.Start()
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	return ts
}
