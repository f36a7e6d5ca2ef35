package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/app/tray"
)

// fakeBackend counts what the desktop side asks for.
type fakeBackend struct {
	changed chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	running bool // guarded by mu
	urls    int  // guarded by mu
}

func newBackend() *fakeBackend {
	return &fakeBackend{changed: make(chan struct{}, 1), done: make(chan struct{}), running: true}
}

func (b *fakeBackend) Changed() <-chan struct{} { return b.changed }
func (b *fakeBackend) Done() <-chan struct{}    { return b.done }

func (b *fakeBackend) Status() tray.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return tray.Status{Server: tray.Server{State: "running"}}
	}
	return tray.Status{}
}

func (b *fakeBackend) set(running bool) error {
	b.mu.Lock()
	b.running = running
	b.mu.Unlock()
	b.changed <- struct{}{}
	return nil
}

func (b *fakeBackend) StartServer(context.Context) error { return b.set(true) }
func (b *fakeBackend) StopServer(context.Context) error  { return b.set(false) }

func (b *fakeBackend) OpenURL() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.urls++
	return "http://x.localhost:1/ui/?code=SECRET"
}

// fakeTray is an icon without a panel, until the test says otherwise.
type fakeTray struct {
	opts tray.Options

	mu     sync.Mutex
	host   tray.Host     // guarded by mu
	drawn  []tray.Status // guarded by mu
	closed bool          // guarded by mu
}

func (f *fakeTray) Draw(s tray.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drawn = append(f.drawn, s)
}

func (f *fakeTray) Host() tray.Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.host
}

func (f *fakeTray) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

func (f *fakeTray) become(h tray.Host) {
	f.mu.Lock()
	f.host = h
	f.mu.Unlock()
	f.opts.HostChanged(h)
}

// fakeWindow behaves as Wails does: Quit asks closing, and run returns when that lets it end.
type fakeWindow struct {
	opts  windowOptions
	ended chan struct{}

	mu     sync.Mutex
	shown  int      // guarded by mu
	hidden int      // guarded by mu
	told   []string // guarded by mu
}

func (w *fakeWindow) run(o windowOptions) error {
	w.opts = o
	o.started(w)
	<-w.ended
	return nil
}

func (w *fakeWindow) close() {
	if !w.opts.closing(w) {
		close(w.ended)
	}
}

func (w *fakeWindow) Show()          { w.count(&w.shown) }
func (w *fakeWindow) Hide()          { w.count(&w.hidden) }
func (w *fakeWindow) Quit()          { go w.close() }
func (w *fakeWindow) Size() geometry { return geometry{Width: 900, Height: 700} }

func (w *fakeWindow) Folder(title string) (string, error) { return "/chosen for " + title, nil }

func (w *fakeWindow) count(n *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*n++
}

func (w *fakeWindow) Notify(title, _ string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, title)
}

// session is an App with fakes around it.
type session struct {
	*App
	backend *fakeBackend
	icon    *fakeTray
	window  *fakeWindow
	opened  []string
	signals chan os.Signal
	cancel  context.CancelFunc
	ended   chan error
}

// start runs an App inside a synctest bubble. host "" is a session without a tray.
func start(t *testing.T, host tray.Host, opts Options, change ...func(*session)) *session {
	t.Helper()
	opts.Log = slog.New(slog.DiscardHandler)
	if opts.StateDir == "" {
		opts.StateDir = t.TempDir()
	}
	s := &session{App: New(opts), backend: newBackend(), window: &fakeWindow{ended: make(chan struct{})}, ended: make(chan error, 1)}
	s.signals = make(chan os.Signal, 1)
	s.App.signals = func() (<-chan os.Signal, func()) { return s.signals, func() {} }
	s.startTray = func(o tray.Options) (trayIcon, error) {
		if host == "" {
			return nil, tray.ErrNoTray
		}
		s.icon = &fakeTray{opts: o, host: host}
		return s.icon, nil
	}
	s.runWindow = s.window.run
	s.hasDisplay = func() (bool, string) { return true, "" }
	s.openURL = func(_ []string, address string) error {
		s.opened = append(s.opened, address)
		return nil
	}
	for _, f := range change {
		f(s)
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(t.Context())
	over := make(chan struct{})
	t.Cleanup(func() { // before its folder goes
		s.cancel()
		<-over
	})
	go func() {
		defer close(over)
		s.ended <- s.Run(ctx, s.backend)
	}()
	synctest.Wait()
	return s
}

func (s *session) running() bool {
	synctest.Wait()
	select {
	case err := <-s.ended:
		s.ended <- err
		return false
	default:
		return true
	}
}

func (s *session) hasWindow() bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.App.window != nil
}

