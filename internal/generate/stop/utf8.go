package stop

import "unicode/utf8"

var replacement = []byte("\uFFFD")

// What next found.
const (
	whole = iota
	incomplete
	invalid
)

// next looks at the first character of b, which is not empty. Of bytes that can never become one it takes as many as one
// U+FFFD stands for: the longest beginning of a character, as Unicode recommends and browsers, Python and Rust do.
// (Go itself writes one U+FFFD for each byte.)
func next(b []byte) (size, kind int) {
	if r, size := utf8.DecodeRune(b); r != utf8.RuneError || size > 1 {
		return size, whole
	}
	if !utf8.FullRune(b) {
		return len(b), incomplete
	}
	size = 1
	for size < len(b) && !utf8.FullRune(b[:size+1]) {
		size++
	}
	return size, invalid
}
