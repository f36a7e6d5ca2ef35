package openvino

import (
	"fmt"
	"maps"
	"slices"
	"unsafe"
)

// Properties are settings of a device or of a compiled model, all as text: "PERFORMANCE_HINT": "LATENCY".
type Properties map[string]string

// typedef struct { const char* key; const void* value; } ov_property_t;
type property struct {
	key, value *byte
}

// array is p as C takes it, sorted by key. The pointers in it are typed, so the collector follows them.
func (p Properties) array() ([]property, error) {
	out := make([]property, 0, len(p)+1)
	for _, key := range slices.Sorted(maps.Keys(p)) {
		k, err := cString(key)
		if err != nil {
			return nil, fmt.Errorf("property %q: %w", key, err)
		}
		v, err := cString(p[key])
		if err != nil {
			return nil, fmt.Errorf("property %s: %w", key, err)
		}
		out = append(out, property{k, v})
	}
	return append(out, property{}), nil // never empty: callers take the address of the first
}

// takeString copies the C string at p and frees it.
//
// void ov_free(const char* content)
func (l *Library) takeString(p *byte) string {
	s := goString(p)
	l.callVoid(l.fn.free, uintptr(unsafe.Pointer(p)))
	return s
}
