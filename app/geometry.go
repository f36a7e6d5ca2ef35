package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

const minWidth, minHeight = 640, 480

// geometry is what is kept of the window between runs. Not its position: on X11 that drifts by the title bar,
// on Wayland nobody knows it, and a screen may be gone.
type geometry struct {
	Width     int  `json:"width"`
	Height    int  `json:"height"`
	Maximised bool `json:"maximised"`
	Explained bool `json:"explained"` // the user was told once that closing leaves Signalbox in the tray
}

// loadGeometry returns the size kept in dir, or a good one.
func loadGeometry(dir string) geometry {
	g := geometry{Width: 1100, Height: 760}
	if data, err := os.ReadFile(geometryPath(dir)); err == nil {
		_ = json.Unmarshal(data, &g) // a broken file is no reason to have no window
	}
	const most = 16384
	g.Width = min(max(g.Width, minWidth), most)
	g.Height = min(max(g.Height, minHeight), most)
	return g
}

func saveGeometry(dir string, g geometry) error {
	g = g.merge(loadGeometry(dir))
	data, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("save %s: %w", geometryPath(dir), err)
	}
	return os.WriteFile(geometryPath(dir), append(data, '\n'), 0o600)
}

// merge completes g with what was kept: the size before the window was maximised, and what was explained.
func (g geometry) merge(kept geometry) geometry {
	if g.Maximised || g.Width == 0 || g.Height == 0 {
		g.Width, g.Height = kept.Width, kept.Height
	}
	g.Explained = g.Explained || kept.Explained
	return g
}

func geometryPath(dir string) string { return filepath.Join(dir, "window.json") }
