package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestALogShowsThatALargeFileMoves(t *testing.T) {
	var log bytes.Buffer
	show := newBars(&log)
	for _, f := range []frame{
		{Status: "pulling manifest"}, {Status: "pulling small", Total: 1000, Completed: 500}, {Status: "pulling small", Total: 1000, Completed: 1000},
		{Status: "pulling large", Total: 100_000_000}, {Status: "pulling large", Total: 100_000_000, Completed: 25_000_000},
		{Status: "pulling large", Total: 100_000_000, Completed: 28_000_000}, {Status: "pulling large", Total: 100_000_000, Completed: 31_000_000},
		{Status: "pulling large", Total: 100_000_000, Completed: 100_000_000}, {Status: "pulling large", Total: 100_000_000, Completed: 100_000_000},
		{Status: "success"},
	} {
		show.show(f)
	}
	show.done()
	assert.Equal(t, "pulling manifest\npulling small: 1.0 kB\npulling large: 20% of 100 MB\npulling large: 30% of 100 MB\npulling large: 100 MB\nsuccess\n", log.String())
}