func TestCloseButtonHidesWhereThereIsATrayAndExplainsItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tray.Shown, Options{})
		require.True(t, s.hasWindow())
		s.window.close()
		s.window.close()
		assert.True(t, s.running())
		assert.Equal(t, 2, s.window.hidden)
		assert.Equal(t, []string{"Signalbox is still running"}, s.window.told)

		require.NoError(t, s.Show())
		assert.Equal(t, 1, s.window.shown)
		s.Quit()
		s.Quit()
		assert.False(t, s.running())
		assert.NoError(t, <-s.ended)
		assert.True(t, s.icon.closed)
		assert.Equal(t, 900, loadGeometry(s.opts.StateDir).Width)
	})
}

func TestCloseButtonQuitsWithoutATray(t *testing.T) {
	for _, host := range []tray.Host{"", tray.Missing} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, host, Options{})
			require.True(t, s.hasWindow())
			s.window.close()
			assert.False(t, s.running())
			assert.Zero(t, s.window.hidden)
		})
	}
}

func TestAFolderIsAskedForInTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tray.Shown, Options{})
		require.True(t, s.hasWindow())
		path, err := s.Desktop().Folder("models")
		require.NoError(t, err)
		assert.Equal(t, "/chosen for models", path)
		_, err = New(Options{}).Desktop().Folder("models")
		assert.ErrorIs(t, err, ErrNoWindow)
	})
}

func TestWhatWasDroppedIsToldOnceAndWhileItIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tray.Shown, Options{})
		require.True(t, s.hasWindow())
		assert.Empty(t, s.Desktop().Dropped())
		s.dropped("/an/older/one")
		s.dropped("/a/folder")
		assert.Equal(t, "/a/folder", s.Desktop().Dropped())
		assert.Empty(t, s.Desktop().Dropped())
		s.dropped("/on/the/chat")
		time.Sleep(time.Minute)
		assert.Empty(t, s.Desktop().Dropped(), "that was dropped for something else")
		time.AfterFunc(time.Second/2, func() { s.dropped("/late") })
		assert.Equal(t, "/late", s.Desktop().Dropped(), "the page was quicker")
	})
}

func TestWindowIsLetGoOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tray.Missing, Options{})
		require.False(t, s.window.opts.closing(s.window), "the close button")
		assert.True(t, s.window.opts.closing(s.window), "Wails' own signal handler")
		close(s.window.ended)
		assert.False(t, s.running())
	})
}

func TestHiddenStartWaitsForTheFirstWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tray.Shown, Options{Hidden: true})
		time.Sleep(time.Hour)
		require.False(t, s.hasWindow())
		go s.icon.opts.Open()
		require.True(t, s.hasWindow())
		s.icon.opts.Quit()
		assert.False(t, s.running())
	})
}

func TestHiddenStartWithoutAPanelShowsTheWindowAfterFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tray.Missing, Options{Hidden: true})
		time.Sleep(4 * time.Second)
		require.False(t, s.hasWindow())
		time.Sleep(2 * time.Second)
		require.True(t, s.hasWindow())
		s.Quit()
		assert.False(t, s.running())
	})
}

func TestHiddenStartStaysHiddenWhenThePanelComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tray.Missing, Options{Hidden: true})
		time.Sleep(3 * time.Second)
		s.icon.become(tray.Shown)
		time.Sleep(time.Hour)
		require.False(t, s.hasWindow())
		s.Quit()
		assert.False(t, s.running())
	})
}

