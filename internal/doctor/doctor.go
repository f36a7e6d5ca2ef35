// Package doctor looks at what Signalbox needs of this machine and says for each thing, in one sentence, how it stands and
// which command helps.
package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Finding is one thing that was looked at.
type Finding struct {
	What string // "NPU"
	OK   bool
	Says string // one sentence
	Do   string // a command, or where to go; empty when nothing needs doing
}

// Machine is what is looked at. The zero value of a field means the question cannot be asked here.
type Machine struct {
	Root fs.FS                   // the file system from /: sys, proc and dev
	Open func(path string) error // tries to open a device file for reading and writing
	User string                  // for the commands
}

const (
	intel       = "0x8086"
	accelerator = "0x1200" // PCI base class 12, subclass 00: processing accelerators
	display     = "0x03"   // PCI base class 03: display controllers
)

// NPU looks for the NPU, its driver and the right to use it.
func NPU(m Machine) []Finding {
	const what = "NPU"
	if m.Root == nil {
		return nil
	}
	if m.wsl() {
		return []Finding{{What: what, Says: "This is WSL, which passes no NPU through: Signalbox for Windows can use it.",
			Do: "install Signalbox on Windows itself"}}
	}
	if !m.hasPCI(accelerator) {
		return []Finding{{What: what, OK: true, Says: "This machine has no Intel NPU; GPU and CPU do the work."}}
	}
	if _, err := fs.Stat(m.Root, "sys/module/intel_vpu"); err != nil {
		return []Finding{{What: what, Says: "There is an Intel NPU, but its kernel driver intel_vpu is not loaded.",
			Do: "sudo modprobe intel_vpu   (Linux 6.8 or newer has it)"}}
	}
	device, err := m.first("dev/accel", "accel")
	if err != nil {
		return []Finding{{What: what, Says: "The NPU driver is loaded, but it made no device under /dev/accel: the firmware may be missing.",
			Do: "sudo dmesg | grep intel_vpu"}}
	}
	if err := m.Open(device); errors.Is(err, fs.ErrPermission) {
		return []Finding{{What: what, Says: fmt.Sprintf("You may not use the NPU: %s belongs to the group render.", device),
			Do: fmt.Sprintf("sudo usermod -aG render %s   (then log in again)", m.User)}}
	} else if err != nil {
		return []Finding{{What: what, Says: fmt.Sprintf("The NPU does not open: %v.", err), Do: "sudo dmesg | grep intel_vpu"}}
	}
	if !m.hasLibrary("libze_intel_npu.so") && !m.hasLibrary("libze_intel_vpu.so") {
		return []Finding{{What: what, Says: "The kernel's side of the NPU works, but the user space driver (libze_intel_npu) is not installed.",
			Do: "install intel-driver-compiler-npu, intel-fw-npu and intel-level-zero-npu from the linux-npu-driver releases of Intel"}}
	}
	return []Finding{{What: what, OK: true, Says: fmt.Sprintf("The NPU is there (%s) and you may use it.", device)}}
}

// GPU looks for an Intel GPU and the right to use it.
func GPU(m Machine) []Finding {
	const what = "GPU"
	if m.Root == nil {
		return nil
	}
	if !m.hasPCI(display) {
		return []Finding{{What: what, OK: true, Says: "This machine has no Intel GPU."}}
	}
	device, err := m.first("dev/dri", "renderD")
	if err != nil {
		return []Finding{{What: what, Says: "There is an Intel GPU, but no render device under /dev/dri: its kernel driver is not loaded.",
			Do: "sudo modprobe i915   (or xe)"}}
	}
	if err := m.Open(device); errors.Is(err, fs.ErrPermission) {
		return []Finding{{What: what, Says: fmt.Sprintf("You may not use the GPU: %s belongs to the group render.", device),
			Do: fmt.Sprintf("sudo usermod -aG render %s   (then log in again)", m.User)}}
	} else if err != nil {
		return []Finding{{What: what, Says: fmt.Sprintf("The GPU does not open: %v.", err), Do: "sudo dmesg | grep -E 'i915|xe '"}}
	}
	if !m.hasLibrary("libze_intel_gpu.so") && !m.hasLibrary("intel-opencl/libigdrcl.so") {
		return []Finding{{What: what, Says: "The GPU is there, but its compute driver is not installed.", Do: "sudo apt install intel-opencl-icd"}}
	}
	return []Finding{{What: what, OK: true, Says: fmt.Sprintf("The GPU is there (%s) and you may use it.", device)}}
}

func (m Machine) wsl() bool {
	text, err := fs.ReadFile(m.Root, "proc/sys/kernel/osrelease")
	return err == nil && strings.Contains(strings.ToLower(string(text)), "microsoft")
}

// hasPCI reports whether an Intel device of that class is on the bus.
func (m Machine) hasPCI(class string) bool {
	devices, _ := fs.Glob(m.Root, "sys/bus/pci/devices/*")
	for _, device := range devices {
		vendor, _ := fs.ReadFile(m.Root, path.Join(device, "vendor"))
		kind, _ := fs.ReadFile(m.Root, path.Join(device, "class"))
		if strings.TrimSpace(string(vendor)) == intel && strings.HasPrefix(string(kind), class) {
			return true
		}
	}
	return false
}

// first is the absolute path of the first device file with that prefix.
func (m Machine) first(dir, prefix string) (string, error) {
	entries, err := fs.ReadDir(m.Root, dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			return "/" + path.Join(dir, entry.Name()), nil
		}
	}
	return "", fs.ErrNotExist
}

// hasLibrary looks in the folders where distributions put shared libraries.
func (m Machine) hasLibrary(name string) bool {
	for _, dir := range []string{"usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "lib/x86_64-linux-gnu", "opt/intel"} {
		if found, _ := fs.Glob(m.Root, path.Join(dir, name+"*")); len(found) > 0 {
			return true
		}
	}
	return false
}
