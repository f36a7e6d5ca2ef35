package cli

import (
	"context"
	"errors"

	"signalbox/app"
	"signalbox/app/tray"
	"signalbox/backend"
	"signalbox/backend/server"
)

// desktopSide is the window and the tray as the server sees them.
type desktopSide struct{ app.Desktop }

func (d desktopSide) Open(address string) error { return d.Desktop.Open(address) }
func (d desktopSide) Show() error               { return d.Desktop.Show() }
func (d desktopSide) Quit() error               { return d.Desktop.Quit() }

func (d desktopSide) Folder(title string) (string, error) {
	path, err := d.Desktop.Folder(title)
	if errors.Is(err, app.ErrNoWindow) {
		return "", server.ErrNoDialog
	}
	return path, err
}

func (d desktopSide) Dropped() string { return d.Desktop.Dropped() }

func (d desktopSide) info() server.DesktopStatus {
	i := d.Info()
	return server.DesktopStatus{Window: i.Window, Tray: i.Tray, Note: i.Note}
}

// shown is the backend as the desktop side sees it.
type shown struct {
	backend *backend.Backend
	changes <-chan struct{}
	done    chan struct{} // closed when the backend has ended
}

func newShown(b *backend.Backend) *shown {
	changes, _ := b.Watch()
	return &shown{backend: b, changes: changes, done: make(chan struct{})}
}

func (s *shown) Changed() <-chan struct{}              { return s.changes }
func (s *shown) Done() <-chan struct{}                 { return s.done }
func (s *shown) OpenURL() string                       { return s.backend.OpenURL() }
func (s *shown) StartServer(ctx context.Context) error { return s.backend.StartServer(ctx) }
func (s *shown) StopServer(ctx context.Context) error  { return s.backend.StopServer(ctx) }

func (s *shown) Status() tray.Status {
	now := s.backend.Status()
	t := tray.Status{
		Title:   "Signalbox " + now.Version,
		Server:  tray.Server{State: now.Server.State, URL: now.Server.URL, Error: now.Server.Error},
		Problem: now.Runtime.Error,
	}
	for _, d := range now.Devices {
		t.Devices = append(t.Devices, tray.Device{
			Label: d.Label, State: d.State, Phase: d.Phase, Model: d.Model, Queued: d.Queued, TokensPerSecond: d.TokensPerSecond,
		})
	}
	return t
}
