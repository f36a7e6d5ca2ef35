package backend

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"signalbox/backend/llm"
)

func TestAPhaseSaysHowLongItTookBefore(t *testing.T) {
	for _, c := range []struct {
		phase  string
		before time.Duration
		want   string
	}{
		{"compiling for NPU, once only", 42 * time.Second, "compiling for NPU, once only, the last time it took 42s"},
		{"compiling for NPU again: its driver changed (1, now 2)", 90 * time.Second, "compiling for NPU again: its driver changed (1, now 2), the last time it took 1m30s"},
		{"compiling for NPU, once only", 0, "compiling for NPU, once only"},
		{"loading what was compiled for NPU", 42 * time.Second, "loading what was compiled for NPU"},
		{"warming up", 42 * time.Second, "warming up"},
	} {
		assert.Equal(t, c.want, expecting(llm.Phase{Name: c.phase}, c.before).Name)
	}
}
