package llmtest

import "golang.org/x/sys/windows"

// Crash ends this process with the status of a fault in a native library.
func Crash() {
	windows.TerminateProcess(windows.CurrentProcess(), 0xC0000005)
	select {}
}
