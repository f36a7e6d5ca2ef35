package backend

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/backend/cards"
	"signalbox/backend/dispatch"
	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/machine"
	"signalbox/backend/models"
	"signalbox/backend/router"
	"signalbox/internal/config"
)

// knowledge is what is known about models and devices beyond how the engine stands: the cards of this run and of earlier ones,
// the machine's power and memory, and the user's pins. It completes the facts of each decision.
type knowledge struct {
	backend *Backend
	cards   *cards.Store
	supply  machine.Supply
	meter   machine.Meter
	memory  func() int64 // bytes that are free; 0: not known
	fake    bool         // nothing that was here once is missed

	npu npuLimits

	mu     sync.Mutex
	free   int64                // bytes of memory; guarded by mu
	looked time.Time            // when free was asked for; guarded by mu
	warmed map[string]time.Time // when a model was last loaded on a device in the background, by both; guarded by mu
}

func newKnowledge(b *Backend) *knowledge {
	k := &knowledge{backend: b, memory: machine.FreeMemory, fake: b.options.Fake, warmed: map[string]time.Time{}}
	var notice string
	k.cards, notice = cards.Open(filepath.Join(b.options.Dirs.Data, "cards.json"), func(err error) {
		b.log.Warn("cards", "error", err)
	})
	b.notice("cards", notice)
	return k
}

// basis is what a card of the model on the device is measured with now.
func (k *knowledge) basis(digest string, device llm.Device) cards.Basis {
	return cards.Basis{Digest: digest, Runtime: k.backend.engine.provider(), Driver: driver(device)}
}

// driver is the version of what drives a device; empty where there is nothing that could change, or it is not known. Part of it is
// in the kernel, part in a library; either may change.
func driver(device llm.Device) string {
	if device.Class == llm.NPU && !device.Emulated || device.Class == llm.GPU {
		return strings.TrimSpace(device.Driver + " " + machine.Driver())
	}
	return ""
}

// known is what a new engine should know of a device. It is asked while the engine holds its lock: it asks nothing of the engine.
func (k *knowledge) known(device llm.Device) engine.Known {
	known := engine.Known{Speeds: map[string]engine.Speed{}}
	for _, c := range k.cards.Cards() {
		if c.Device == device.ID() && c.Basis == k.basis(c.Digest, device) {
			known.Speeds[c.Model] = engine.Speed{Prefill: c.Prefill, Decode: c.Decode, Load: c.Load}
		}
	}
	return known
}

// learn writes down what the engine has found out.
func (k *knowledge) learn(states []engine.State) {
	var there []llm.Device
	for _, s := range states {
		if s.Absent == "" && s.Device.Class != llm.Mock && !s.Device.Emulated {
			there = append(there, s.Device)
		}
		for _, loaded := range s.Loaded {
			asked := k.askedLimit(states, s.Device, loaded.Model.Name) // Update holds the cards
			k.cards.Update(loaded.Model.Name, s.Device, k.basis(loaded.Model.Digest, s.Device), func(c *cards.Card) {
				c.Assumed, c.Loads, c.LoadError, c.LoadFailedAt = false, true, "", time.Time{}
				c.PromptLimit, c.ContextLimit, c.Bytes = loaded.Loaded.PromptLimit, loaded.Loaded.ContextLimit, loaded.Loaded.Bytes
				c.AskedLimit = asked
				speed := s.Speeds[loaded.Model.Name]
				c.Prefill, c.Decode, c.Load = speed.Prefill, speed.Decode, speed.Load
				if took := loaded.Loaded.LoadTime; took > 0 && !loaded.Loaded.Cached {
					c.Compile = took
				}
				if c.MeasuredAt.IsZero() {
					c.MeasuredAt = time.Now().UTC()
				}
			})
		}
		for name, reason := range s.Quarantined {
			k.quarantine(name, s.Device, reason)
		}
	}
	k.cards.See(there, time.Now().UTC())
}

