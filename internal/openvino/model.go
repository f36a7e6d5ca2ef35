package openvino

import (
	"fmt"
	"unsafe"

	"signalbox/internal/native"
)

// Model is a model that has been read and not yet compiled.
type Model struct {
	lib     *Library
	weights *Tensor // what the model's constants point into; nil when it was read from files
	handle  native.Handle
}

// ReadModel reads a model from its file. weights is the file of its constants; empty: the one that belongs to path.
// OpenVINO maps the weights into memory and keeps the file in use until the model, and all compiled from it, are closed.
//
// ov_status_e ov_core_read_model(const ov_core_t* core, const char* model_path, const char* bin_path, ov_model_t** model)
func (c *Core) ReadModel(path, weights string) (*Model, error) {
	xml, err := pathArg(path)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	var bin *byte
	if weights != "" {
		if bin, err = pathArg(weights); err != nil {
			return nil, fmt.Errorf("read %q: %w", weights, err)
		}
	}
	p, err := c.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer c.handle.Release()
	m := &Model{lib: c.lib}
	err = c.lib.call("read "+path, c.lib.fn.readModel, p, uintptr(unsafe.Pointer(xml)), uintptr(unsafe.Pointer(bin)),
		uintptr(unsafe.Pointer(m.handle.Out())))
	if err != nil {
		return nil, err
	}
	return m, nil
}

// ReadModelXML reads a model from the text of its XML and a tensor of bytes with its constants. It takes weights over.
//
// ov_status_e ov_core_read_model_from_memory_buffer(const ov_core_t* core, const char* model_str, const size_t str_len,
// const ov_tensor_t* weights, ov_model_t** model)
func (c *Core) ReadModelXML(xml []byte, weights *Tensor) (*Model, error) {
	if len(xml) == 0 {
		return nil, fmt.Errorf("read a model from memory: no text")
	}
	p, err := c.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer c.handle.Release()
	w, err := weights.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer weights.handle.Release()
	m := &Model{lib: c.lib, weights: weights}
	err = c.lib.call("read a model from memory", c.lib.fn.readModelMemory, p, uintptr(unsafe.Pointer(&xml[0])),
		uintptr(len(xml)), w, uintptr(unsafe.Pointer(m.handle.Out())))
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Close frees the model. What was compiled from it stays.
//
// void ov_model_free(ov_model_t* model)
func (m *Model) Close() {
	m.handle.Close(m.lib.freeing(m.lib.fn.modelFree))
	if m.weights != nil {
		m.weights.Close()
	}
}
