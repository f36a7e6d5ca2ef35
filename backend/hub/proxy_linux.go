package hub

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// systemProxy asks the desktop's portal, which knows the settings of GNOME, KDE and others and runs their scripts. Where
// there is none, as on a server, there are no such settings.
func systemProxy() func(*url.URL) (*url.URL, error) {
	p := &portal{known: map[string]portalAnswer{}}
	return p.proxy
}

const (
	portalFresh   = time.Minute // how long an answer holds: each range of a file asks
	portalPatient = 3 * time.Second
)

type portal struct {
	mu    sync.Mutex
	known map[string]portalAnswer // by scheme and host; guarded by mu
}

type portalAnswer struct {
	proxy *url.URL
	at    time.Time
}

func (p *portal) proxy(u *url.URL) (*url.URL, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := origin(u)
	if a, ok := p.known[key]; ok && time.Since(a.at) < portalFresh {
		return a.proxy, nil
	}
	a := portalAnswer{at: time.Now()}
	for _, answer := range askPortal(key + "/") {
		if answer == "direct://" {
			break
		}
		if found, err := url.Parse(answer); err == nil && found.Host != "" {
			if found.Scheme == "socks" {
				found.Scheme = "socks5"
			}
			a.proxy = found
			break
		}
	}
	p.known[key] = a
	return a.proxy, nil
}

// askPortal gets what to try for an address, best first; nothing where nobody can be asked. No bus is started for it.
func askPortal(address string) (answers []string) {
	if os.Getenv("DBUS_SESSION_BUS_ADDRESS") == "" {
		if _, err := os.Stat(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "bus")); os.Getenv("XDG_RUNTIME_DIR") == "" || err != nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), portalPatient)
	defer cancel()
	conn, err := dbus.ConnectSessionBus(dbus.WithContext(ctx))
	if err != nil {
		return nil
	}
	defer conn.Close()
	object := conn.Object("org.freedesktop.portal.Desktop", "/org/freedesktop/portal/desktop")
	if object.CallWithContext(ctx, "org.freedesktop.portal.ProxyResolver.Lookup", 0, address).Store(&answers) != nil {
		return nil
	}
	return answers
}
