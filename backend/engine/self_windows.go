package engine

import "os"

// Self is the path to start this very program again. Windows lets nobody replace the file of a running program.
func Self() (string, error) { return os.Executable() }
