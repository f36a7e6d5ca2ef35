package openvino

const (
	cLibrary        = "libopenvino_c.so.*"
	tokenizers      = "libopenvino_tokenizers.so"
	readModelSymbol = "ov_core_read_model"
)

// pathArg is path as ov_core_read_model takes it.
func pathArg(path string) (*byte, error) { return cString(path) }

// narrowPath is path for the functions that take char* on every system.
func narrowPath(path string) string { return path }
