package doctor

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machine is a file system with the paths given; "path=content" writes content.
func machine(open error, files map[string]string) Machine {
	root := fstest.MapFS{}
	for name, content := range files {
		root[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return Machine{Root: root, User: "ada", Open: func(string) error { return open }}
}

func with(base map[string]string, more ...string) map[string]string {
	files := map[string]string{}
	for name, content := range base {
		files[name] = content
	}
	for _, name := range more {
		files[name] = ""
	}
	return files
}

func TestNPUFindings(t *testing.T) {
	npu := map[string]string{
		"sys/bus/pci/devices/0000:00:0b.0/vendor": "0x8086\n",
		"sys/bus/pci/devices/0000:00:0b.0/class":  "0x120000\n",
	}
	driver := with(npu, "sys/module/intel_vpu/version")
	device := with(driver, "dev/accel/accel0")
	whole := with(device, "usr/lib/x86_64-linux-gnu/libze_intel_npu.so.1")
	denied := fmt.Errorf("open /dev/accel/accel0: %w", fs.ErrPermission)
	for _, row := range []struct {
		name string
		m    Machine
		ok   bool
		says string
		do   string
	}{
		{"no NPU", machine(nil, map[string]string{"proc/version": ""}), true, "no Intel NPU", ""},
		{"WSL", machine(nil, map[string]string{"proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2"}), false, "WSL", "Windows itself"},
		{"no driver", machine(nil, npu), false, "intel_vpu is not loaded", "modprobe intel_vpu"},
		{"no device", machine(nil, driver), false, "no device under /dev/accel", "dmesg"},
		{"not allowed", machine(denied, device), false, "belongs to the group render", "sudo usermod -aG render ada"},
		{"no user space driver", machine(nil, device), false, "libze_intel_npu", "linux-npu-driver"},
		{"all there", machine(nil, whole), true, "/dev/accel/accel0", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			found := NPU(row.m)
			require.Len(t, found, 1)
			assert.Equal(t, row.ok, found[0].OK)
			assert.Contains(t, found[0].Says, row.says)
			if row.do == "" {
				assert.Empty(t, found[0].Do)
			} else {
				assert.Contains(t, found[0].Do, row.do)
			}
		})
	}
}

func TestGPUFindings(t *testing.T) {
	gpu := map[string]string{
		"sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n",
		"sys/bus/pci/devices/0000:00:02.0/class":  "0x030000\n",
	}
	device := with(gpu, "dev/dri/renderD128")
	for _, row := range []struct {
		name string
		m    Machine
		ok   bool
		says string
	}{
		{"none", machine(nil, map[string]string{"proc/version": ""}), true, "no Intel GPU"},
		{"no driver", machine(nil, gpu), false, "no render device"},
		{"not allowed", machine(fs.ErrPermission, device), false, "group render"},
		{"no compute driver", machine(nil, device), false, "compute driver"},
		{"all there", machine(nil, with(device, "usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1")), true, "renderD128"},
	} {
		t.Run(row.name, func(t *testing.T) {
			found := GPU(row.m)
			require.Len(t, found, 1)
			assert.Equal(t, row.ok, found[0].OK)
			assert.Contains(t, found[0].Says, row.says)
		})
	}
}