func (k *knowledge) quarantine(name string, device llm.Device, reason string) {
	model, err := k.backend.library.Find(name)
	if err != nil {
		return
	}
	k.cards.Update(name, device, k.basis(model.Ref().Digest, device), func(c *cards.Card) {
		if c.Quarantined != reason {
			c.Quarantined, c.QuarantinedAt = reason, time.Now().UTC()
		}
	})
}

// refused notes that a model did not load: no crash, the runtime said no.
func (k *knowledge) refused(model llm.ModelRef, device llm.Device, err error) {
	k.cards.Update(model.Name, device, k.basis(model.Digest, device), func(c *cards.Card) {
		c.Loads, c.LoadError, c.LoadFailedAt = false, oneLine(err.Error()), time.Now().UTC()
	})
}

// oneLine is how an error of the runtime, which may be pages long, begins: enough for a sentence on a card.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// askedLimit is the prompt limit that a model is compiled with there; 0 where there is none.
func (k *knowledge) askedLimit(states []engine.State, device llm.Device, name string) int {
	if device.Class != llm.NPU {
		return 0
	}
	model, err := k.backend.library.Find(name)
	if err != nil {
		return k.backend.Settings().NPUPrompt
	}
	return k.npuLimit(states, device, model)
}

// within tells whether a moment that was written down is not longer ago than that. One in the future was written by a clock that was
// ahead: it says nothing.
func within(at time.Time, d time.Duration) bool {
	age := time.Since(at)
	return age > -time.Minute && age < d
}

// refusedFor is how long a device is not asked again to load what it has refused.
const refusedFor = 10 * time.Minute

var _ dispatch.Advisor = (*engines)(nil)

// Advise implements dispatch.Advisor.
func (e *engines) Advise(facts *router.Facts, model models.Model, call dispatch.Call) {
	e.backend.knowledge.advise(facts, model, call.Client)
}

// PowerSource implements dispatch.Advisor.
func (e *engines) PowerSource() string { return e.backend.knowledge.supply.Source() }

func (k *knowledge) advise(facts *router.Facts, model models.Model, client string) {
	settings := k.backend.Settings()
	if facts.Request.Pinned == "" {
		facts.Request.Pinned, facts.Request.PinnedBy = pinOf(settings.Pins, model.Name, client)
	}
	listed := map[string]bool{}
	free := k.freeMemory()
	for i := range facts.Devices {
		d := &facts.Devices[i]
		listed[d.ID()] = true
		k.complete(d, model, free)
		if d.Class == llm.NPU && !d.Loaded && !facts.Request.Embedding {
			k.limit(d, model)
		}
		if d.Needs > d.Free && d.Free > 0 && facts.Model.Smaller == "" && !d.Loaded {
			facts.Model.Smaller = k.largestWithin(free, model)
		}
	}
	for _, seen := range k.missed() {
		if !listed[seen.Device.ID()] && !k.fake {
			facts.Devices = append(facts.Devices, router.DeviceFacts{Device: seen.Device, Absent: missing(seen)})
		}
	}
}

// memoryFresh is how long an answer about memory is used again: decisions are made often, and asking reads several files.
const memoryFresh = time.Second

func (k *knowledge) freeMemory() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) > memoryFresh {
		k.free, k.looked = k.memory(), time.Now()
	}
	return k.free
}

// missedFor is how long a device that is gone is missed: an external GPU may have been sold.
const missedFor = 30 * 24 * time.Hour

// missed are the devices that were here not long ago.
func (k *knowledge) missed() []cards.Seen {
	return slices.DeleteFunc(k.cards.Seen(), func(seen cards.Seen) bool { return !within(seen.At, missedFor) })
}

// missing is a clause about a device that was here.
func missing(seen cards.Seen) string {
	return fmt.Sprintf("it was here on %s and is not found now: its driver may be missing, or the device is switched off",
		seen.At.Local().Format("2 January 2006"))
}

