package dispatch

import (
	"context"
	"sync"
	"time"

	"signalbox/backend/llm"
)

// idleLimit is how long a request that has the turn may be without a token (S34). A variable so that tests need not wait.
var idleLimit = 180 * time.Second

// idleClock cancels a context when nothing happened for idleLimit. It runs from the first restart on.
type idleClock struct {
	mu     sync.Mutex
	timer  *time.Timer // nil until the first restart; guarded by mu
	cancel context.CancelCauseFunc
}

func withIdleLimit(ctx context.Context) (context.Context, *idleClock) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &idleClock{cancel: cancel}
}

func (c *idleClock) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		c.timer = time.AfterFunc(idleLimit, func() {
			c.cancel(llm.Errorf(llm.CodeTimeout, "the model gave no token for %s", idleLimit))
		})
		return
	}
	c.timer.Reset(idleLimit)
}

// pause stops the clock until the next restart: what follows is no wait for a token.
func (c *idleClock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *idleClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.cancel(nil)
}
