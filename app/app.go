// Package app is the desktop side of Signalbox: the window, the tray and the life of the process around them. The window
// is a client like any other: it shows a page of the UI listener, so this package knows the server only as a Backend.
//
//	a := app.New(app.Options{...})        // touches nothing; a.Desktop() goes to the server
//	err := a.Run(ctx, backend)            // on the main goroutine, until the user quits
//
// The window comes from Wails and only with the build tag desktop. Without the tag everything else is the same, and
// the page opens in the browser.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"signalbox/app/tray"
)

// Backend is the program that the desktop side shows.
type Backend interface {
	// Status is what the tray shows now.
	Status() tray.Status
	// Changed holds a token after Status has changed. Of several changes one token may be left.
	Changed() <-chan struct{}
	StartServer(ctx context.Context) error
	StopServer(ctx context.Context) error
	// OpenURL returns a fresh address of the page, which lets one browser in once.
	OpenURL() string
	// Done is closed when the backend has ended by itself.
	Done() <-chan struct{}
}

// Options say how the desktop side starts.
type Options struct {
	Title    string // "Signalbox 0.1.0"
	StateDir string // keeps the window's size; exists
	Hidden   bool   // begin in the tray, if there is one
	// Changed tells that Desktop().Info has a new answer. May be nil.
	Changed func()
	Log     *slog.Logger
}

// App is the desktop side of one process.
type App struct {
	opts    Options
	log     *slog.Logger
	environ []string // as it was before Wails and we changed it: for programs that we start

	openOnce, quitOnce sync.Once
	windowQuit         sync.Once     // the window is told to end once
	letGo              atomic.Bool   // closing has let the window end
	open, quit         chan struct{} // closed at the first wish for a window, and for the end
	ended              chan struct{} // closed when Run is about to return
	hostChanged        chan struct{} // holds a token when the tray may have become visible

	drops chan drop // the last that was dropped on the window, until the page asks for it

	// What tests replace.
	startTray  func(tray.Options) (trayIcon, error)
	runWindow  func(windowOptions) error
	hasDisplay func() (bool, string)
	openURL    func(environ []string, address string) error
	signals    func() (got <-chan os.Signal, stop func())
	exit       func(code int)

	mu        sync.Mutex
	backend   Backend  // guarded by mu; nil before Run
	tray      trayIcon // guarded by mu; nil where there is none
	window    controls // guarded by mu; nil while there is no window
	windowErr error    // guarded by mu: why there is none, and will be none
	redirects []string // guarded by mu: files that lead the browser to the page
}

// trayIcon is a *tray.Tray.
type trayIcon interface {
	Draw(tray.Status)
	Host() tray.Host
	Close()
}

// windowOptions are what a window needs to run.
type windowOptions struct {
	title   string
	dataDir string
	size    geometry
	page    func() string  // the address that the window shows
	started func(controls) // called when there is a window to control
	closing func(controls) (stay bool)
	dropped func(path string) // something of this computer was dropped on the window
	log     *slog.Logger
}

// controls steer a window that runs. They may be called from any goroutine.
type controls interface {
	Show()
	Hide()
	Quit()
	Size() geometry
	Notify(title, text string)
	Folder(title string) (path string, err error) // asks for a folder; "": none was chosen
}

// New prepares the desktop side and touches nothing.
func New(opts Options) *App {
	return &App{
		opts:        opts,
		log:         opts.Log,
		environ:     os.Environ(),
		open:        make(chan struct{}),
		quit:        make(chan struct{}),
		ended:       make(chan struct{}),
		hostChanged: make(chan struct{}, 1),
		drops:       make(chan drop, 1),
		startTray:   func(o tray.Options) (trayIcon, error) { return tray.Start(o) },
		runWindow:   runWindow,
		hasDisplay:  HasDisplay,
		openURL:     openURL,
		signals:     signals,
		exit:        os.Exit,
	}
}

