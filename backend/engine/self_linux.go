package engine

import (
	"fmt"
	"os"
	"sync"
)

// Self is the path to start this very program again, whatever happened to its file since: an update may have replaced it, a
// package manager removed it. Call it once, early.
var Self = sync.OnceValues(func() (string, error) {
	file, err := os.Open("/proc/self/exe") // stays open: the path below is its descriptor
	if err != nil {
		return os.Executable()
	}
	self = file
	return fmt.Sprintf("/proc/self/fd/%d", file.Fd()), nil
})

var self *os.File // never closed
