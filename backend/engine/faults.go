package engine

import (
	"fmt"
	"time"

	"signalbox/backend/llm"
)

// faultsToQuarantine is how many faults of a model on a device, each with a cause of its own, put the pair into quarantine.
const faultsToQuarantine = 3

// fault is one crash while a model was at work, with the requests that may have caused it.
type fault struct {
	at     time.Time
	causes []cause
	status string
}

// autopsy finds who may be to blame for a crash: the models that the device was loading or running. What a load does depends on no
// request, so each is a cause of its own; a request that crashes again and again counts once, whatever ran beside it. Where several
// models were at work it cannot be told which it was, and a fault beside a model says nothing more than the one before beside the same
// model: a load is not blamed for the poisonous request of another. What was prepared only is not to blame.
func (l *lane) autopsy(c *child, exit *Exit) {
	suspects := map[string][]cause{}
	for w := range c.working {
		switch w.phase {
		case phaseLoad:
			if w.loads {
				l.engine.faultNum++
				suspects[w.model] = append(suspects[w.model], cause{byte(l.engine.faultNum), byte(l.engine.faultNum >> 8), byte(l.engine.faultNum >> 16), 1})
			}
		case phasePrefill, phaseDecode, phaseEmbed:
			suspects[w.model] = append(suspects[w.model], w.cause)
		}
	}
	now := time.Now()
	for model, causes := range suspects {
		for other := range suspects {
			if other != model {
				causes = append(causes, causeOfModel(other))
			}
		}
		recent := []fault{{at: now, causes: causes, status: exit.Status}}
		for _, f := range l.faults[model] {
			if now.Sub(f.at) < l.engine.options.FaultWindow {
				recent = append(recent, f)
			}
		}
		l.faults[model] = recent
		if distinct(recent) >= faultsToQuarantine {
			l.quarantined[model] = fmt.Sprintf("%s crashed %s %d times within %s, the last time with %s",
				model, l.device.Label(), len(recent), l.engine.options.FaultWindow, exit.Status)
			l.engine.log.Warn("quarantine", "device", l.device.ID(), "model", model, "reason", l.quarantined[model])
		}
	}
}

// distinct counts faults that share no request with another one counted.
func distinct(faults []fault) int {
	seen := map[cause]bool{}
	n := 0
	for _, f := range faults {
		known := false
		for _, p := range f.causes {
			known = known || seen[p]
			seen[p] = true
		}
		if !known {
			n++
		}
	}
	return n
}

// Release ends the quarantine of a model on a device.
func (e *Engine) Release(device llm.Device, model string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lane(device)
	delete(l.quarantined, model)
	delete(l.faults, model)
	e.changed()
}
