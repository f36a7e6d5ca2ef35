package engine

func fixed() []string { return []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"} }

// HOME: the GPU driver keeps its compile cache there. TZ: templates may write the date.
var passed = []string{"HOME", "TZ"}
