package openvino

import "unsafe"

// ov_shape_t is larger than a register: the Windows x64 ABI passes such a value as the address of a copy.
type shape struct{ rank, dims uintptr }

// ov_status_e ov_tensor_create(const ov_element_type_e type, const ov_shape_t shape, ov_tensor_t** tensor)
//
//go:uintptrescapes
func (l *Library) tensorCreate(typ ElementType, rank, dims, out uintptr) error {
	s := &shape{rank, dims}
	return l.call("create a tensor", l.fn.tensorCreate, uintptr(typ), uintptr(unsafe.Pointer(s)), out)
}

// ov_status_e ov_tensor_create_from_string_array(const char** string_array, const size_t array_size, const ov_shape_t shape,
// ov_tensor_t** tensor)
//
//go:uintptrescapes
func (l *Library) tensorStrings(array, size, rank, dims, out uintptr) error {
	s := &shape{rank, dims}
	return l.call("create a text tensor", l.fn.tensorStrings, array, size, uintptr(unsafe.Pointer(s)), out)
}

// ov_status_e ov_tensor_set_shape(ov_tensor_t* tensor, const ov_shape_t shape)
//
//go:uintptrescapes
func (l *Library) tensorReshape(tensor, rank, dims uintptr) error {
	s := &shape{rank, dims}
	return l.call("reshape a tensor", l.fn.tensorReshape, tensor, uintptr(unsafe.Pointer(s)))
}
