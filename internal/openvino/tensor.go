package openvino

import (
	"fmt"
	"math"
	"unsafe"

	"signalbox/internal/native"
)

// ElementType is the type of a tensor's elements (ov_element_type_e).
type ElementType int32

// The element types that this program meets.
const (
	Bool   ElementType = 1
	BF16   ElementType = 2
	F16    ElementType = 3
	F32    ElementType = 4
	I32    ElementType = 9
	I64    ElementType = 10
	U8     ElementType = 16
	String ElementType = 23
)

func (t ElementType) String() string {
	names := map[ElementType]string{Bool: "boolean", BF16: "bf16", F16: "f16", F32: "f32", I32: "i32", I64: "i64", U8: "u8", String: "string"}
	if name := names[t]; name != "" {
		return name
	}
	return fmt.Sprintf("element type %d", int32(t))
}

// Element is what Data can show the elements of a tensor as.
type Element interface {
	uint8 | int32 | int64 | float32
}

// TypeOf is the element type that T stands for.
func TypeOf[T Element]() ElementType {
	switch any(*new(T)).(type) {
	case uint8:
		return U8
	case int32:
		return I32
	case int64:
		return I64
	default:
		return F32
	}
}

// Tensor is an array of numbers or strings in OpenVINO's memory.
type Tensor struct {
	lib    *Library
	handle native.Handle
}

// maxElements bounds tensors, so that sizes computed from them cannot wrap.
const maxElements = math.MaxInt32

func checkDims(dims []int64) error {
	n := int64(1)
	for _, d := range dims {
		if d < 0 || d > maxElements {
			return fmt.Errorf("tensor shape %v: dimension out of range", dims)
		}
		if n *= d; n > maxElements {
			return fmt.Errorf("tensor shape %v: too many elements", dims)
		}
	}
	return nil
}

// first is the address of dims' elements; a scalar has none.
func first(dims []int64) *int64 {
	if len(dims) == 0 {
		return new(int64)
	}
	return &dims[0]
}

