package native

import "github.com/ebitengine/purego"

// Open opens a library and makes its symbols global: libraries that depend on it find them that way, wherever they lie.
func Open(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

// Symbol finds a function.
func Symbol(library uintptr, name string) (uintptr, error) { return purego.Dlsym(library, name) }
