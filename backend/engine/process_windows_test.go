package engine_test

import "golang.org/x/sys/windows"

// running says that a process exists and has not ended.
func running(pid int) bool {
	process, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(process)
	state, _ := windows.WaitForSingleObject(process, 0)
	return state == uint32(windows.WAIT_TIMEOUT)
}
