package openvino

// keepSignalStack runs f: Windows has no signal stacks.
func keepSignalStack(f func() error) error { return f() }
