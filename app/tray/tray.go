// Package tray shows Signalbox in the desktop's notification area: an icon that tells the state, and a menu that tells
// more, opens the window, starts and stops the server, and quits.
//
// Everything is drawn from one Status value. Draw only stores it and wakes the goroutine that draws, so neither a slow panel nor
// a menu that is open ever holds up who calls.
package tray

import (
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"fyne.io/systray"

	"signalbox/build"
)

// Host says whether something shows the icon.
type Host string

const (
	Shown   Host = "shown"
	Missing Host = "missing" // the session could show icons, but nothing does so now; something may come
	None    Host = "none"    // this session cannot
)

// Options are the tray's callbacks. Each is called on a goroutine of its own, so it may block.
type Options struct {
	Title string // for the time before the first Draw
	Open  func()
	Quit  func()
	// Toggle starts or stops the server and returns when that is done or has failed. The item is disabled meanwhile.
	Toggle func(start bool)
	// HostChanged tells that Host has a new answer. May be nil.
	HostChanged func(Host)
	// SessionEnds is called when the system logs out or shuts down (Windows). The process may be gone once it returns.
	SessionEnds func()
	Log         *slog.Logger
}

// ErrNoTray says that this session has no notification area to talk to.
var ErrNoTray = errors.New("this session has no tray")

// Tray is the icon and its menu.
type Tray struct {
	opts    Options
	host    *host
	wake    chan struct{} // holds a token when there is something to draw
	done    chan struct{} // closed by Close
	ended   chan struct{} // closed when systray's loop has ended
	drawers sync.WaitGroup
	once    sync.Once

	mu       sync.Mutex
	status   Status // guarded by mu: what to show
	toggling string // guarded by mu: "Starting the server…" while that goes on, else empty

	menu menu // owned by the goroutine that draws
}

// menu is what systray was last told. Only differences are sent: panels redraw an open menu at each message.
type menu struct {
	server  []*line
	devices []*line
	toggle  *line
	look    look
	tooltip string
	drawn   bool
}

// line is one menu item with the text it shows.
type line struct {
	item    *systray.MenuItem
	text    string
	shown   bool
	enabled bool
}

// Start shows the icon. It may be called once in a process. Where there can be no icon the error is ErrNoTray.
func Start(opts Options) (*Tray, error) {
	t := &Tray{
		opts:   opts,
		wake:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		ended:  make(chan struct{}),
		status: Status{Title: opts.Title},
	}
	host, err := watchHost(opts.HostChanged)
	if err != nil {
		return nil, err
	}
	t.host = host
	// Before Run, because systray exports these with the icon: the title is the icon's identity for the panel.
	systray.SetTitle(opts.Title)
	systray.SetOnTapped(func() { go opts.Open() }) // called inside systray's loop
	go t.loop()
	return t, nil
}

// loop runs systray until Close.
func (t *Tray) loop() {
	defer close(t.ended)
	defer func() {
		// systray panics at its end when the session bus went away between our look and its own.
		if fault := recover(); fault != nil {
			t.opts.Log.Error("the tray ended with a fault", "fault", fault)
		}
	}()
	runtime.LockOSThread() // Windows gives messages to the thread that made the window
	systray.Run(t.ready, t.exit)
}

// exit is called by systray when its loop ends: by Close, or because the Windows session does.
func (t *Tray) exit() {
	select {
	case <-t.done:
	default:
		if t.opts.SessionEnds != nil {
			t.opts.SessionEnds()
		}
	}
}

// ready builds the menu. It has all lines it will ever have, as items can only be appended; those without a text are hidden.
func (t *Tray) ready() {
	title := systray.AddMenuItem(escape(clean(t.opts.Title)), "")
	title.Disable()
	t.menu.server = []*line{newLine(), newLine()}
	for range maxDevices {
		t.menu.devices = append(t.menu.devices, newLine())
	}
	systray.AddSeparator()
	open := systray.AddMenuItem("Open window", "")
	t.menu.toggle = &line{item: systray.AddMenuItem("Start server", ""), text: "Start server", shown: true, enabled: true}
	systray.AddSeparator()
	quit := systray.AddMenuItem("Quit", "")
	t.draw()
	t.drawers.Go(func() { t.clicks(open, quit) })
	t.drawers.Go(t.redraw)
}

