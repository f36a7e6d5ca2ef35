// Package server is Signalbox's HTTP side: the API that IDEs and SDKs talk to, in the dialects of Ollama, OpenAI and Anthropic, and the
// window's own listener, which mounts the same handlers plus /ui/ and /desktop/. New takes what it needs; Public and UI are
// the two handlers; HTTPServer wraps one with sane limits.
//
// A request passes, in this order: a trace id, the guard (Host, Origin, session), the route, the dialect's decoder, and the
// dispatcher. What comes back is written by stream.go, frame by frame, or as one object.
package server

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"signalbox/backend/dispatch"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/metrics"
	"signalbox/backend/models"
	"signalbox/backend/ollama"
	"signalbox/internal/config"
	"signalbox/internal/version"
)

// Dispatcher is the path of a request behind the wire. *dispatch.Dispatcher is one.
type Dispatcher interface {
	Generate(ctx context.Context, call dispatch.Call, answer dispatch.Answer) (llm.Record, llm.Stats, error)
	Embed(ctx context.Context, call dispatch.Call, req llm.EmbedRequest) (llm.Record, llm.Embedded, error)
	Count(ctx context.Context, call dispatch.Call) (tokens int, err error)
	Load(ctx context.Context, call dispatch.Call) (llm.Record, error)
	Unload(ctx context.Context, model string) error
	Cancel(traceID string) bool // reports whether there was such a request
}

// Library lists models. *models.Library is one.
type Library interface {
	List() ([]models.Model, error) // newest first
	Find(name string) (models.Model, error)
}

// Journal is what happened and what happens. *journal.Journal is one.
type Journal interface {
	Active() []journal.Entry
	Subscribe() (<-chan journal.Entry, func())
	List(journal.Query) (entries []journal.Entry, more bool, err error)
	Get(traceID string) (journal.Entry, error)
	ListChats() ([]journal.Chat, error)
	GetChat(id string) (journal.Chat, error)
	SaveChat(journal.Chat) error
	DeleteChat(id string) error
}

// Desktop is the part of /desktop that needs a window.
type Desktop interface {
	Open(url string) error // in the user's browser; url is http, https or mailto
	Show() error           // bring the window to the front
	Quit() error           // end Signalbox

	// Folder asks for a folder with the desktop's own dialog; "": none was chosen. ErrNoDialog where there is no such dialog.
	Folder(title string) (path string, err error)

	// Dropped is the path of what was just dropped on the window, which pages are not told; "" where nobody knows.
	Dropped() (path string)
}

// Deps is what a Server needs.
type Deps struct {
	Dispatch Dispatcher
	Models   Library
	Journal  Journal
	Loaded   func(context.Context) ([]ollama.Loaded, error) // what is in memory, for /api/ps

	Status   func() Status                                // all but Active, which the server fills in
	Watch    func() (changed <-chan struct{}, end func()) // wakes when Status has changed; nil: never
	Run      func(ctx context.Context, running bool) error
	Settings func() config.Settings
	// ChangeSettings gives a copy of the settings in force to be changed, and checks, stores and applies it, one after the other.
	ChangeSettings func(change func(*config.Settings) error) error
	Routing        Routing // nil: nothing is told about it
	Shop           *Shop   // nil: models cannot be fetched or changed
	Desktop        Desktop // nil: none here
	Frontend       fs.FS   // the window's page; nil or without index.html: a page that says so

	Origins func() []string // browser origins allowed beside the usual ones; nil: none
	Version string          // of the Ollama API, X.Y.Z
	Log     *slog.Logger    // nil: none

	// Zero values are the product's; tests need not wait.
	PingEvery  time.Duration // 10 s: how long a waiting stream may be silent
	WriteLimit time.Duration // 30 s: how long a reader may take for one frame
}

// Server answers requests. It is safe for concurrent use.
type Server struct {
	deps    Deps
	log     *slog.Logger
	metrics *metrics.Metrics

	mu     sync.Mutex
	traces map[string]struct{} // ids that callers chose, of running requests; guarded by mu
}

// New returns a Server; nothing listens yet.
func New(deps Deps) *Server {
	if deps.PingEvery == 0 {
		deps.PingEvery = 10 * time.Second
	}
	if deps.WriteLimit == 0 {
		deps.WriteLimit = 30 * time.Second
	}
	if deps.Origins == nil {
		deps.Origins = func() []string { return nil }
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{deps: deps, log: deps.Log, traces: map[string]struct{}{}}
	s.metrics = metrics.New(version.Version, s.gauges)
	s.deps.Dispatch = measured{deps.Dispatch, s.metrics}
	return s
}

// Public is the handler of the API server that the user starts and stops.
func (s *Server) Public() http.Handler {
	return s.front(publicGuard{origins: s.deps.Origins}, s.router(s.publicRoutes()))
}

// UI is the handler of the window's listener. access says who may use it.
func (s *Server) UI(access *Access) http.Handler {
	return s.front(uiGuard{access: access}, s.router(append(s.apiRoutes(), s.uiRoutes(access)...)))
}

// HTTPServer wraps a handler with the limits of a server that strangers' clients talk to. Requests end when base does, with
// its cause: cancel it with an *llm.Error of CodeStopped, and streams say so in their last line.
func HTTPServer(handler http.Handler, base context.Context, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       smallBuffer,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// No ReadTimeout and no WriteTimeout: an answer may take long. Bodies and frames have their own clocks.
		DisableGeneralOptionsHandler: true, // OPTIONS * goes past the guard too
	}
}

// smallBuffer keeps the system from taking megabytes of frames for a client that does not read any more: whether it reads is
// known only when a write has to wait.
func smallBuffer(ctx context.Context, conn net.Conn) context.Context {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(64 << 10) // a wish; without it we notice later
	}
	return ctx
}
