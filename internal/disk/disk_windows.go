package disk

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Full reports whether an error says that there is no room: on the disk, or for this user.
func Full(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// SyncDir has nothing to do: Windows keeps renames in the file system's own log.
func SyncDir(string) error { return nil }
