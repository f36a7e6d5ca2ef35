package openvino

import "github.com/ebitengine/purego"

const (
	cLibrary        = "libopenvino_c.so.*"
	tokenizers      = "libopenvino_tokenizers.so"
	readModelSymbol = "ov_core_read_model"
)

func open(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func symbol(handle uintptr, name string) (uintptr, error) {
	return purego.Dlsym(handle, name)
}

// pathArg is path as ov_core_read_model takes it.
func pathArg(path string) (*byte, error) { return cString(path) }

// narrowPath is path for the functions that take char* on every system.
func narrowPath(path string) string { return path }
