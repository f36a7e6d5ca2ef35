package xgrammar

import "github.com/ebitengine/purego"

const (
	ffiLibrary     = "libtvm_ffi.so"
	grammarLibrary = "libxgrammar_bindings.so"
)

// open makes a library's symbols global: xgrammar finds those of TVM FFI that way, wherever the two lie.
func open(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func symbol(handle uintptr, name string) (uintptr, error) {
	return purego.Dlsym(handle, name)
}
