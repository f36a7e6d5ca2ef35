package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
)

// TestAKeepAliveOfZeroLeavesNoWaiterOfTheSameLoadBehind: two wait for one load, the first is done with it before the second
// has looked, and unloads.
func TestAKeepAliveOfZeroLeavesNoWaiterOfTheSameLoadBehind(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			b := open(t, engine.Options{})
			zero := time.Duration(0)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := make(chan error, 6)
			for range 6 {
				go func() {
					_, _, err := b.Load(ctx, mock(0), chatModel("m"), &zero, nil)
					done <- err
				}()
			}
			for range 6 {
				require.NoError(t, <-done)
			}
			b.Close()
		})
	}
}
