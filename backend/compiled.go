package backend

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"signalbox/backend/models"
	"signalbox/backend/router"
	"signalbox/backend/server"
	"signalbox/internal/compiled"
)

const (
	compiledLimit = 20 << 30           // bytes: each is a second full copy of a model's weights
	strangerFor   = 7 * 24 * time.Hour // how long what was compiled of a model stays that is not here: its disk may be away
	sweepEvery    = time.Hour
)

func (b *Backend) compiled() compiled.Cache { return compiled.Open(b.options.Dirs.Compiled()) }

// Rules are the rules with what the settings say now.
func (b *Backend) Rules() []router.Rule { return router.Rules(b.policy().Router) }

// Compiled lists what is kept of compiled models, and what of it cannot be used again.
func (b *Backend) Compiled() server.Compiled {
	all := server.Compiled{Limit: compiledLimit, Models: []server.CompiledModel{}}
	states := b.engine.current().States()
	version := strings.TrimPrefix(b.engine.provider(), "openvino/")
	for _, e := range b.compiled().List() {
		all.Bytes += e.Bytes
		m := server.CompiledModel{
			Model: e.Model, Device: e.Device, Label: e.Device, Bytes: e.Bytes, CompiledAt: e.At, UsedAt: e.Used, Runtime: e.Runtime, Driver: e.Driver,
		}
		for _, s := range states {
			if s.Device.Runtime != e.Device {
				continue
			}
			m.Device, m.Label = s.Device.ID(), s.Device.Label()
			if model, err := b.library.Find(e.Model); err == nil {
				m.Again = e.Changed(model.Ref().Digest, driver(s.Device), cmp.Or(version, e.Runtime))
			}
		}
		all.Models = append(all.Models, m)
	}
	return all
}

// RemoveCompiled frees what is kept of compiled models. What is loaded stays loaded.
func (b *Backend) RemoveCompiled(device, model string) (int64, error) {
	runtime := ""
	for _, s := range b.engine.current().States() {
		if s.Device.ID() == device {
			runtime = s.Device.Runtime
		}
	}
	if device != "" && runtime == "" {
		return 0, b.noDevice(device)
	}
	freed := b.compiled().Prune(compiledLimit, func(e compiled.Entry) bool {
		return runtime != "" && e.Device != runtime || model != "" && e.Model != model
	})
	b.changed.wake()
	return freed, nil
}

// sweepCompiled removes what was compiled of models that have gone, and the longest unused when all take too much.
func (b *Backend) sweepCompiled(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if list, err := b.library.List(); err == nil {
			here := func(e compiled.Entry) bool {
				return slices.ContainsFunc(list, func(m models.Model) bool { return m.Ref().Digest == e.Digest })
			}
			freed := b.compiled().Prune(compiledLimit, func(e compiled.Entry) bool { return here(e) || time.Since(e.Used) < strangerFor })
			if freed > 0 {
				b.log.Info("compiled models removed", "bytes", freed)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
