package openvino

import (
	"unsafe"

	"signalbox/internal/native"
)

// CompiledModel is a model ready to run on a device.
type CompiledModel struct {
	lib    *Library
	handle native.Handle
}

// Port is an input or an output of a model.
type Port struct {
	Name string // one of its names; empty when it has none
	Type ElementType
	Dims []int64 // -1: any; nil: a number of dimensions that is not fixed
}

// Inputs lists the inputs in order.
//
// ov_status_e ov_compiled_model_inputs_size(const ov_compiled_model_t* compiled_model, size_t* size)
// ov_status_e ov_compiled_model_input_by_index(const ov_compiled_model_t*, const size_t index, ov_output_const_port_t**)
func (c *CompiledModel) Inputs() ([]Port, error) {
	return c.ports(c.lib.fn.inputs, c.lib.fn.inputAt)
}

// Outputs lists the outputs in order.
//
// ov_status_e ov_compiled_model_outputs_size(const ov_compiled_model_t* compiled_model, size_t* size)
// ov_status_e ov_compiled_model_output_by_index(const ov_compiled_model_t*, const size_t index, ov_output_const_port_t**)
func (c *CompiledModel) Outputs() ([]Port, error) {
	return c.ports(c.lib.fn.outputs, c.lib.fn.outputAt)
}

func (c *CompiledModel) ports(size, at uintptr) ([]Port, error) {
	p, err := c.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer c.handle.Release()
	var n uintptr
	if err := c.lib.call("count a model's ports", size, p, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	ports := make([]Port, n)
	for i := range ports {
		if ports[i], err = c.port(p, at, uintptr(i)); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// ov_status_e ov_port_get_any_name(const ov_output_const_port_t* port, char** tensor_name)
// ov_status_e ov_port_get_element_type(const ov_output_const_port_t* port, ov_element_type_e* tensor_type)
// void ov_output_const_port_free(ov_output_const_port_t* port)
func (c *CompiledModel) port(model, at, index uintptr) (Port, error) {
	var port uintptr
	if err := c.lib.call("read a model's port", at, model, index, uintptr(unsafe.Pointer(&port))); err != nil {
		return Port{}, err
	}
	defer c.lib.callVoid(c.lib.fn.portFree, port)
	var out Port
	if err := c.lib.call("read a port's type", c.lib.fn.portType, port, uintptr(unsafe.Pointer(&out.Type))); err != nil {
		return Port{}, err
	}
	var err error
	if out.Dims, err = c.lib.portDims(port); err != nil {
		return Port{}, err
	}
	var name *byte
	if err := c.lib.call("read a port's name", c.lib.fn.portName, port, uintptr(unsafe.Pointer(&name))); err == nil {
		out.Name = c.lib.takeString(name) // a port without a name is an error to OpenVINO, not to us
	}
	return out, nil
}

// typedef struct { int64_t min; int64_t max; } ov_dimension_t, ov_rank_t;
type dimension struct {
	least, most int64
}

// typedef struct { ov_rank_t rank; ov_dimension_t* dims; } ov_partial_shape_t;
type partialShape struct {
	rank dimension
	dims *dimension
}

// ov_status_e ov_port_get_partial_shape(const ov_output_const_port_t* port, ov_partial_shape_t* partial_shape)
// void ov_partial_shape_free(ov_partial_shape_t* partial_shape)
func (l *Library) portDims(port uintptr) ([]int64, error) {
	shape := new(partialShape)
	if err := l.call("read a port's shape", l.fn.portShape, port, uintptr(unsafe.Pointer(shape))); err != nil {
		return nil, err
	}
	defer l.callVoid(l.fn.partialShapeFree, uintptr(unsafe.Pointer(shape)))
	if shape.rank.least != shape.rank.most {
		return nil, nil
	}
	dims := make([]int64, shape.rank.least)
	for i := range dims {
		d := unsafe.Slice(shape.dims, len(dims))[i]
		if dims[i] = d.least; d.least != d.most {
			dims[i] = -1
		}
	}
	return dims, nil
}

// Property reads a setting that the device chose or was given.
//
// ov_status_e ov_compiled_model_get_property(const ov_compiled_model_t*, const char* property_key, char** property_value)
func (c *CompiledModel) Property(key string) (string, error) {
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
	err = c.lib.call("read "+key, c.lib.fn.compiledProperty, p, uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(&value)))
	if err != nil {
		return "", err
	}
	return c.lib.takeString(value), nil
}

// NewRequest makes a request: the inputs, outputs and state of one run after another. On CPU and GPU each has a state of its
// own. On the NPU's LLM pipeline there must be one request only: a second one gives wrong answers without an error.
//
// ov_status_e ov_compiled_model_create_infer_request(const ov_compiled_model_t*, ov_infer_request_t** infer_request)
func (c *CompiledModel) NewRequest() (*Request, error) {
	p, err := c.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer c.handle.Release()
	r := &Request{lib: c.lib}
	if err := c.lib.call("create an infer request", c.lib.fn.createRequest, p, uintptr(unsafe.Pointer(r.handle.Out()))); err != nil {
		return nil, err
	}
	return r, nil
}

// Close frees the compiled model. Requests made from it stay usable until they are closed.
//
// void ov_compiled_model_free(ov_compiled_model_t* compiled_model)
func (c *CompiledModel) Close() { c.handle.Close(c.lib.freeing(c.lib.fn.compiledFree)) }