func TestHiddenStartWithoutATrayShowsTheWindowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "", Options{Hidden: true})
		require.True(t, s.hasWindow())
		s.Quit()
		assert.False(t, s.running())
	})
}

func TestQuitWhileTheWindowOpensEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		s := start(t, tray.Shown, Options{}, func(s *session) {
			s.runWindow = func(o windowOptions) error { <-slow; return s.window.run(o) }
		})
		s.Quit()
		require.True(t, s.running())
		close(slow)
		assert.False(t, s.running())
	})
}

func TestRunEndsWhenToldFromOutside(t *testing.T) {
	for name, tell := range map[string]func(s *session){
		"a signal":            func(s *session) { s.signals <- os.Interrupt },
		"the context":         func(s *session) { s.cancel() },
		"the backend's end":   func(s *session) { close(s.backend.done) },
		"the page":            func(s *session) { _ = s.Desktop().Quit() },
		"the system's end":    func(s *session) { s.icon.opts.SessionEnds() },
		"the tray's own item": func(s *session) { s.icon.opts.Quit() },
	} {
		for _, hidden := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := start(t, tray.Shown, Options{Hidden: hidden})
					require.True(t, s.running())
					tell(s)
					require.False(t, s.running())
					assert.NoError(t, <-s.ended)
				})
			})
		}
	}
}

// main's context and this package both hear of the same signal, in either order.
func TestASecondSignalEndsAtOnceAndTheFirstNever(t *testing.T) {
	term := func(s *session) { s.signals <- syscall.SIGTERM; synctest.Wait() }
	for name, first := range map[string]func(s *session){
		"it ends the context":          func(s *session) { s.cancel(); synctest.Wait(); term(s) },
		"it comes before that is seen": func(s *session) { s.signals <- syscall.SIGTERM; s.cancel(); synctest.Wait() },
		"the context does not know it": term,
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // which of two ready channels is taken is left to chance
				synctest.Test(t, func(t *testing.T) {
					slow, exited := make(chan struct{}), 0
					s := start(t, tray.Shown, Options{}, func(s *session) {
						s.runWindow = func(windowOptions) error { <-slow; return nil }
						s.exit = func(code int) { exited += code }
					})
					first(s)
					require.True(t, s.running(), "the window still closes")
					assert.Zero(t, exited)
					term(s)
					term(s) // where the context's own was not seen yet, this is the second
					assert.Positive(t, exited)
					close(slow)
					assert.False(t, s.running())
				})
			}
		})
	}
}

func TestTrayTogglesTheServerAndFollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tray.Shown, Options{Hidden: true})
		s.icon.opts.Toggle(false)
		synctest.Wait()
		s.icon.opts.Toggle(true)
		synctest.Wait()
		var states []bool
		for _, status := range s.icon.drawn {
			states = append(states, status.Running())
		}
		assert.Equal(t, []bool{true, false, true}, states)
		s.Quit()
		assert.False(t, s.running())
	})
}

func TestWithoutAWindowThePageOpensInTheBrowserAndAllElseGoesOn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there the address itself is passed on: nobody else sees a command's arguments")
	}
	synctest.Test(t, func(t *testing.T) {
		changes := 0
		s := start(t, tray.Shown, Options{Changed: func() { changes++ }}, func(s *session) {
			s.runWindow = func(windowOptions) error { return errors.New("no WebKit") }
		})
		require.True(t, s.running())
		require.Len(t, s.opened, 1)
		assert.NotContains(t, s.opened[0], "SECRET")
		file := strings.TrimPrefix(s.opened[0], "file://")
		page, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(page), "SECRET")
		stat, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), stat.Mode().Perm())

		info := s.Desktop().Info()
		assert.False(t, info.Window)
		assert.Equal(t, "Signalbox cannot open its own window here (no WebKit) and shows this page in the browser instead.", info.Note)
		assert.GreaterOrEqual(t, changes, 2)

		time.Sleep(redirectLife + time.Second)
		assert.NoFileExists(t, file)
		require.NoError(t, s.Desktop().Show())
		assert.Len(t, s.opened, 2)
		s.Quit()
		assert.False(t, s.running())
		assert.NoFileExists(t, strings.TrimPrefix(s.opened[1], "file://"))
	})
}

