package models

import (
	"io/fs"

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

func onDisk(info fs.FileInfo) int64 { return info.Size() }

// ownFile refuses nothing: the data folder lies in the user's profile, which others cannot write.
func ownFile(string) error { return nil }
