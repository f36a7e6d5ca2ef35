package openvino

import (
	"fmt"
	"path/filepath"
	"unsafe"

	"signalbox/internal/native"
)

// Core knows the devices, reads models and compiles them.
type Core struct {
	lib    *Library
	handle native.Handle
}

// NewCore makes a Core and loads the CPU's plugin. Other plugins are loaded when their device is first used.
//
// ov_status_e ov_core_create(ov_core_t** core)
func (l *Library) NewCore() (*Core, error) {
	c := &Core{lib: l}
	if err := l.call("start OpenVINO", l.fn.coreCreate, uintptr(unsafe.Pointer(c.handle.Out()))); err != nil {
		return nil, err
	}
	err := keepSignalStack(func() error {
		_, err := c.Property("CPU", "FULL_DEVICE_NAME")
		return err
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Library is the library the core belongs to.
func (c *Core) Library() *Library { return c.lib }

// AddTokenizers loads the tokenizer operations. Tokenizer models can be read only afterwards.
//
// ov_status_e ov_core_add_extension(const ov_core_t* core, const char* path)
func (c *Core) AddTokenizers() error {
	file, err := find(filepath.Join(c.lib.dir, "openvino_tokenizers", "lib"), tokenizers)
	if err != nil {
		return fmt.Errorf("load the tokenizers: %w", err)
	}
	path, err := cString(narrowPath(file))
	if err != nil {
		return err
	}
	p, err := c.handle.Acquire()
	if err != nil {
		return err
	}
	defer c.handle.Release()
	return c.lib.call("load the tokenizers from "+file, c.lib.fn.addExtension, p, uintptr(unsafe.Pointer(path)))
}

// SetProperties changes settings of a device, or with device "" of the core.
//
// ov_status_e ov_core_set_properties(const ov_core_t* core, const char* device_name, const size_t num_properties,
// const ov_property_t* properties)
func (c *Core) SetProperties(device string, properties Properties) error {
	name, err := cString(device)
	if err != nil {
		return err
	}
	array, err := properties.array()
	if err != nil {
		return err
	}
	p, err := c.handle.Acquire()
	if err != nil {
		return err
	}
	defer c.handle.Release()
	return c.lib.call("set properties of "+device, c.lib.fn.setProperties, p, uintptr(unsafe.Pointer(name)),
		uintptr(len(properties)), uintptr(unsafe.Pointer(&array[0])))
}

// Property reads a setting or a fact of a device.
//
// ov_status_e ov_core_get_property(const ov_core_t* core, const char* device_name, const char* property_key, char** property_value)
func (c *Core) Property(device, key string) (string, error) {
	name, err := cString(device)
	if err != nil {
		return "", err
	}
	k, err := cString(key)
	if err != nil {
		return "", err
	}
	p, err := c.handle.Acquire()
	if err != nil {
		return "", err
	}
	defer c.handle.Release()
	var value *byte
	err = c.lib.call("read "+key+" of "+device, c.lib.fn.getProperty, p, uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(&value)))
	if err != nil {
		return "", err
	}
	return c.lib.takeString(value), nil
}

// Close frees the core.
//
// void ov_core_free(ov_core_t* core)
func (c *Core) Close() { c.handle.Close(c.lib.freeing(c.lib.fn.coreFree)) }

// Compile prepares model for device. It can take minutes and cannot be interrupted.
//
// ov_status_e ov_core_compile_model_props(const ov_core_t* core, const ov_model_t* model, const char* device_name,
// const size_t num_properties, const ov_property_t* properties, ov_compiled_model_t** compiled_model)
func (c *Core) Compile(model *Model, device string, properties Properties) (*CompiledModel, error) {
	name, err := cString(device)
	if err != nil {
		return nil, err
	}
	array, err := properties.array()
	if err != nil {
		return nil, err
	}
	p, err := c.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer c.handle.Release()
	m, err := model.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer model.handle.Release()
	out := &CompiledModel{lib: c.lib}
	err = c.lib.call("compile for "+device, c.lib.fn.compile, p, m, uintptr(unsafe.Pointer(name)),
		uintptr(len(properties)), uintptr(unsafe.Pointer(&array[0])), uintptr(unsafe.Pointer(out.handle.Out())))
	if err != nil {
		return nil, err
	}
	return out, nil
}