// NewTensor makes a tensor of numbers. Its elements are not set.
func (l *Library) NewTensor(typ ElementType, dims ...int64) (*Tensor, error) {
	if err := checkDims(dims); err != nil {
		return nil, err
	}
	t := &Tensor{lib: l}
	err := l.tensorCreate(typ, uintptr(len(dims)), uintptr(unsafe.Pointer(first(dims))), uintptr(unsafe.Pointer(t.handle.Out())))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// NewStrings makes a tensor of strings with one dimension. Text that contains a NUL is refused with ErrNUL: C would cut it.
func (l *Library) NewStrings(text ...string) (*Tensor, error) {
	if len(text) == 0 {
		return nil, fmt.Errorf("create a text tensor: no text")
	}
	array := make([]*byte, len(text))
	for i, s := range text {
		p, err := cString(s)
		if err != nil {
			return nil, err
		}
		array[i] = p
	}
	dims := []int64{int64(len(text))}
	t := &Tensor{lib: l}
	err := l.tensorStrings(uintptr(unsafe.Pointer(&array[0])), uintptr(len(array)), 1,
		uintptr(unsafe.Pointer(&dims[0])), uintptr(unsafe.Pointer(t.handle.Out())))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Reshape changes the tensor's dimensions. Memory that is large enough is kept with its contents, else the contents are lost.
func (t *Tensor) Reshape(dims ...int64) error {
	if err := checkDims(dims); err != nil {
		return err
	}
	p, err := t.handle.Acquire()
	if err != nil {
		return err
	}
	defer t.handle.Release()
	return t.lib.tensorReshape(p, uintptr(len(dims)), uintptr(unsafe.Pointer(first(dims))))
}

// Type is the type of the elements.
//
// ov_status_e ov_tensor_get_element_type(const ov_tensor_t* tensor, ov_element_type_e* type)
func (t *Tensor) Type() (ElementType, error) {
	p, err := t.handle.Acquire()
	if err != nil {
		return 0, err
	}
	defer t.handle.Release()
	var typ ElementType
	err = t.lib.call("read a tensor's type", t.lib.fn.tensorType, p, uintptr(unsafe.Pointer(&typ)))
	return typ, err
}

// Len is the number of elements.
//
// ov_status_e ov_tensor_get_size(const ov_tensor_t* tensor, size_t* elements_size)
func (t *Tensor) Len() (int, error) {
	p, err := t.handle.Acquire()
	if err != nil {
		return 0, err
	}
	defer t.handle.Release()
	var n uintptr
	err = t.lib.call("read a tensor's size", t.lib.fn.tensorSize, p, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

// Shape is the tensor's dimensions.
//
// ov_status_e ov_tensor_get_shape(const ov_tensor_t* tensor, ov_shape_t* shape)
// ov_status_e ov_shape_free(ov_shape_t* shape)
func (t *Tensor) Shape() ([]int64, error) {
	p, err := t.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer t.handle.Release()
	shape := new(struct {
		rank int64
		dims *int64
	})
	if err := t.lib.call("read a tensor's shape", t.lib.fn.tensorShape, p, uintptr(unsafe.Pointer(shape))); err != nil {
		return nil, err
	}
	dims := make([]int64, shape.rank)
	copy(dims, unsafe.Slice(shape.dims, shape.rank))
	return dims, t.lib.call("free a shape", t.lib.fn.shapeFree, uintptr(unsafe.Pointer(shape)))
}

// Close frees the tensor. Slices that Data gave are dead from then on.
//
// void ov_tensor_free(ov_tensor_t* tensor)
func (t *Tensor) Close() { t.handle.Close(t.lib.freeing(t.lib.fn.tensorFree)) }

// Data shows the tensor's elements in place. The slice lives until the tensor is closed or reshaped; that of an output
// tensor also only until its request's next Infer. It is an error when T is not the tensor's type.
//
// ov_status_e ov_tensor_data(const ov_tensor_t* tensor, void** data)
func Data[T Element](t *Tensor) ([]T, error) {
	typ, err := t.Type()
	if err != nil {
		return nil, err
	}
	if want := TypeOf[T](); typ != want {
		return nil, fmt.Errorf("tensor holds %v, not %v", typ, want)
	}
	n, err := t.Len()
	if err != nil || n == 0 {
		return nil, err
	}
	p, err := t.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer t.handle.Release()
	var data *T
	if err := t.lib.call("read a tensor's data", t.lib.fn.tensorData, p, uintptr(unsafe.Pointer(&data))); err != nil {
		return nil, err
	}
	return unsafe.Slice(data, n), nil
}

// Bytes shows the tensor's memory in place, whatever the type of its elements; it lives as long as what Data gives.
//
// ov_status_e ov_tensor_get_byte_size(const ov_tensor_t* tensor, size_t* byte_size)
func (t *Tensor) Bytes() ([]byte, error) {
	p, err := t.handle.Acquire()
	if err != nil {
		return nil, err
	}
	defer t.handle.Release()
	var n uintptr
	if err := t.lib.call("read a tensor's size", t.lib.fn.tensorBytes, p, uintptr(unsafe.Pointer(&n))); err != nil || n == 0 {
		return nil, err
	}
	var data *byte
	if err := t.lib.call("read a tensor's data", t.lib.fn.tensorData, p, uintptr(unsafe.Pointer(&data))); err != nil {
		return nil, err
	}
	return unsafe.Slice(data, n), nil
}

// TensorOf makes a tensor that holds a copy of values.
func TensorOf[T Element](l *Library, values []T, dims ...int64) (*Tensor, error) {
	t, err := l.NewTensor(TypeOf[T](), dims...)
	if err != nil {
		return nil, err
	}
	data, err := Data[T](t)
	if err == nil && len(data) != len(values) {
		err = fmt.Errorf("tensor shape %v does not hold %d values", dims, len(values))
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	copy(data, values)
	return t, nil
}
