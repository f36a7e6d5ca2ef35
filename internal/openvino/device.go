package openvino

import (
	"strings"
	"unsafe"
)

// Device is a processor that OpenVINO sees.
type Device struct {
	ID   string // "CPU", "GPU.0", "NPU": the name Compile takes
	Name string // the maker's, "Intel(R) AI Boost"; empty when the plugin does not tell
	Arch string // "3720", "GPU: vendor=0x8086 arch=v12.70"; empty when the plugin does not tell

	Driver string // the driver's version; empty when the plugin does not tell
}

// typedef struct { char** devices; size_t size; } ov_available_devices_t;
type deviceList struct {
	names **byte
	size  uintptr
}

// Devices lists the devices that are ready, as OpenVINO orders them. Plugins without a driver are left out.
//
// ov_status_e ov_core_get_available_devices(const ov_core_t* core, ov_available_devices_t* devices)
// void ov_available_devices_free(ov_available_devices_t* devices)
func (c *Core) Devices() ([]Device, error) {
	ids, err := c.deviceIDs()
	if err != nil {
		return nil, err
	}
	devices := make([]Device, len(ids))
	for i, id := range ids {
		devices[i] = c.Describe(id)
	}
	return devices, nil
}

// Describe asks the device's plugin for its names. What it does not tell is empty.
func (c *Core) Describe(id string) Device {
	name, _ := c.Property(id, "FULL_DEVICE_NAME")
	arch, _ := c.Property(id, "DEVICE_ARCHITECTURE")
	class, _, _ := strings.Cut(id, ".")
	driver, _ := c.Property(id, class+"_DRIVER_VERSION")
	return Device{ID: id, Name: name, Arch: arch, Driver: driver}
}

func (c *Core) deviceIDs() ([]string, error) {
	p, err := c.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer c.handle.Release()
	list := new(deviceList)
	if err := c.lib.call("list the devices", c.lib.fn.availableDevices, p, uintptr(unsafe.Pointer(list))); err != nil {
		return nil, err
	}
	defer c.lib.callVoid(c.lib.fn.availableDevicesFree, uintptr(unsafe.Pointer(list)))
	ids := make([]string, 0, list.size)
	for _, name := range unsafe.Slice(list.names, list.size) {
		ids = append(ids, goString(name))
	}
	return ids, nil
}
