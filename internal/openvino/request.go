package openvino

import (
	"unsafe"

	"signalbox/internal/native"
)

// Request runs a compiled model: set the inputs, Infer, read the outputs.
type Request struct {
	lib    *Library
	handle native.Handle
}

// SetTensor makes tensor the input or output called name.
//
// ov_status_e ov_infer_request_set_tensor(ov_infer_request_t* infer_request, const char* tensor_name, const ov_tensor_t* tensor)
func (r *Request) SetTensor(name string, tensor *Tensor) error {
	n, err := cString(name)
	if err != nil {
		return err
	}
	p, err := r.handle.Acquire()
	if err != nil {
		return err
	}
	defer r.handle.Release()
	t, err := tensor.handle.Acquire()
	if err != nil {
		return err
	}
	defer tensor.handle.Release()
	return r.lib.call("set "+name, r.lib.fn.setTensor, p, uintptr(unsafe.Pointer(n)), t)
}

// SetInput makes tensor the input with that index.
//
// ov_status_e ov_infer_request_set_input_tensor_by_index(ov_infer_request_t*, const size_t idx, const ov_tensor_t* tensor)
func (r *Request) SetInput(index int, tensor *Tensor) error {
	p, err := r.handle.Acquire()
	if err != nil {
		return err
	}
	defer r.handle.Release()
	t, err := tensor.handle.Acquire()
	if err != nil {
		return err
	}
	defer tensor.handle.Release()
	return r.lib.call("set an input", r.lib.fn.setInputAt, p, uintptr(index), t)
}

// Infer runs the model and returns when it is done. Only one Infer may run in a request: a second one answers "busy".
//
// ov_status_e ov_infer_request_infer(ov_infer_request_t* infer_request)
func (r *Request) Infer() error {
	p, err := r.handle.Acquire()
	if err != nil {
		return err
	}
	defer r.handle.Release()
	return r.lib.call("run the model", r.lib.fn.infer, p)
}

// Tensor returns the input or output called name. The caller closes it.
//
// ov_status_e ov_infer_request_get_tensor(const ov_infer_request_t*, const char* tensor_name, ov_tensor_t** tensor)
func (r *Request) Tensor(name string) (*Tensor, error) {
	n, err := cString(name)
	if err != nil {
		return nil, err
	}
	p, err := r.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer r.handle.Release()
	t := &Tensor{lib: r.lib}
	err = r.lib.call("read "+name, r.lib.fn.getTensor, p, uintptr(unsafe.Pointer(n)), uintptr(unsafe.Pointer(t.handle.Out())))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Output returns the output with that index. The caller closes it.
//
// ov_status_e ov_infer_request_get_output_tensor_by_index(const ov_infer_request_t*, const size_t idx, ov_tensor_t** tensor)
func (r *Request) Output(index int) (*Tensor, error) {
	p, err := r.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer r.handle.Release()
	t := &Tensor{lib: r.lib}
	err = r.lib.call("read an output", r.lib.fn.getOutputAt, p, uintptr(index), uintptr(unsafe.Pointer(t.handle.Out())))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Close frees the request and its state.
//
// void ov_infer_request_free(ov_infer_request_t* infer_request)
func (r *Request) Close() { r.handle.Close(r.lib.freeing(r.lib.fn.requestFree)) }
