// Package brief makes text from outside fit to be repeated in an answer, a record or a log: a caller may send a megabyte.
package brief

import "strings"

// Text is s when it is short, else how it begins, and three dots.
func Text(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
