package wire

import (
	"regexp"
	"strings"
)

// deviceSuffix pins a device within the model's name, for clients that can set nothing else: "smollm2:135m@npu".
var (
	deviceSuffix = regexp.MustCompile(`(?i)^(.+)@((?:npu|gpu|cpu|mock)(?:[:.]\d{1,3})?)$`)
	device       = regexp.MustCompile(`(?i)^(?:npu|gpu|cpu|mock)(?:[:.]\d{1,3})?$`)
)

// SplitDevice takes a pinned device off a model's name: "smollm2:135m@gpu.1" is "smollm2:135m" on "gpu:1".
// Without one, device is empty.
func SplitDevice(model string) (name, device string) {
	if m := deviceSuffix.FindStringSubmatch(model); m != nil {
		return m[1], canonical(m[2])
	}
	return model, ""
}

// Device reads a device as callers write it, "NPU", "gpu.1", "gpu:1"; ok is false for anything else.
func Device(s string) (id string, ok bool) {
	if !device.MatchString(s) {
		return "", false
	}
	return canonical(s), true
}

func canonical(s string) string { return strings.ToLower(strings.Replace(s, ".", ":", 1)) }
