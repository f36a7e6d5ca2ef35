package backend

import (
	"context"
	"fmt"
	"strings"
	"time"

	"signalbox/backend/cards"
	"signalbox/backend/dispatch"
	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/internal/brief"
)

// What people are told of models on devices, and how they end a quarantine.

// Release ends the quarantine of a model on a device, or with an empty model of all on it, and forgets wrong answers: the
// model is asked again. It tells how many there were.
func (b *Backend) Release(device, model string) (int, error) {
	found := false
	for _, s := range b.engine.current().States() {
		if s.Device.ID() != device {
			continue
		}
		found = true
		for name := range s.Quarantined {
			if model == "" || name == model {
				b.engine.current().Release(s.Device, name)
			}
		}
	}
	released := 0
	for _, c := range b.knowledge.cards.Cards() {
		held := c.Quarantined != "" || c.Verdict == cards.Wrong || c.LoadError != "" || c.FailedLimit != 0
		if c.Device != device || model != "" && c.Model != model || !held {
			continue
		}
		found = true
		released++
		b.knowledge.cards.Update(c.Model, deviceOf(c), c.Basis, func(c *cards.Card) {
			c.Quarantined, c.QuarantinedAt, c.LoadError, c.LoadFailedAt, c.FailedLimit = "", time.Time{}, "", time.Time{}, 0
			if c.Verdict == cards.Wrong {
				c.Verdict, c.Answers = cards.Unknown, nil
			}
		})
	}
	if !found {
		return 0, b.noDevice(device)
	}
	b.changed.wake()
	return released, nil
}

// noDevice refuses a name that no device has, and tells those that there are.
func (b *Backend) noDevice(id string) error {
	var here []string
	for _, s := range b.engine.current().States() {
		here = append(here, s.Device.ID())
	}
	err := llm.Errorf(llm.CodeModelNotFound, "there is no device %q here", brief.Text(id))
	if here == nil {
		return err.WithHint("devices are known once the engine has looked for them")
	}
	return err.WithHint("use %s", strings.Join(here, ", "))
}

// deviceOf is enough of a device for a card of its own.
func deviceOf(c cards.Card) llm.Device {
	class, index, _ := strings.Cut(c.Device, ":")
	d := llm.Device{Class: strings.ToUpper(class), Emulated: strings.Contains(c.Label, "emulated")}
	if class == llm.Mock {
		d.Class = llm.Mock
	}
	_, _ = fmt.Sscanf(index, "%d", &d.Index)
	return d
}

// Cards lists what is known of every model on every device that is here; where nothing was measured, what is assumed.
func (b *Backend) Cards() []cards.Card {
	list := []cards.Card{}
	all, err := b.library.List()
	if err != nil {
		return list
	}
	states := b.engine.current().States()
	for _, s := range states {
		for _, m := range all {
			if m.Damaged == "" {
				list = append(list, b.knowledge.card(states, s.Device, m))
			}
		}
	}
	return list
}

// CardsOf is what is known of one model on the devices that are here.
func (b *Backend) CardsOf(m models.Model) []cards.Card {
	list := []cards.Card{}
	states := b.engine.current().States()
	for _, s := range states {
		if m.Damaged == "" && s.Absent == "" {
			list = append(list, b.knowledge.card(states, s.Device, m))
		}
	}
	return list
}

// card is what is known of a model on a device: measured, or else what is assumed. That of a variant is its files'.
func (k *knowledge) card(states []engine.State, device llm.Device, m models.Model) cards.Card {
	basis := k.basis(m.Ref().Digest, device)
	c, ok := k.cards.Get(m.Ref().Name, device.ID(), basis)
	if !ok || !c.Loads && c.LoadError == "" && c.Quarantined == "" {
		c.Device, c.Label, c.Basis, c.Assumed = device.ID(), device.Label(), basis, true
		c.ContextLimit = m.ContextLength
		if device.Class == llm.NPU {
			c.AskedLimit = k.npuLimit(states, device, m)
			c.PromptLimit = c.AskedLimit
			if m.Kind == models.KindChat {
				c.ContextLimit = k.npuContext(states, device, m)
			}
			if !m.NPU.OK {
				c.LoadError = m.NPU.Reason
			}
		}
	}
	tools := m.OwnTools
	c.Model, c.Tools = m.Name, &tools
	return c
}

// ContextLength is what a client may count on for a model: the most tokens that one of the devices here takes, as far as that
// was measured; else what the model was made for.
func (b *Backend) ContextLength(m models.Model) int {
	longest := 0
	states := b.engine.current().States()
	for _, s := range states {
		if s.Absent != "" || s.Device.Class == llm.NPU && !m.NPU.OK {
			continue
		}
		c, ok := b.knowledge.cards.Get(m.Ref().Name, s.Device.ID(), b.knowledge.basis(m.Ref().Digest, s.Device))
		switch {
		case ok && c.ContextLimit > 0:
			longest = max(longest, c.ContextLimit)
		case s.Device.Class != llm.NPU:
			return m.ContextLength
		default:
			longest = max(longest, b.knowledge.npuContext(states, s.Device, m))
		}
	}
	if longest == 0 || m.ContextLength > 0 && longest > m.ContextLength {
		return m.ContextLength
	}
	return longest
}

// routing is what the server tells of decisions, and of what they rest on.
type routing struct {
	*Backend
	dispatcher *dispatch.Dispatcher
}

func (r routing) Explain(ctx context.Context, call dispatch.Call) (dispatch.Explanation, error) {
	return r.dispatcher.Explain(ctx, call)
}