// Run shows the tray and the window, and returns when the user has quit, ctx is done, a signal came or the backend ended.
// It may be called once, on the main goroutine: some systems let only that have windows.
func (a *App) Run(ctx context.Context, backend Backend) error {
	a.mu.Lock()
	a.backend = backend
	a.mu.Unlock()

	var watch, draw sync.WaitGroup
	watch.Go(func() { a.quitWhenTold(ctx, backend) })
	icon := a.putUpTray(backend)
	if icon != nil {
		draw.Go(func() { a.redraw(icon, backend) })
	}
	defer func() {
		a.Quit() // ends what was started here, if the window has not
		draw.Wait()
		if icon != nil {
			icon.Close()
		}
		a.removeRedirects()
		close(a.ended)
		watch.Wait()
	}()

	if !a.opts.Hidden || !a.trayComes() {
		_ = a.Show()
	}
	select {
	case <-a.quit:
		return nil
	case <-a.open: // until here there was no GTK and no web view: they cost 180 MiB
	}
	err := a.runWindow(windowOptions{
		title:   "Signalbox",
		dataDir: a.opts.StateDir,
		size:    loadGeometry(a.opts.StateDir),
		page:    backend.OpenURL,
		started: a.started,
		closing: a.closing,
		dropped: a.dropped,
		log:     a.log,
	})
	a.mu.Lock()
	a.window = nil
	a.mu.Unlock()
	if err == nil || a.quitting() {
		return nil
	}
	return a.goOnWithoutWindow(err)
}

// quitWhenTold waits for the end from outside. A second signal ends the process at once.
func (a *App) quitWhenTold(ctx context.Context, backend Backend) {
	// Wails catches the first signal too and asks its window to close, which may hide it: so this one decides.
	signals, stop := a.signals()
	defer stop()
	counted := true // the next signal is a second one
	select {
	case s := <-signals:
		a.log.Info("quit", "signal", s.String())
	case <-ctx.Done():
		counted = false // it came from a signal, which comes here too, a moment before or after
	case <-backend.Done():
		a.log.Error("quit: the backend has ended")
	case <-a.quit:
	}
	a.Quit()
	for {
		select {
		case <-signals:
			if counted {
				a.log.Warn("a second signal: ending at once")
				a.exit(1)
			}
			counted = true
		case <-a.ended:
			return
		}
	}
}

func signals() (<-chan os.Signal, func()) {
	got := make(chan os.Signal, 2)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return got, func() { signal.Stop(got) }
}

// putUpTray shows the icon, or returns nil where there is no tray.
func (a *App) putUpTray(backend Backend) trayIcon {
	icon, err := a.startTray(tray.Options{
		Title: a.opts.Title,
		Open: func() {
			if err := a.Show(); err != nil {
				a.log.Error("open the window", "error", err)
			}
		},
		Quit:        a.Quit,
		Toggle:      func(start bool) { a.toggleServer(backend, start) },
		HostChanged: a.trayChanged,
		SessionEnds: a.sessionEnds,
		Log:         a.log,
	})
	if err != nil {
		a.log.Info("no tray", "reason", err)
		return nil
	}
	a.mu.Lock()
	a.tray = icon
	a.mu.Unlock()
	a.changed()
	return icon
}

func (a *App) toggleServer(backend Backend, start bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	act, what := backend.StopServer, "stop the server"
	if start {
		act, what = backend.StartServer, "start the server"
	}
	if err := act(ctx); err != nil {
		a.log.Error(what, "error", err) // Status tells it, too
	}
}

func (a *App) trayChanged(host tray.Host) {
	a.log.Info("tray", "state", host)
	select {
	case a.hostChanged <- struct{}{}:
	default:
	}
	a.changed()
	if host == tray.None {
		go a.leaveWithSession()
	}
}

// leaveWithSession quits when the desktop session is over. Its bus is gone already. Many systems let a process live on
// after the log-out: it would hold the lock, and the next session's Signalbox would hand over to a window nobody sees.
func (a *App) leaveWithSession() {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		if there, reason := a.hasDisplay(); !there {
			a.log.Info("quit: the desktop session has ended", "reason", reason)
			a.Quit()
			return
		}
		select {
		case <-a.quit:
			return
		case <-tick.C:
		}
	}
}

// sessionEnds quits and waits: Windows ends the process when this returns.
func (a *App) sessionEnds() {
	a.Quit()
	select {
	case <-a.ended:
	case <-time.After(4 * time.Second): // Windows waits five
	}
}

func (a *App) redraw(icon trayIcon, backend Backend) {
	for {
		icon.Draw(backend.Status())
		select {
		case <-a.quit:
			return
		case <-backend.Changed():
		}
	}
}

// trayComes gives the panel time to come up after the log-in, and tells whether it did.
func (a *App) trayComes() bool {
	late := time.NewTimer(5 * time.Second)
	defer late.Stop()
	for {
		switch a.host() {
		case tray.Shown:
			return true
		case tray.None:
			return false
		}
		select {
		case <-a.hostChanged:
		case <-a.open:
			return true
		case <-a.quit:
			return true
		case <-late.C:
			a.log.Info("no panel shows the tray icon: opening the window instead of hiding")
			return false
		}
	}
}

