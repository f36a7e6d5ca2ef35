package router

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"signalbox/backend/llm"
)

// The names a device in the middle of a sentence: "the NPU", "the emulated NPU", "the mock device".
func The(d llm.Device) string {
	switch {
	case d.Class == llm.Mock:
		return "the " + d.Label() + " device"
	case d.Emulated:
		d.Emulated = false
		return "the emulated " + d.Label()
	}
	return "the " + d.Label()
}

func thes(d llm.Device) string { return The(d) + "'s" }

func promptTokens(n int) string {
	if n == 1 {
		return "1 prompt token"
	}
	return thousands(n) + " prompt tokens"
}

// thousands writes 1024 as "1,024".
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// gigabytes writes a size of memory: "6.0 GB", "0.2 GB".
func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }

// about writes a duration as people say it: "0.4 s", "12 s", "2 min".
func about(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// Sentence makes a clause a sentence; of nothing it makes nothing.
func Sentence(clause string) string {
	if clause == "" {
		return ""
	}
	r, size := utf8.DecodeRuneInString(clause)
	return strings.TrimRight(string(unicode.ToUpper(r))+clause[size:], ".") + "."
}

// cut shortens text that came from outside.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// asciiEqualFold compares without case, in ASCII alone: the Kelvin sign is no k.
func asciiEqualFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
