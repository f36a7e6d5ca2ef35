package app

// HasDisplay reports whether a window could open, and if not why: a sentence for people.
func HasDisplay() (bool, string) {
	if !hasWindow {
		return false, "this build of Signalbox has no window"
	}
	return findDisplay()
}
