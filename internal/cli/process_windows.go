package cli

// ignoreBrokenPipe has nothing to do here: Windows knows no SIGPIPE.
func ignoreBrokenPipe() {}

func keepPrivate() {} // a user's folders are private already
