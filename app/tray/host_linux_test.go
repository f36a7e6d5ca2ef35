package tray

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWithoutASessionBusThereIsNoTray(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for _, address := range []string{"", "autolaunch:", "disabled:"} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
		_, err := watchHost(nil)
		assert.ErrorIs(t, err, ErrNoTray, address)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+t.TempDir()+"/bus")
	_, err := watchHost(nil)
	assert.ErrorIs(t, err, ErrNoTray, "nothing answers there")
}

func TestUnderscoresStayUnderscores(t *testing.T) {
	assert.Equal(t, "my__model", escape("my_model"))
}
