package machine

import (
	"encoding/binary"
	"reflect"
	"runtime"
	"syscall"
	"time"
)

var (
	kernel32    = syscall.NewLazyDLL("kernel32.dll") // a known DLL: Windows takes it from System32 alone
	powerStatus = kernel32.NewProc("GetSystemPowerStatus")
	memoryState = kernel32.NewProc("GlobalMemoryStatusEx")
)

// source asks for SYSTEM_POWER_STATUS: 12 bytes, of which the first is the line's state: 0 battery, 1 mains, 255 not known.
func source() string {
	status := make([]byte, 12)
	if !fill(powerStatus, status) {
		return ""
	}
	switch status[0] {
	case 0:
		return Battery
	case 1:
		return Mains
	}
	return ""
}

// energy is not to be had here without a driver.
func energy() (microjoules, wraps uint64, ok bool) { return 0, 0, false }

// FreeMemory is how many bytes programs can have without anything being swapped out; 0 where the system does not tell.
func FreeMemory() int64 { return memoryStatus(16) }

// TotalMemory is how many bytes of memory this computer has; 0 where the system does not tell.
func TotalMemory() int64 { return memoryStatus(8) }

// memoryStatus is a number of MEMORYSTATUSEX: its length and its load, of 4 bytes each, then ullTotalPhys and ullAvailPhys.
func memoryStatus(at int) int64 {
	status := make([]byte, 64)
	binary.LittleEndian.PutUint32(status, uint32(len(status)))
	if !fill(memoryState, status) {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(status[at:]))
}

// fill calls a function that fills a structure in and answers whether it could. The slice is on the heap, as reflect has it.
func fill(proc *syscall.LazyProc, structure []byte) bool {
	if proc.Find() != nil {
		return false
	}
	done, _, _ := proc.Call(reflect.ValueOf(structure).Pointer())
	runtime.KeepAlive(structure)
	return done != 0
}

// uptime is not asked for: the wall clock is compared.
func uptime() time.Duration { return 0 }

// Driver is not known here.
func Driver() string { return "" }
