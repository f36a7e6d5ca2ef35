package backend

import (
	"errors"
	"sync"
	"time"

	"signalbox/backend/cards"
	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/models"
)

// NPUs run programs of fixed lengths, so each model is compiled there for a longest prompt. The settings say how long it should be. A
// model gets less where it was not made for so much, where its cache would not fit into the memory that is free, or where it did
// not load with it: then half is tried, and half of that.

const (
	leastNPULimit = 256
	decidedFor    = time.Minute // how long a decision holds while nothing is loaded yet: free memory changes all the time
)

// npuLimits remembers what was decided, so that all requests of a model ask for the same program while it is loaded.
type npuLimits struct {
	mu      sync.Mutex
	decided map[string]npuLimit // by device and model; guarded by mu
}

type npuLimit struct {
	digest  string
	setting int
	limit   int
	at      time.Time
}

// npuLimit is the longest prompt that a model is compiled for on an NPU, in tokens.
func (k *knowledge) npuLimit(states []engine.State, device llm.Device, model models.Model) int {
	setting := k.backend.Settings().NPUPrompt
	key, ref := device.ID()+" "+model.Ref().Name, model.Ref()
	k.npu.mu.Lock()
	defer k.npu.mu.Unlock()
	known, ok := k.npu.decided[key]
	if ok && known.digest == ref.Digest && known.setting == setting && (time.Since(known.at) < decidedFor || inUse(states, device, ref.Name)) {
		return known.limit
	}
	card, _ := k.cards.Get(ref.Name, device.ID(), k.basis(ref.Digest, device))
	limit := chooseLimit(setting, k.backend.Settings().NPUReserve, model, card.FailedLimit, k.freeMemory())
	if k.npu.decided == nil {
		k.npu.decided = map[string]npuLimit{}
	}
	k.npu.decided[key] = npuLimit{ref.Digest, setting, limit, time.Now()}
	return limit
}

// inUse tells whether a model is loaded on a device, or about to be.
func inUse(states []engine.State, device llm.Device, model string) bool {
	for _, s := range states {
		if s.Device.ID() != device.ID() {
			continue
		}
		for _, l := range s.Loaded {
			if l.Model.Name == model {
				return true
			}
		}
		return s.Loading == model
	}
	return false
}

// chooseLimit is the setting, or less. failed is a limit that the model did not load with; 0: none.
func chooseLimit(setting, reserve int, model models.Model, failed int, free int64) int {
	limit := setting
	if model.ContextLength > 1 {
		limit = min(limit, model.ContextLength-1)
	}
	if failed > 0 && limit >= failed {
		limit = max(min(limit, leastNPULimit), failed/2)
	}
	// The plugin has a cache for reading prompts and one for writing answers.
	needs := func(limit int) int64 { return model.Size + 2*model.CacheBytes*int64(limit+reserve) }
	for free > 0 && model.CacheBytes > 0 && model.Size < free && limit/2 >= leastNPULimit && needs(limit) > free {
		limit /= 2
	}
	return limit
}

// npuContext is how many tokens prompt and answer have together in a program that is not compiled yet.
func (k *knowledge) npuContext(states []engine.State, device llm.Device, m models.Model) int {
	length := k.npuLimit(states, device, m) + k.backend.Settings().NPUReserve - 1
	if m.ContextLength > 0 {
		length = min(length, m.ContextLength)
	}
	return length
}

// tryLess notes that a model did not load with a limit. It reports false where less is not worth a try.
func (k *knowledge) tryLess(device llm.Device, load llm.LoadRequest, err error) bool {
	if device.Class != llm.NPU || load.PromptLimit/2 < leastNPULimit {
		return false
	}
	if exit, ok := errors.AsType[*engine.Exit](err); ok && exit.Phase != "load" {
		return false
	}
	k.cards.Update(load.Model.Name, device, k.basis(load.Model.Digest, device), func(c *cards.Card) { c.FailedLimit = load.PromptLimit })
	k.npu.mu.Lock()
	delete(k.npu.decided, device.ID()+" "+load.Model.Name)
	k.npu.mu.Unlock()
	k.backend.log.Warn("a model did not load with its prompt limit; the next load tries half of it",
		"model", load.Model.Name, "device", device.ID(), "limit", load.PromptLimit, "error", err)
	return true
}

// limited fills in the prompt limit of a load.
func (e *engines) limited(eng *engine.Engine, device llm.Device, load llm.LoadRequest) llm.LoadRequest {
	if device.Class != llm.NPU || load.Embedding || load.PromptLimit > 0 {
		return load
	}
	model, err := e.backend.library.Find(load.Model.Name)
	if err != nil {
		return load // deleted a moment ago: the engine has the limit of the settings
	}
	load.PromptLimit = e.backend.knowledge.npuLimit(eng.States(), device, model)
	return load
}
