package app

import (
	"golang.org/x/sys/windows"
)

// openURL hands an address to the shell, which knows the user's browser and mail program.
func openURL(_ []string, address string) error {
	verb, err := windows.UTF16PtrFromString("open")
	if err != nil {
		return err
	}
	file, err := windows.UTF16PtrFromString(address)
	if err != nil {
		return err
	}
	return windows.ShellExecute(0, verb, file, nil, nil, windows.SW_SHOWNORMAL)
}
