package xgrammar

const (
	ffiLibrary     = "tvm_ffi.dll"
	grammarLibrary = "xgrammar_bindings.dll"
)
