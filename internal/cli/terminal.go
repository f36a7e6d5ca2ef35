package cli

import (
	"strings"
	"unicode"
)

// printable leaves out control characters except newline and tab: what a model or a file says must not drive the
// terminal (clear it, set its title, write its clipboard).
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}
