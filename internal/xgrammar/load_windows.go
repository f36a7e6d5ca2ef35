package xgrammar

import "golang.org/x/sys/windows"

const (
	ffiLibrary     = "tvm_ffi.dll"
	grammarLibrary = "xgrammar_bindings.dll"
)

// open loads by absolute path. xgrammar finds TVM FFI by its name because that is loaded first.
func open(path string) (uintptr, error) {
	handle, err := windows.LoadLibraryEx(path, 0, windows.LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR|windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	return uintptr(handle), err
}

func symbol(handle uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(handle), name)
}
