package runtime

import (
	"strconv"
	"strings"
)

// wide names the groups of Windows that nearly everyone is in, by the letters of its rights language (SDDL).
var wide = map[string]string{
	"WD": "everyone", "BU": "users", "AU": "authenticated users", "IU": "interactive users", "NU": "network users",
	"BG": "guests", "LG": "guest", "AN": "anonymous",
}

// What lets someone change a file or a folder: write, append, delete a child, delete, change rights, change owner, all.
const changing = 0x2 | 0x4 | 0x40 | 0x10000 | 0x40000 | 0x80000 | 0x10000000 | 0x40000000

var changingWords = map[string]bool{
	"FA": true, "FW": true, "GA": true, "GW": true, "DC": true, "LC": true, "DT": true, "SD": true, "WD": true, "WO": true,
}

// widelyWritable returns who, of the groups that nearly everyone is in, may change the thing with these rights ("" when none
// may). rights is in SDDL: "D:AI(A;OICI;FA;;;SY)(A;OICI;0x1301bf;;;AU)".
func widelyWritable(rights string) string {
	_, list, ok := strings.Cut(rights, "D:")
	if !ok || strings.HasPrefix(list, "NO_ACCESS_CONTROL") {
		return wide["WD"] // no list means no limit
	}
	for _, entry := range strings.Split(list, "(")[1:] {
		entry, _, _ = strings.Cut(entry, ")")
		// kind ; flags ; rights ; object ; inherited object ; who
		fields := strings.Split(entry, ";")
		if len(fields) < 6 || fields[0] != "A" || strings.Contains(fields[1], "IO") {
			continue // IO: for what is made in the folder later, not for the folder
		}
		if who, known := wide[fields[5]]; known && allowsChange(fields[2]) {
			return who
		}
	}
	return ""
}

func allowsChange(rights string) bool {
	if hex, ok := strings.CutPrefix(rights, "0x"); ok {
		mask, err := strconv.ParseUint(hex, 16, 32)
		return err != nil || mask&changing != 0
	}
	for ; len(rights) >= 2; rights = rights[2:] {
		if changingWords[rights[:2]] {
			return true
		}
	}
	return false
}
