//go:build !linux && !windows

package backend

// portHolder is not known here.
func portHolder(int) (name string, pid int, ok bool) { return "", 0, false }