func newLine() *line {
	item := systray.AddMenuItem("", "")
	item.Disable()
	item.Hide()
	return &line{item: item}
}

// clicks never waits for anything but clicks: systray drops those that nobody receives.
func (t *Tray) clicks(open, quit *systray.MenuItem) {
	for {
		select {
		case <-t.done:
			return
		case <-open.ClickedCh:
			go t.opts.Open()
		case <-quit.ClickedCh:
			go t.opts.Quit()
		case <-t.menu.toggle.item.ClickedCh:
			t.startToggle()
		}
	}
}

func (t *Tray) startToggle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.toggling != "" {
		return
	}
	start := !t.status.Running()
	t.toggling = "Stopping the server…"
	if start {
		t.toggling = "Starting the server…"
	}
	t.wakeUp()
	go func() {
		t.opts.Toggle(start)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.toggling = ""
		t.wakeUp()
	}()
}

// Draw shows s soon. Of several calls in a row only the last may be seen.
func (t *Tray) Draw(s Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status = s
	t.wakeUp()
}

func (t *Tray) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default: // it will wake anyway
	}
}

// Host tells whether something shows the icon now.
func (t *Tray) Host() Host { return t.host.now() }

// Close removes the icon and returns when all of it has ended. It may be called twice.
func (t *Tray) Close() {
	t.once.Do(func() {
		close(t.done)
		systray.Quit()
		<-t.ended
		t.drawers.Wait()
		t.host.close()
	})
}

// redraw draws what has changed, a few times a second at most.
func (t *Tray) redraw() {
	const pause = 150 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-t.done:
			return
		case <-t.wake:
		}
		t.draw()
		timer.Reset(pause)
		select {
		case <-t.done:
			return
		case <-timer.C:
		}
	}
}

func (t *Tray) draw() {
	t.mu.Lock()
	s, toggling := t.status, t.toggling
	t.mu.Unlock()

	drawLines(t.menu.server, s.serverLines())
	drawLines(t.menu.devices, s.deviceLines())
	label := s.toggleLabel()
	if toggling != "" {
		label = toggling
	}
	t.menu.toggle.show(label)
	t.menu.toggle.enable(toggling == "")

	if look := s.look(); !t.menu.drawn || look != t.menu.look {
		systray.SetIcon(picture(look))
		t.menu.look = look
	}
	if tooltip := s.tooltip(); tooltip != t.menu.tooltip {
		systray.SetTooltip(tooltip)
		t.menu.tooltip = tooltip
	}
	t.menu.drawn = true
}

func drawLines(lines []*line, texts []string) {
	for i, l := range lines {
		if i < len(texts) {
			l.show(texts[i])
		} else {
			l.hide()
		}
	}
}

func (l *line) show(text string) {
	if !l.shown {
		l.item.Show()
		l.shown = true
	}
	if l.text != text { // after Show: on Windows a new title makes a hidden item visible
		l.item.SetTitle(escape(text))
		l.text = text
	}
}

func (l *line) hide() {
	if l.shown {
		l.item.Hide()
		l.shown, l.text = false, ""
	}
}

func (l *line) enable(enabled bool) {
	switch {
	case l.enabled == enabled:
	case enabled:
		l.item.Enable()
	default:
		l.item.Disable()
	}
	l.enabled = enabled
}

func picture(l look) []byte {
	pictures := [...][]byte{
		lookStopped: build.TrayStopped,
		lookRunning: build.TrayRunning,
		lookBusy:    build.TrayBusy,
		lookProblem: build.TrayProblem,
	}
	return slices.Clone(pictures[l])
}
