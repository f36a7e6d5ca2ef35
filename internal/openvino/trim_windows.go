package openvino

// Trim does nothing: Windows gets back what is freed.
func Trim() {}
