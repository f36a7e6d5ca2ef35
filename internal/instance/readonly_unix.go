//go:build unix

package instance

import "syscall"

// readOnly is the error of a file system that nothing can be written to. It is not fs.ErrPermission.
const readOnly = syscall.EROFS
