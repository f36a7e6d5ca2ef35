package engine

import "os"

// environment is what a child gets: a list, built anew. Native libraries read the environment (ONEDNN_VERBOSE=1 made every
// compile for the CPU fail; LD_PRELOAD, OPENCL_VENDOR_PATH and INTEL_LIBITTNOTIFY64 load code), and tokens and proxies are no
// business of a process that never opens a socket.
func environment(more []string) []string {
	env := fixed()
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, more...)
}
