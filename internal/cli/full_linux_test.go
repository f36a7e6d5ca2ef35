package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/disk"
	"signalbox/internal/instance"
	"signalbox/internal/testenv"
)

func TestFullDiskIsSaidOnceWhileItIsFull(t *testing.T) {
	testenv.OnSmallDisk(t, 1<<20, func(t *testing.T, small testenv.SmallDisk) {
		lock, err := instance.Acquire(small.Dir)
		require.NoError(t, err)
		defer lock.Release()
		var log strings.Builder
		o := &owner{lock: lock, log: slog.New(slog.NewTextHandler(&log, nil))}
		filler := filepath.Join(small.Dir, "filler")
		fill := func() {
			f, err := os.Create(filler)
			require.NoError(t, err)
			defer f.Close()
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			require.True(t, disk.Full(err), "%v", err)
		}

		fill()
		for range 3 { // the listener, the start, a change of the settings
			require.NoError(t, o.tell(instance.Owner{UIURL: "http://127.0.0.1:1"}))
		}
		assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		require.NoError(t, os.Remove(filler))
		require.NoError(t, o.tell(instance.Owner{UIURL: "http://127.0.0.1:1"}))
		assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		fill()
		require.NoError(t, o.tell(instance.Owner{UIURL: "http://127.0.0.1:2"}))
		assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
	})
}
