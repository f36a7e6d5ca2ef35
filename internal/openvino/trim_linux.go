package openvino

import (
	"sync"

	"github.com/ebitengine/purego"
)

// int malloc_trim(size_t pad)
var mallocTrim = sync.OnceValue(func() uintptr {
	f, err := purego.Dlsym(purego.RTLD_DEFAULT, "malloc_trim") // glibc's own
	if err != nil {
		return 0
	}
	return f
})

// Trim gives the system back what native code has freed: the C library keeps pieces of less than some megabytes for itself.
func Trim() {
	if f := mallocTrim(); f != 0 {
		purego.SyscallN(f, 0)
	}
}
