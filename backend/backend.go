// Package backend puts library, engine, router, journal and server together into the program that answers, with or without a
// window. New opens the files, Run serves until its context is done.
package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/backend/dispatch"
	"signalbox/backend/downloads"
	"signalbox/backend/journal"
	"signalbox/backend/llm"
	"signalbox/backend/machine"
	"signalbox/backend/models"
	"signalbox/backend/router"
	"signalbox/backend/server"
	"signalbox/internal/config"
	"signalbox/internal/dirs"
	"signalbox/internal/version"
)

// Options are what a Backend is made of.
type Options struct {
	Dirs          dirs.Dirs
	Frontend      fs.FS    // the window's page, index.html at its root; nil: none was built
	Fake          bool     // the fake engine: canned answers, device "mock"
	Engine        []string // more arguments for `signalbox engine`: compile properties, for tests and measuring
	Token         string   // what the command line shows at the window's listener
	Log           *slog.Logger
	ServerChanged func()                      // called when the public server has started or stopped; nil: nobody
	Desktop       server.Desktop              // nil: no window here
	Info          func() server.DesktopStatus // what the desktop offers; nil: nothing
	Getenv        func(string) string         // os.Getenv
}

// Backend is the program that answers.
type Backend struct {
	options   Options
	log       *slog.Logger
	library   *models.Library
	downloads *downloads.Manager

	tableRefused sync.Once // the log has heard why known.json is not read

	journal   *journal.Journal
	engine    *engines
	prober    *prober
	knowledge *knowledge
	server    *server.Server
	access    *server.Access
	public    publicServer
	changed   watchers
	shelf     shelf

	changing sync.Mutex // one change of the settings after the other

	mu       sync.Mutex
	settings config.Settings // guarded by mu
	notices  []notice        // what people should know, in the order it came; guarded by mu
	ui       net.Listener
	work     sync.WaitGroup  // all that Run waits for
	base     context.Context // of work in the background; nil before Run and after it; guarded by mu
}

// New opens the journal and the window's listener. Nothing answers before Run.
func New(o Options) (*Backend, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if err := o.Dirs.Make(); err != nil {
		return nil, err
	}
	b := &Backend{options: o, log: o.Log}
	settings, warning := config.Load(o.Dirs.Settings())
	b.settings = settings
	b.notice("settings", warning)
	b.noticeOrigins()

	j, err := journal.OpenWith(o.Dirs.Journal(), journal.Options{
		Retention: retention(settings), Bodies: bodies(settings), Log: o.Log, Changed: b.changed.wake,
	})
	if err != nil {
		return nil, err
	}
	b.journal = j
	b.library = models.Open(b.modelDirs()...)
	b.notice("library", b.library.Trouble())
	b.shelf.list = b.library.List
	b.knowledge = newKnowledge(b)
	b.prober = newProber(b)
	if b.engine, err = newEngines(b); err != nil {
		return nil, errors.Join(err, b.knowledge.cards.Close(), j.Close())
	}
	dispatcher := dispatch.New(b.library, b.engine, j, b.policy)

	b.ui, err = net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the window's own listener: %w", err), b.engine.Close(), b.knowledge.cards.Close(), j.Close())
	}
	b.access = server.NewAccess(b.ui.Addr().(*net.TCPAddr).Port, o.Token)
	b.server = server.New(server.Deps{
		Dispatch: variants{dispatcher, b.library}, Shop: b.openShop(), Models: b.library, Journal: j, Loaded: b.loaded,
		Status: b.Status, Watch: b.changed.watch, Run: b.runServer,
		Settings: b.Settings, ChangeSettings: b.ChangeSettings,
		Routing: routing{b, dispatcher}, Desktop: o.Desktop, Frontend: o.Frontend,
		Origins: b.origins, Version: version.Ollama, Log: o.Log,
	})
	b.public.backend = b
	return b, nil
}

// Run serves the window's listener until ctx is done, then ends everything it started and returns.
func (b *Backend) Run(ctx context.Context) error {
	base, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	ui := server.HTTPServer(b.server.UI(b.access), base, b.log)
	served := make(chan error, 1)
	b.work.Go(func() { served <- ui.Serve(b.ui) })
	b.work.Go(func() { b.engine.lookForDevices(base) })
	b.work.Go(func() { b.watchSleep(base) })
	b.work.Go(func() { b.prober.run(base) })
	b.work.Go(func() { b.sweepModels(base) })
	b.work.Go(func() { b.sweepCompiled(base) })
	b.downloads.Start()
	b.mu.Lock()
	b.base = base
	b.mu.Unlock()

	var err error
	select {
	case <-ctx.Done():
	case err = <-served: // the listener broke: without it nothing can be steered
		err = fmt.Errorf("the window's own listener ended: %w", err)
	}
	goodbye, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = b.StopServer(goodbye)
	b.mu.Lock()
	b.base = nil
	b.mu.Unlock()
	stop(llm.Errorf(llm.CodeStopped, "Signalbox is quitting"))
	b.downloads.Close()
	err = errors.Join(err, shutdown(goodbye, ui))
	err = errors.Join(err, b.engine.Close())
	b.work.Wait()
	return errors.Join(err, b.knowledge.cards.Close(), b.journal.Close())
}

