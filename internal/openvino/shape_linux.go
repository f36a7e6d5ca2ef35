package openvino

// ov_shape_t {int64_t rank; int64_t* dims} is passed by value: two integer registers in the System V ABI.

// ov_status_e ov_tensor_create(const ov_element_type_e type, const ov_shape_t shape, ov_tensor_t** tensor)
//
//go:uintptrescapes
func (l *Library) tensorCreate(typ ElementType, rank, dims, out uintptr) error {
	return l.call("create a tensor", l.fn.tensorCreate, uintptr(typ), rank, dims, out)
}

// ov_status_e ov_tensor_create_from_string_array(const char** string_array, const size_t array_size, const ov_shape_t shape,
// ov_tensor_t** tensor)
//
//go:uintptrescapes
func (l *Library) tensorStrings(array, size, rank, dims, out uintptr) error {
	return l.call("create a text tensor", l.fn.tensorStrings, array, size, rank, dims, out)
}

// ov_status_e ov_tensor_set_shape(ov_tensor_t* tensor, const ov_shape_t shape)
//
//go:uintptrescapes
func (l *Library) tensorReshape(tensor, rank, dims uintptr) error {
	return l.call("reshape a tensor", l.fn.tensorReshape, tensor, rank, dims)
}
