package engine

import "os"

func fixed() []string {
	root := os.Getenv("SystemRoot")
	return []string{"LC_ALL=C.UTF-8", "PATH=" + root + `\System32;` + root}
}

// Without SystemRoot, sockets and the cryptography of Windows fail; drivers keep caches in the others.
var passed = []string{"SystemRoot", "SystemDrive", "windir", "TEMP", "TMP", "USERPROFILE", "LOCALAPPDATA", "ProgramData", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"}