// complete adds what the card of a model on a device says.
func (k *knowledge) complete(d *router.DeviceFacts, model models.Model, free int64) {
	if d.Class != llm.Mock {
		d.Needs, d.Free = model.Size, free
	}
	card, ok := k.cards.Get(model.Ref().Name, d.ID(), k.basis(model.Ref().Digest, d.Device))
	if !ok {
		return
	}
	d.Needs = max(d.Needs, card.Bytes)
	if d.Class == llm.Mock {
		d.Needs = 0
	}
	if !d.Loaded && card.ContextLimit > 0 && d.Class != llm.NPU {
		d.PromptLimit, d.ContextLimit, d.Assumed = card.PromptLimit, card.ContextLimit, false
	}
	if d.Quarantined == "" {
		d.Quarantined = card.Quarantined
	}
	if d.Quarantined == "" && d.Class != llm.CPU && d.Class != llm.Mock && card.LoadError != "" && within(card.LoadFailedAt, refusedFor) {
		d.Quarantined = fmt.Sprintf("it did not load at %s: %s", card.LoadFailedAt.Local().Format("15:04"), card.LoadError)
	}
	d.Wrong = card.Wrongly()
}

// limit is the prompt limit that a model would be compiled with on an NPU, measured where it was before.
func (k *knowledge) limit(d *router.DeviceFacts, model models.Model) {
	d.PromptLimit = k.npuLimit(k.backend.engine.current().States(), d.Device, model)
	card, ok := k.cards.Get(model.Ref().Name, d.ID(), k.basis(model.Ref().Digest, d.Device))
	if ok && card.ContextLimit > 0 && card.AskedLimit == d.PromptLimit {
		d.PromptLimit, d.ContextLimit, d.Assumed = card.PromptLimit, card.ContextLimit, false
	}
}

// largestWithin names the largest model of the same kind that would fit.
func (k *knowledge) largestWithin(free int64, than models.Model) string {
	list, err := k.backend.library.List()
	if err != nil {
		return ""
	}
	var best models.Model
	for _, m := range list {
		if m.Kind == than.Kind && m.Damaged == "" && m.Size <= free && m.Size > best.Size && m.Name != than.Name {
			best = m
		}
	}
	return best.Name
}

// pinOf finds the first pin that fits, and says whose it is.
func pinOf(pins []config.Pin, model, client string) (device, by string) {
	for _, pin := range pins {
		if pin.Model != "" && !strings.EqualFold(pin.Model, model) || pin.Client != "" && !strings.EqualFold(pin.Client, client) {
			continue
		}
		switch {
		case pin.Model == "":
			return pin.Device, "the settings send " + client + " to"
		case pin.Client == "":
			return pin.Device, "the settings keep " + model + " on"
		}
		return pin.Device, "the settings send " + client + " with " + model + " to"
	}
	return "", ""
}

// rewarmAfter is how long a background load is not tried again.
const rewarmAfter = 10 * time.Minute

// WarmUp implements dispatch.Advisor: it loads a model where it is wanted, while requests go on where it is.
func (e *engines) WarmUp(device llm.Device, load llm.LoadRequest) {
	k := e.backend.knowledge
	key := device.ID() + " " + load.Model.Name
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.warmed[key]) < rewarmAfter {
		return
	}
	k.warmed[key] = time.Now()
	e.backend.background(func(ctx context.Context) {
		keep := time.Duration(e.backend.Settings().KeepAlive)
		if _, _, err := e.Load(ctx, device, load, &keep, nil); err != nil && ctx.Err() == nil {
			e.backend.log.Warn("load in the background", "model", load.Model.Name, "device", device.ID(), "error", err)
		}
	})
}

// settled is called when the engine has done with a request, or failed.
func (k *knowledge) settled(eng *engine.Engine, device llm.Device, load llm.LoadRequest, ran bool, err error) {
	k.learn(eng.States())
	_, crashed := errors.AsType[*engine.Exit](err)
	switch {
	case err == nil:
		if !load.Embedding {
			k.backend.prober.want(device, load)
		}
	case llm.CodeOf(err) == llm.CodeEngine && device.Class != llm.Mock && device.Class != llm.CPU:
		eng.Refresh() // is it still there?
		if !ran && !k.tryLess(device, load, err) && !crashed {
			k.refused(load.Model, device, err)
		}
	}
}
