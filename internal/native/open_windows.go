package native

import "golang.org/x/sys/windows"

// Open opens a library by absolute path, and looks for its own needs next to it, never in the working directory.
func Open(path string) (uintptr, error) {
	library, err := windows.LoadLibraryEx(path, 0, windows.LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR|windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	return uintptr(library), err
}

// Symbol finds a function.
func Symbol(library uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(library), name)
}
