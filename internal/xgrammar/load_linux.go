package xgrammar

const (
	ffiLibrary     = "libtvm_ffi.so"
	grammarLibrary = "libxgrammar_bindings.so"
)