// background runs do beside everything else, while Run does.
func (b *Backend) background(do func(ctx context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if base := b.base; base != nil {
		b.work.Go(func() { do(base) })
	}
}

// shutdown lets requests say goodbye and then closes what is left.
func shutdown(ctx context.Context, srv *http.Server) error {
	if err := srv.Shutdown(ctx); err != nil {
		return srv.Close()
	}
	return nil
}

// Close closes what New opened, of a Backend that will not Run.
func (b *Backend) Close() error {
	_ = b.StopServer(context.Background())
	return errors.Join(b.ui.Close(), b.engine.Close(), b.knowledge.cards.Close(), b.journal.Close())
}

// Watch returns a channel that holds a token after Status has changed, and a function that ends the watching.
func (b *Backend) Watch() (<-chan struct{}, func()) { return b.changed.watch() }

// Wake tells the watchers that something changed that only the caller knows of.
func (b *Backend) Wake() { b.changed.wake() }

// UIURL is where programs that know the token reach the window's listener.
func (b *Backend) UIURL() string { return "http://" + b.ui.Addr().String() }

// OpenURL is the page's address with a one-time code.
func (b *Backend) OpenURL() string { return b.access.URL() }

// Settings are the ones in force.
func (b *Backend) Settings() config.Settings {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settings
}

// ChangeSettings gives change a copy of the settings in force, and checks, stores and applies what it makes of it. An error of
// change's leaves everything as it is. The port is used at the server's next start.
func (b *Backend) ChangeSettings(change func(*config.Settings) error) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	s := b.Settings().Clone()
	if err := change(&s); err != nil {
		return err
	}
	if err := s.Save(b.options.Dirs.Settings()); err != nil {
		return err
	}
	b.mu.Lock()
	b.settings = s
	b.mu.Unlock()
	b.noticeOrigins()
	b.engine.refresh()
	b.journal.SetRetention(retention(s))
	b.journal.SetBodies(bodies(s))
	b.changed.wake()
	return nil
}

func retention(s config.Settings) time.Duration { return time.Duration(s.RetainDays) * 24 * time.Hour }

// bodies is how long prompts and answers are kept; 0: they are not.
func bodies(s config.Settings) time.Duration {
	if !s.KeepBodies {
		return 0
	}
	return time.Duration(s.BodyDays) * 24 * time.Hour
}

// kept says what is kept of a request, and how long: "metadata/30d", "metadata/30d+body/7d".
func kept(metadata string, s config.Settings) string {
	if !s.KeepBodies {
		return metadata
	}
	return fmt.Sprintf("%s+body/%dd", metadata, s.BodyDays)
}

// policy is what the rules see of the settings, at each decision.
func (b *Backend) policy() dispatch.Policy {
	s := b.Settings()
	return dispatch.Policy{
		Router: router.Policy{
			Preference: s.Preference, NPUPromptLimit: s.NPUPrompt, NPUReserve: s.NPUReserve, NeverFallBack: s.NeverFallBack,
			SidePrompt: s.SidePrompt, SideAnswer: s.SideAnswer,
			BatteryNPU: s.BatteryNPU, OnBattery: s.BatteryNPU && b.knowledge.supply.Source() == machine.Battery,
		},
		Retention: kept(b.journal.Retention(), s),
		Provider:  b.engine.named(),
		KeepAlive: time.Duration(s.KeepAlive),
	}
}

// modelDirs are the user's own models and those that came with the program.
func (b *Backend) modelDirs() []string {
	own := b.options.Dirs.Models()
	if s := b.Settings().ModelsDir; s != "" {
		own = s
	}
	list := []string{own}
	if beside := dirs.Beside("models"); beside != "" {
		list = append(list, beside)
	}
	return list
}

// origins are the browser origins that the user allows beside the usual ones.
func (b *Backend) origins() []string {
	return append(splitList(b.options.Getenv("OLLAMA_ORIGINS")), b.Settings().Origins...)
}

// noticeOrigins says so where every web page is let in: that is a choice nobody should make in passing.
func (b *Backend) noticeOrigins() {
	where := ""
	switch {
	case slices.ContainsFunc(b.Settings().Origins, config.OpenToAll):
		where = "the setting origins"
	case slices.ContainsFunc(splitList(b.options.Getenv("OLLAMA_ORIGINS")), config.OpenToAll):
		where = "OLLAMA_ORIGINS"
	default:
		b.notice("origins", "")
		return
	}
	b.notice("origins", "Every web page that you visit may use this server and read its answers, because "+where+
		" allows all origins: name the ones you trust instead.")
}

// splitList takes a comma list, as OLLAMA_ORIGINS is one.
func splitList(s string) (list []string) {
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// notice is something that people should know. A new one replaces the one with the same key.
type notice struct {
	key string
	server.Notice
}

// notice tells people something, in place of what was told of the same thing before; an empty text takes that back.
func (b *Backend) notice(key, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.notices, func(n notice) bool { return n.key == key })
	told := at >= 0 && b.notices[at].Text == text
	switch {
	case text == "" && at >= 0:
		b.notices = slices.Delete(b.notices, at, at+1)
	case text == "" || told:
	case at >= 0:
		b.notices[at].Text = text
	default:
		b.notices = append(b.notices, notice{key, server.Notice{Level: "warn", Text: text}})
	}
	if text != "" && !told {
		b.log.Warn(text)
	}
}
