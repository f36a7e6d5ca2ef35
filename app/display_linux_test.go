package app

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDisplayMustAnswer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	set := func(wayland, x11 string) (bool, string) {
		t.Setenv("WAYLAND_DISPLAY", wayland)
		t.Setenv("DISPLAY", x11)
		return findDisplay()
	}
	there, reason := set("", "")
	assert.False(t, there)
	assert.Equal(t, "there is no display: neither WAYLAND_DISPLAY nor DISPLAY is set", reason)
	there, reason = set("wayland-7", ":54321")
	assert.False(t, there)
	assert.Equal(t, `no display answers (WAYLAND_DISPLAY="wayland-7", DISPLAY=":54321")`, reason)
	there, _ = set("", "nonsense")
	assert.False(t, there)
	there, _ = set("", "localhost:10.0")
	assert.True(t, there, "a forwarded display is left to GTK")

	socket, err := net.Listen("unix", filepath.Join(dir, "wayland-7"))
	require.NoError(t, err)
	defer socket.Close()
	there, _ = set("wayland-7", "")
	assert.True(t, there)
	there, _ = set(filepath.Join(dir, "wayland-7"), "")
	assert.True(t, there, "an absolute path")
}
