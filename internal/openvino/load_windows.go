package openvino

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	cLibrary   = "openvino_c.dll"
	tokenizers = "openvino_tokenizers.dll"
	// Paths go as UTF-16: the char* functions read them in the code page of the machine.
	readModelSymbol = "ov_core_read_model_unicode"
)

// pathArg is path as ov_core_read_model_unicode takes it.
func pathArg(path string) (*byte, error) {
	wide, err := windows.UTF16PtrFromString(path)
	return (*byte)(unsafe.Pointer(wide)), err
}

// narrowPath is path for the functions that take char*: the 8.3 name where path is not plain ASCII and the volume has one.
func narrowPath(path string) string {
	for _, r := range path {
		if r > 127 {
			return shortPath(path)
		}
	}
	return path
}

func shortPath(path string) string {
	wide, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return path
	}
	short := make([]uint16, windows.MAX_LONG_PATH)
	n, err := windows.GetShortPathName(wide, &short[0], uint32(len(short)))
	if err != nil || n == 0 || int(n) > len(short) {
		return path
	}
	return windows.UTF16ToString(short[:n])
}