func (a *App) host() tray.Host {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tray == nil {
		return tray.None
	}
	return a.tray.Host()
}

// started receives the window's controls, perhaps after the wish to quit.
func (a *App) started(w controls) {
	a.mu.Lock()
	a.window = w
	a.mu.Unlock()
	if a.quitting() {
		a.endWindow()
	}
}

// closing decides what happens to a window that is to close: it stays, hidden, where an icon leads back, else it ends and we quit.
// Wails asks at the close button, at our Quit and for a signal that it caught itself. Only one of these may end the window: a second
// gtk_main_quit, from another thread, crashes.
func (a *App) closing(w controls) (stay bool) {
	hide := !a.quitting() && a.host() == tray.Shown
	if !hide && a.letGo.Swap(true) {
		return true
	}
	size := w.Size()
	first := hide && !size.merge(loadGeometry(a.opts.StateDir)).Explained
	size.Explained = size.Explained || first
	if err := saveGeometry(a.opts.StateDir, size); err != nil {
		a.log.Warn("keep the window's size", "error", err)
	}
	if !hide {
		a.quitOnce.Do(func() { close(a.quit) }) // the window itself is about to end
		return false
	}
	w.Hide()
	if first {
		w.Notify("Signalbox is still running", "The server goes on. The icon in the tray opens the window again and quits.")
	}
	return true
}

// Show opens the window, or brings it to the front. Where there can be none it opens the page in the browser.
func (a *App) Show() error {
	a.openOnce.Do(func() { close(a.open) })
	a.mu.Lock()
	window, failed := a.window, a.windowErr != nil
	a.mu.Unlock()
	switch {
	case window != nil:
		window.Show()
	case failed:
		return a.openInBrowser()
	}
	return nil // it is about to open
}

// folder asks for a folder with the desktop's own dialog.
func (a *App) folder(title string) (string, error) {
	a.mu.Lock()
	window := a.window
	a.mu.Unlock()
	if window == nil {
		return "", ErrNoWindow
	}
	return window.Folder(title)
}

// drop is something that was dropped on the window.
type drop struct {
	path string
	at   time.Time
}

const (
	dropFresh = 5 * time.Second // what nobody asked for before that was dropped where it means nothing
	dropComes = time.Second     // the page may see a drop before we do
)

func (a *App) dropped(path string) {
	for {
		select {
		case a.drops <- drop{path, time.Now()}:
			return
		case <-a.drops: // an older one
		}
	}
}

// droppedPath is what was just dropped: the browser engine keeps the path from the page. "" where the desktop does not tell.
func (a *App) droppedPath() string {
	late := time.NewTimer(dropComes)
	defer late.Stop()
	for {
		select {
		case d := <-a.drops:
			if time.Since(d.at) < dropFresh {
				return d.path
			}
		case <-late.C:
			return ""
		}
	}
}

// ErrNoWindow is the answer to what needs a window of our own.
var ErrNoWindow = errors.New("there is no window to ask in")

// Quit makes Run return. It may be called often, and from any goroutine.
func (a *App) Quit() {
	a.quitOnce.Do(func() {
		close(a.quit)
		a.endWindow()
	})
}

// endWindow ends the window, if there is one. Of Quit and started the later one finds both the wish and the window.
func (a *App) endWindow() {
	a.mu.Lock()
	window := a.window
	a.mu.Unlock()
	if window != nil {
		a.windowQuit.Do(window.Quit)
	}
}

func (a *App) quitting() bool {
	select {
	case <-a.quit:
		return true
	default:
		return false
	}
}

func (a *App) changed() {
	if a.opts.Changed != nil {
		a.opts.Changed()
	}
}

// errNoWindow is why a build without the tag desktop has no window.
var errNoWindow = errors.New("this build has no window")

// goOnWithoutWindow shows the page in the browser and stays, for the tray and the server, until the wish to quit.
func (a *App) goOnWithoutWindow(cause error) error {
	a.mu.Lock()
	a.windowErr = cause
	a.mu.Unlock()
	a.changed()
	a.log.Warn("no window: the page opens in the browser, tray and server go on", "error", cause)
	if err := a.openInBrowser(); err != nil {
		if a.host() == tray.None {
			return fmt.Errorf("open the window: %w; then the browser: %w", cause, err)
		}
		a.log.Error("open the page in the browser", "error", err)
	}
	<-a.quit
	return nil
}
