package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func tree(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for path, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text+"\n"), 0o644))
	}
	return dir
}

func TestPowerSuppliesOfLaptopsAndOthers(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"plugged in":            {map[string]string{"AC/type": "Mains", "AC/online": "1", "BAT0/type": "Battery", "BAT0/status": "Discharging"}, Mains},
		"unplugged":             {map[string]string{"AC/type": "Mains", "AC/online": "0", "BAT0/type": "Battery", "BAT0/status": "Discharging"}, Battery},
		"usb-c":                 {map[string]string{"ucsi/type": "USB", "ucsi/online": "1", "BAT0/type": "Battery", "BAT0/status": "Charging"}, Mains},
		"two batteries":         {map[string]string{"BAT0/type": "Battery", "BAT0/status": "Not charging", "BAT1/type": "Battery", "BAT1/status": "Discharging"}, Battery},
		"full, line not listed": {map[string]string{"BAT0/type": "Battery", "BAT0/status": "Full"}, Mains},
		"a mouse alone":         {map[string]string{"hid/type": "Battery", "hid/status": "Discharging", "hid/scope": "Device"}, ""},
		"a desktop":             {nil, ""},
	} {
		assert.Equal(t, c.want, sourceIn(tree(t, c.files)), name)
	}
	assert.Empty(t, sourceIn(filepath.Join(t.TempDir(), "none")))
}

func TestEnergyCounters(t *testing.T) {
	one := map[string]string{"intel-rapl:0/energy_uj": "5", "intel-rapl:0/max_energy_range_uj": "100", "intel-rapl:0/name": "package-0"}
	used, wraps, ok := energyIn(tree(t, one))
	assert.True(t, ok)
	assert.EqualValues(t, 5, used)
	assert.EqualValues(t, 100, wraps)
	one["intel-rapl:1/name"] = "psys"
	_, _, ok = energyIn(tree(t, one))
	assert.True(t, ok)
	one["intel-rapl:1/name"] = "package-1"
	_, _, ok = energyIn(tree(t, one))
	assert.False(t, ok)
	_, _, ok = energyIn(t.TempDir())
	assert.False(t, ok)
}
