package llm

import (
	"fmt"
	"strings"
)

// Device classes.
const (
	NPU  = "NPU"
	GPU  = "GPU"
	CPU  = "CPU"
	Mock = "mock" // the fake engine: never to be taken for hardware
)

// Device is one processor that can run a model.
type Device struct {
	Class    string `json:"class"` // NPU, GPU, CPU or mock
	Index    int    `json:"index"` // from 0 within its class
	Name     string `json:"name"`  // the maker's name, "Intel(R) AI Boost"
	Arch     string `json:"arch,omitempty"`
	Driver   string `json:"driver,omitempty"`   // the driver's version; empty: not known
	Emulated bool   `json:"emulated,omitempty"` // the CPU stands in for the hardware (NPU only, for tests)
	Runtime  string `json:"runtime"`            // the runtime's name for it: "CPU", "GPU.0", "NPU"
}

// ID is the device's stable key, such as "npu:0".
func (d Device) ID() string { return fmt.Sprintf("%s:%d", strings.ToLower(d.Class), d.Index) }

// Label is the name people and headers see: "NPU", "GPU", "GPU.1", "NPU (emulated on CPU)".
func (d Device) Label() string {
	label := d.Class
	if d.Index > 0 {
		label = fmt.Sprintf("%s.%d", d.Class, d.Index)
	}
	if d.Emulated {
		label += " (emulated on CPU)"
	}
	return label
}
