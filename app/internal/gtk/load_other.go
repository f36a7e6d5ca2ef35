//go:build !(desktop && webkit2_41 && linux && amd64 && cgo)

package gtk

// Load does nothing here: what the window needs came with the program's start, or Wails loads it itself.
func Load() error { return nil }
