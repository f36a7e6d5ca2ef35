package tray

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
)

const (
	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = dbus.ObjectPath("/StatusNotifierWatcher")
)

// host follows whether a panel shows status icons. GNOME without the AppIndicator extension has none; a panel
// may come up after us, crash and come back.
type host struct {
	conn    *dbus.Conn
	changed func(Host)
	ended   chan struct{}

	mu      sync.Mutex
	current Host // guarded by mu
	closed  bool // guarded by mu
}

func watchHost(changed func(Host)) (*host, error) {
	if !findBus() {
		return nil, fmt.Errorf("%w: there is no D-Bus session bus", ErrNoTray)
	}
	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		return nil, fmt.Errorf("%w: connect to the session bus: %w", ErrNoTray, err)
	}
	h := &host{conn: conn, changed: changed, ended: make(chan struct{})}
	signals := make(chan *dbus.Signal, 64)
	conn.Signal(signals)
	for _, match := range [][]dbus.MatchOption{
		{dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, watcherName)},
		{dbus.WithMatchInterface(watcherName), dbus.WithMatchMember("StatusNotifierHostRegistered")},
		{dbus.WithMatchInterface(watcherName), dbus.WithMatchMember("StatusNotifierHostUnregistered")},
	} {
		if err := conn.AddMatchSignal(match...); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("%w: follow the panel on the session bus: %w", ErrNoTray, err)
		}
	}
	h.current = h.look()
	go func() {
		defer close(h.ended)
		for range signals { // closed with the connection
			h.set(h.look())
		}
		h.set(None)
	}()
	return h, nil
}

// findBus reports whether there is a session bus. Where godbus finds none it starts one of its own with dbus-launch,
// which nobody listens to and which stays behind; so it is told where the bus is.
func findBus() bool {
	address := os.Getenv("DBUS_SESSION_BUS_ADDRESS")
	if address != "" && !strings.HasPrefix(address, "autolaunch:") && !strings.HasPrefix(address, "disabled:") {
		return true
	}
	if os.Getenv("XDG_RUNTIME_DIR") == "" {
		return false
	}
	socket := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "bus")
	if _, err := os.Stat(socket); err != nil {
		return false
	}
	return os.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+dbus.EscapeBusAddressValue(socket)) == nil
}

func (h *host) look() Host {
	var owned bool
	if err := h.conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, watcherName).Store(&owned); err != nil || !owned {
		return Missing
	}
	// KDE's watcher runs without a panel, too. One that does not answer is taken for a panel.
	registered, err := h.conn.Object(watcherName, watcherPath).GetProperty(watcherName + ".IsStatusNotifierHostRegistered")
	if shows, ok := registered.Value().(bool); err == nil && ok && !shows {
		return Missing
	}
	return Shown
}

func (h *host) now() Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

func (h *host) set(next Host) {
	h.mu.Lock()
	tell := h.current != next && !h.closed && h.changed != nil
	h.current = next
	h.mu.Unlock()
	if tell {
		h.changed(next)
	}
}

// close ends the watching; there is no answer to ask for any more.
func (h *host) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	_ = h.conn.Close()
	<-h.ended
}

// escape keeps an underscore from becoming a key's underline.
func escape(label string) string { return strings.ReplaceAll(label, "_", "__") }
