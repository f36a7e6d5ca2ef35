package models

import (
	"encoding/binary"
	"io/fs"
	"reflect"
	"runtime"

	"golang.org/x/sys/windows"
)

// Space is what a file system has: free for this user, and in all.
func Space(dir string) (free, total int64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var f, t uint64
	if err := windows.GetDiskFreeSpaceEx(path, &f, &t, nil); err != nil {
		return 0, 0, err
	}
	return int64(f), int64(t), nil
}

// Memory is what this computer has, and how much of it can be used now; 0: unknown.
func Memory() (available, total int64) {
	// MEMORYSTATUSEX: its length and its load, of 4 bytes each, then ullTotalPhys and ullAvailPhys. On the heap, as reflect
	// has it.
	status := make([]byte, 64)
	binary.LittleEndian.PutUint32(status, uint32(len(status)))
	if memoryStatus.Find() != nil {
		return 0, 0
	}
	done, _, _ := memoryStatus.Call(reflect.ValueOf(status).Pointer())
	runtime.KeepAlive(status)
	if done == 0 {
		return 0, 0
	}
	return int64(binary.LittleEndian.Uint64(status[16:])), int64(binary.LittleEndian.Uint64(status[8:]))
}

var memoryStatus = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

func onDisk(info fs.FileInfo) int64 { return info.Size() }

// ownFile refuses nothing: the data folder lies in the user's profile, which others cannot write.
func ownFile(string) error { return nil }
