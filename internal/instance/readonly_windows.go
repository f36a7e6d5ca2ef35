package instance

import "golang.org/x/sys/windows"

// readOnly is the error of a file system that nothing can be written to. It is not fs.ErrPermission.
const readOnly = windows.ERROR_WRITE_PROTECT
