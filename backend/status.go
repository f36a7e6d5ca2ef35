package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/backend/cards"
	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/ollama"
	"signalbox/backend/router"
	"signalbox/backend/server"
	"signalbox/internal/version"
)

// Status is what the tray and the window draw. Active requests are the server's to add.
func (b *Backend) Status() server.Status {
	s := server.Status{
		Version: version.Version, Server: b.public.status(), Runtime: b.engine.runtimeStatus(), Engine: "openvino",
		Devices: []server.DeviceStatus{}, Desktop: server.DesktopStatus{Tray: "none"},
	}
	if b.options.Fake {
		s.Engine = "fake"
	}
	for _, state := range b.engine.current().States() {
		s.Devices = append(s.Devices, b.deviceStatus(state))
	}
	s.Devices = append(s.Devices, b.missingDevices(s.Devices)...)
	var problem string
	s.Models, problem = b.shelf.now()
	b.notice("models", problem)
	if b.options.Info != nil {
		s.Desktop = b.options.Info()
	}
	b.mu.Lock()
	for _, n := range b.notices {
		s.Notices = append(s.Notices, n.Notice)
	}
	b.mu.Unlock()
	if problem := b.journal.Problem(); problem != "" {
		s.Notices = append(s.Notices, server.Notice{Level: "warn", Text: problem})
	}
	return s
}

// missingDevices are those that were here once.
func (b *Backend) missingDevices(here []server.DeviceStatus) (list []server.DeviceStatus) {
	if b.options.Fake || len(here) == 0 { // nobody has looked yet
		return nil
	}
	for _, seen := range b.knowledge.missed() {
		if slices.ContainsFunc(here, func(d server.DeviceStatus) bool { return d.ID == seen.Device.ID() }) {
			continue
		}
		list = append(list, server.DeviceStatus{
			ID: seen.Device.ID(), Label: seen.Device.Label(), Class: seen.Device.Class, Name: seen.Device.Name, Models: []string{},
			State: "unavailable", Note: router.Sentence(missing(seen)),
		})
	}
	return list
}

func (b *Backend) deviceStatus(s engine.State) server.DeviceStatus {
	d := server.DeviceStatus{
		ID: s.Device.ID(), Label: s.Device.Label(), Class: s.Device.Class, Name: s.Device.Name, Emulated: s.Device.Emulated,
		Running: s.Running, Queued: s.Queued, Models: []string{},
	}
	for _, loaded := range s.Loaded {
		d.Models = append(d.Models, loaded.Model.Name)
		if d.Model == "" || loaded.InUse > 0 {
			d.Model = loaded.Model.Name
		}
	}
	switch {
	case s.Absent != "":
		d.State = "unavailable"
	case s.Restarting:
		d.State = "restarting"
	case s.Loading != "":
		d.State, d.Model = "loading", s.Loading
		d.Phase = expecting(s.Phase, b.knowledge.cards.Compiling(s.Loading, s.Device)).Name
		if s.Finishing > 0 && s.Finishing == s.Running { // a load cannot be interrupted either
			d.Phase = strings.TrimPrefix(d.Phase+", for a cancelled request", ", ")
		}
	case s.Running > 0:
		d.State = "busy"
		if s.Finishing > 0 {
			d.Phase = "finishing a cancelled request"
		}
	case s.Up:
		d.State = "idle"
	default:
		d.State = "off"
	}
	if speed := s.Speeds[d.Model]; speed.Decode > 0 {
		d.TokensPerSecond = &speed.Decode
	}
	d.Note = strings.Join(b.notes(s), " ")
	return d
}

// notes are the sentences about a device: that it is gone or does not answer, and which models are kept off it.
func (b *Backend) notes(s engine.State) []string {
	var list []string
	if s.Absent != "" {
		list = append(list, router.Sentence(s.Absent))
	}
	if s.Silent > 0 {
		list = append(list, fmt.Sprintf("Its engine process has not answered for %s; one that stays silent is replaced.", s.Silent.Round(time.Second)))
	}
	for _, c := range b.knowledge.cards.Cards() {
		if c.Device != s.Device.ID() || c.Basis != b.knowledge.basis(c.Digest, s.Device) {
			continue
		}
		if c.Quarantined != "" {
			kept := c.Model + " is kept off this device"
			if b.lastFor(c, s.Device) {
				kept = c.Model + " still runs on this device, since no other can take it"
			}
			list = append(list, kept+": "+c.Quarantined+".")
		}
		if wrongly := c.Wrongly(); wrongly != "" {
			list = append(list, c.Model+" answers wrongly on this device: "+wrongly+".")
		}
	}
	return list
}

// lastFor tells whether quarantine leaves a model no other device: then the router keeps it on this one.
func (b *Backend) lastFor(c cards.Card, device llm.Device) bool {
	for _, other := range b.engine.current().States() {
		if other.Device == device || other.Absent != "" || other.Quarantined[c.Model] != "" {
			continue
		}
		card, known := b.knowledge.cards.Get(c.Model, other.Device.ID(), b.knowledge.basis(c.Digest, other.Device))
		if known && (card.Quarantined != "" || card.Wrongly() != "") {
			continue
		}
		if model, err := b.library.Find(c.Model); err == nil && other.Device.Class == llm.NPU && (!model.NPU.OK || model.Kind == models.KindEmbedding) {
			continue
		}
		return false
	}
	return true
}

// runtimeStatus says whether the native libraries are there.
func (e *engines) runtimeStatus() server.RuntimeStatus {
	if e.backend.options.Fake {
		return server.RuntimeStatus{OK: true}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.now.found != nil:
		return server.RuntimeStatus{OK: true, Version: e.now.found.Version}
	case e.now.problem != nil:
		return server.RuntimeStatus{Error: e.now.problem.Error()}
	}
	return server.RuntimeStatus{}
}

// loaded is what /api/ps tells.
func (b *Backend) loaded(context.Context) ([]ollama.Loaded, error) {
	var list []ollama.Loaded
	for _, l := range b.engine.current().Loaded() {
		entry := ollama.Loaded{Device: l.Device, Bytes: l.Bytes, ContextLimit: l.Loaded.ContextLimit, ExpiresAt: l.ExpiresAt}
		model, err := b.library.Find(l.Model.Name)
		if err != nil {
			continue // deleted while it is loaded
		}
		entry.Model = model
		list = append(list, entry)
	}
	return list, nil
}