func TestNoWindowNoBrowserAndNoTrayIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "", Options{}, func(s *session) {
			s.runWindow = func(windowOptions) error { return errors.New("no WebKit") }
			s.openURL = func([]string, string) error { return errors.New("no browser") }
		})
		require.False(t, s.running())
		err := <-s.ended
		assert.ErrorContains(t, err, "no WebKit")
		assert.ErrorContains(t, err, "no browser")
	})
}

func TestLogOutQuitsOnceTheDisplayIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := true
		var mu sync.Mutex
		s := start(t, tray.Shown, Options{Hidden: true}, func(s *session) {
			s.hasDisplay = func() (bool, string) {
				mu.Lock()
				defer mu.Unlock()
				return there, "gone"
			}
		})
		s.icon.become(tray.Missing)
		s.icon.become(tray.None)
		time.Sleep(time.Minute)
		require.True(t, s.running(), "a bus may crash alone")
		mu.Lock()
		there = false
		mu.Unlock()
		time.Sleep(10 * time.Second)
		assert.False(t, s.running())
	})
}

func TestInfoTellsWhatClosingDoes(t *testing.T) {
	if !hasWindow {
		t.Skip("says nothing about closing in a build without a window")
	}
	for host, note := range map[tray.Host]string{
		tray.Shown:   "",
		tray.Missing: "Nothing shows tray icons on this desktop: closing the window quits Signalbox.",
		"":           "This session has no tray: closing the window quits Signalbox.",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, host, Options{})
			assert.Equal(t, note, s.Desktop().Info().Note)
			s.Quit()
			assert.False(t, s.running())
		})
	}
}

func TestLinksAreChecked(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.org/":                                "https://example.org/",
		"http://127.0.0.1:11434/api/tags":                     "http://127.0.0.1:11434/api/tags",
		"HTTPS://example.org/a":                               "https://example.org/a",
		"https://en.wikipedia.org/wiki/Go_(game)?a=(b)&c=d#e": "https://en.wikipedia.org/wiki/Go_(game)?a=(b)&c=d#e",
		`https://example.org/?q="x"'y'`:                       "https://example.org/?q=%22x%22%27y%27",
		"https://example.org/?q=$(reboot)`id`|x":              "https://example.org/?q=%24(reboot)%60id%60%7Cx",
		"https://example.org/ü?q=ü":                           "https://example.org/%C3%BC?q=ü",
		"mailto:someone@example.org?subject=Hi":               "mailto:someone@example.org?subject=Hi",
	} {
		got, err := checkLink(address)
		assert.NoError(t, err, address)
		assert.Equal(t, want, got)
	}
	for _, address := range []string{
		"", "example.org", "//example.org", "https://", "https:///x", "mailto:", "--help", "-https://x",
		"file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "vscode://x", "search-ms:query=x", "ms-settings:", "ftp://x/",
		`\\evil\share`, `https://evil\@good.org`, "https://good.org@evil.org/", "https://a b/", "https://a/\nx", "https://a/\u202ex",
		"https://a/" + strings.Repeat("x", 9000), "https://[::1", "%zz://x",
	} {
		_, err := checkLink(address)
		assert.Error(t, err, address)
	}
}

func TestGeometryIsKeptAndSane(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, geometry{Width: 1100, Height: 760}, loadGeometry(dir))
	require.NoError(t, saveGeometry(dir, geometry{Width: 900, Height: 700, Explained: true}))
	require.NoError(t, saveGeometry(dir, geometry{Width: 1920, Height: 1080, Maximised: true}))
	assert.Equal(t, geometry{Width: 900, Height: 700, Maximised: true, Explained: true}, loadGeometry(dir), "the size to come back to is kept")

	for _, broken := range []string{"", "{", `{"width":-4,"height":99999999}`, `{"width":"x"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "window.json"), []byte(broken), 0o600))
		g := loadGeometry(dir)
		assert.GreaterOrEqual(t, g.Width, minWidth)
		assert.LessOrEqual(t, g.Height, 16384)
	}
}
