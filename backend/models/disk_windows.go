package models

import "golang.org/x/sys/windows"

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
func Memory() (available, total int64) { return 0, 0 }

// syncDir has nothing to do: NTFS writes renames into its journal.
func syncDir(string) error { return nil }
