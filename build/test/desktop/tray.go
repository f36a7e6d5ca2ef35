//go:build linux

package desktop

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

const (
	itemInterface = "org.kde.StatusNotifierItem"
	menuInterface = "com.canonical.dbusmenu"
)

// Tray is a program's tray icon, as a panel sees it.
type Tray struct {
	conn *dbus.Conn
	item dbus.BusObject
	menu dbus.BusObject
}

// Item is one line of its menu.
type Item struct {
	ID        int32
	Label     string // as it is shown
	Enabled   bool
	Separator bool
}

// Tray waits for a program's icon; the last one, if there are several.
func (d *Desktop) Tray(t testing.TB) *Tray {
	t.Helper()
	require.NotNil(t, d.panel, "there is no panel")
	require.Eventually(t, func() bool { return d.Icons() > 0 }, Patience, 20*time.Millisecond, "no tray icon")
	d.panel.mu.Lock()
	name, path, _ := strings.Cut(d.panel.items[len(d.panel.items)-1], "/")
	d.panel.mu.Unlock()
	item := d.panel.conn.Object(name, dbus.ObjectPath("/"+path))
	menu, err := item.GetProperty(itemInterface + ".Menu")
	require.NoError(t, err)
	return &Tray{conn: d.panel.conn, item: item, menu: d.panel.conn.Object(name, menu.Value().(dbus.ObjectPath))}
}

// Items is the menu as it is shown now: without what is hidden.
func (tr *Tray) Items() ([]Item, error) {
	var revision uint32
	var root struct {
		ID       int32
		Props    map[string]dbus.Variant
		Children []dbus.Variant
	}
	if err := tr.menu.Call(menuInterface+".GetLayout", 0, int32(0), int32(-1), []string{}).Store(&revision, &root); err != nil {
		return nil, err
	}
	var items []Item
	for _, child := range root.Children {
		fields, ok := child.Value().([]any)
		if !ok || len(fields) != 3 {
			return nil, fmt.Errorf("a menu item is %v", child)
		}
		props := fields[1].(map[string]dbus.Variant)
		item := Item{ID: fields[0].(int32), Enabled: true}
		item.Label, _ = props["label"].Value().(string)
		item.Label = strings.ReplaceAll(item.Label, "__", "_") // a single one would underline a letter
		if enabled, ok := props["enabled"].Value().(bool); ok {
			item.Enabled = enabled
		}
		item.Separator = props["type"].Value() == "separator"
		if visible, ok := props["visible"].Value().(bool); !ok || visible {
			items = append(items, item)
		}
	}
	return items, nil
}

// Labels are the texts of the menu, "-" for a separator and "(text)" for what cannot be clicked.
func (tr *Tray) Labels(t testing.TB) []string {
	t.Helper()
	items, err := tr.Items()
	require.NoError(t, err)
	var labels []string
	for _, item := range items {
		switch {
		case item.Separator:
			labels = append(labels, "-")
		case item.Enabled:
			labels = append(labels, item.Label)
		default:
			labels = append(labels, "("+item.Label+")")
		}
	}
	return labels
}

// Wait waits for an item whose label begins with prefix, and returns it.
func (tr *Tray) Wait(t testing.TB, prefix string) Item {
	t.Helper()
	var found Item
	require.Eventually(t, func() bool {
		items, err := tr.Items()
		if err != nil {
			return false
		}
		for _, item := range items {
			if strings.HasPrefix(item.Label, prefix) && !item.Separator {
				found = item
				return true
			}
		}
		return false
	}, Patience, 20*time.Millisecond, "the tray menu never showed %q", prefix)
	return found
}

// Click chooses the item with that label.
func (tr *Tray) Click(t testing.TB, label string) {
	t.Helper()
	item := tr.Wait(t, label)
	require.Equal(t, label, item.Label)
	require.True(t, item.Enabled, "%q cannot be clicked", label)
	call := tr.menu.Call(menuInterface+".Event", 0, item.ID, "clicked", dbus.MakeVariant(int32(0)), uint32(0))
	// A program that quits at this click may be gone before it answers.
	if err, gone := errors.AsType[dbus.Error](call.Err); !gone || err.Name != "org.freedesktop.DBus.Error.NoReply" {
		require.NoError(t, call.Err)
	}
}

// Activate is a left click on the icon.
func (tr *Tray) Activate(t testing.TB) {
	t.Helper()
	require.NoError(t, tr.item.Call(itemInterface+".Activate", 0, int32(0), int32(0)).Err)
}

// Property is a property of the icon, such as "Title" or "ToolTip".
func (tr *Tray) Property(t testing.TB, name string) any {
	t.Helper()
	value, err := tr.item.GetProperty(itemInterface + "." + name)
	require.NoError(t, err)
	return value.Value()
}

// Icon is the picture that a panel shows.
func (tr *Tray) Icon(t testing.TB) image.Image {
	t.Helper()
	var pictures []struct {
		Width, Height int32
		ARGB          []byte
	}
	value, err := tr.item.GetProperty(itemInterface + ".IconPixmap")
	require.NoError(t, err)
	require.NoError(t, dbus.Store([]any{value.Value()}, &pictures))
	require.NotEmpty(t, pictures)
	p := pictures[0]
	img := image.NewNRGBA(image.Rect(0, 0, int(p.Width), int(p.Height)))
	for i := range int(p.Width * p.Height) {
		c := p.ARGB[4*i : 4*i+4]
		img.SetNRGBA(i%int(p.Width), i/int(p.Width), color.NRGBA{R: c[1], G: c[2], B: c[3], A: c[0]})
	}
	return img
}
