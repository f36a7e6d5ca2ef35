//go:build linux

package desktop

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/require"
)

const (
	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = dbus.ObjectPath("/StatusNotifierWatcher")
)

// panel is what a desktop's panel is to a tray icon: a StatusNotifierWatcher with a host.
type panel struct {
	conn  *dbus.Conn
	props *prop.Properties

	mu     sync.Mutex
	items  []string // guarded by mu: "sender/path"
	closed bool     // guarded by mu
}

// StartPanel makes something show tray icons from now on.
func (d *Desktop) StartPanel(t testing.TB) {
	t.Helper()
	conn, err := dbus.Connect(d.Bus)
	require.NoError(t, err)
	p := &panel{conn: conn}
	p.props, err = prop.Export(conn, watcherPath, prop.Map{watcherName: {
		"RegisteredStatusNotifierItems":  {Value: []string{}, Emit: prop.EmitTrue},
		"IsStatusNotifierHostRegistered": {Value: true, Emit: prop.EmitTrue},
		"ProtocolVersion":                {Value: int32(0), Emit: prop.EmitTrue},
	}})
	require.NoError(t, err)
	require.NoError(t, conn.Export(p, watcherPath, watcherName))
	p.followOwners(t)
	reply, err := conn.RequestName(watcherName, dbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	require.Equal(t, dbus.RequestNameReplyPrimaryOwner, reply, "there is a panel already")
	d.panel = p
	t.Cleanup(p.close)
}

// StopPanel takes the panel away, as when it crashes.
func (d *Desktop) StopPanel(t testing.TB) {
	t.Helper()
	d.panel.close()
	d.panel = nil
}

// close may be called twice.
func (p *panel) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	_ = p.conn.Close()
}

// RegisterStatusNotifierItem is called by programs over the bus.
func (p *panel) RegisterStatusNotifierItem(service string, sender dbus.Sender) *dbus.Error {
	name := service + "/StatusNotifierItem"
	if strings.HasPrefix(service, "/") {
		name = string(sender) + service
	}
	p.mu.Lock()
	if !slices.Contains(p.items, name) {
		p.items = append(p.items, name)
	}
	p.mu.Unlock()
	p.publish()
	_ = p.conn.Emit(watcherPath, watcherName+".StatusNotifierItemRegistered", name)
	return nil
}

// RegisterStatusNotifierHost is called by panels over the bus.
func (p *panel) RegisterStatusNotifierHost(string) *dbus.Error { return nil }

// followOwners drops the items of programs that have ended.
func (p *panel) followOwners(t testing.TB) {
	require.NoError(t, p.conn.AddMatchSignal(dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged")))
	signals := make(chan *dbus.Signal, 256)
	p.conn.Signal(signals)
	go func() {
		for s := range signals {
			if len(s.Body) != 3 || s.Body[2] != "" {
				continue
			}
			gone := s.Body[0].(string) + "/"
			p.mu.Lock()
			p.items = slices.DeleteFunc(p.items, func(item string) bool { return strings.HasPrefix(item, gone) })
			p.mu.Unlock()
			p.publish()
		}
	}()
}

func (p *panel) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return // SetMust would panic
	}
	p.props.SetMust(watcherName, "RegisteredStatusNotifierItems", slices.Clone(p.items))
}

// Icons is how many programs show a tray icon.
func (d *Desktop) Icons() int {
	d.panel.mu.Lock()
	defer d.panel.mu.Unlock()
	return len(d.panel.items)
}

// NoIcon waits until no program shows an icon.
func (d *Desktop) NoIcon(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return d.Icons() == 0 }, Patience, 20*time.Millisecond)
}
