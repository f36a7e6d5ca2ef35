package backend

import (
	"context"
	"time"

	"signalbox/backend/machine"
)

const (
	sleepLook  = 2 * time.Second
	sleepLeast = 10 * time.Second // a shorter one is a busy machine
)

// watchSleep ends the engine's processes after the machine has slept: what GPUs and NPUs had in memory is in doubt then.
// Requests that were at work end with a sentence, the next ones work.
func (b *Backend) watchSleep(ctx context.Context) {
	tick := time.NewTicker(sleepLook)
	defer tick.Stop()
	clock := machine.NewClock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if slept := clock.Slept(); slept >= sleepLeast {
			b.log.Info("this computer was asleep", "for", slept.Round(time.Second))
			b.wokeUp()
		}
	}
}

func (b *Backend) wokeUp() {
	eng, release := b.engine.use()
	defer release()
	eng.Recycle("this computer was asleep; send the request again")
	eng.Refresh()
	b.changed.wake()
}
