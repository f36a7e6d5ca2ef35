package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"signalbox/backend/dispatch"
	"signalbox/backend/downloads"
	"signalbox/backend/hub"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/server"
	"signalbox/internal/config"
	"signalbox/internal/version"
)

// agent is this program to the hub: the User-Agent of what is asked and fetched there.
var agent = "signalbox/" + version.Version

// openShop puts together where models come from and how they are changed.
func (b *Backend) openShop() *server.Shop {
	if err := b.library.EmptyTrash(); err != nil { // what was deleted could be brought back until now
		b.log.Warn("empty the trash", "error", err)
	}
	b.library.SetInUse(b.inUse)
	b.library.SetTable(b.table)
	tokens := &hub.Tokens{File: filepath.Join(b.options.Dirs.Config, "hub-tokens.json"), Getenv: b.options.Getenv}
	connect := func() (*hub.Client, error) {
		return hub.New(hub.Options{Endpoint: b.hubEndpoint(), Token: tokens.Get, Agent: agent})
	}
	b.downloads = downloads.New(downloads.Options{
		Library: b.library, Hub: connect, Table: b.table, Changed: b.modelsChanged, Log: b.log,
		Runtime: func() string { return strings.TrimPrefix(b.engine.provider(), "openvino/") },
	})
	return &server.Shop{
		Library: b.library, Downloads: b.downloads, Hub: connect, Table: b.table, Changed: b.modelsChanged,
		Moved:   b.modelsMoved,
		MayPull: func() bool { return !b.Settings().NoClientPull },
		Source: func() server.Source {
			_, where := tokens.Find(b.hubOrigin())
			return server.Source{Endpoint: cmp.Or(b.hubEndpoint(), hub.DefaultEndpoint), Default: hub.DefaultEndpoint, Token: where}
		},
		Login: func(ctx context.Context, token string) (server.Login, error) { return b.login(ctx, tokens, token) },
	}
}

// login keeps a token for the hub that models come from now, unless the hub says that it is none; "" forgets it.
func (b *Backend) login(ctx context.Context, tokens *hub.Tokens, token string) (l server.Login, err error) {
	if token != "" {
		client, err := hub.New(hub.Options{Endpoint: b.hubEndpoint(), Token: func(string) string { return token }, Agent: agent})
		if err != nil {
			return l, err
		}
		defer client.Close()
		l.Account, err = client.Account(ctx)
		switch {
		case llm.CodeOf(err) == llm.CodeForbidden:
			return l, err
		case err != nil: // offline: it is kept, and will show
			l.Unchecked = err.Error()
		}
	}
	if err := tokens.Set(b.hubOrigin(), token); err != nil {
		return l, fmt.Errorf("keep the token: %w", err)
	}
	_, l.Kept = tokens.Find(b.hubOrigin())
	return l, nil
}

// hubOrigin is what a token is kept for.
func (b *Backend) hubOrigin() string {
	endpoint := cmp.Or(b.hubEndpoint(), hub.DefaultEndpoint)
	if u, err := url.Parse(endpoint); err == nil {
		return u.Scheme + "://" + strings.ToLower(u.Host)
	}
	return endpoint
}

// modelsMoved opens the library in another folder, and at every next start.
func (b *Backend) modelsMoved(to string) error {
	err := b.ChangeSettings(func(s *config.Settings) error {
		s.ModelsDir = to
		return nil
	})
	if err != nil {
		return err
	}
	b.library.Reopen(b.modelDirs()...)
	b.notice("library", b.library.Trouble())
	b.modelsChanged()
	return nil
}

func (b *Backend) modelsChanged() {
	b.shelf.changed()
	b.changed.wake()
}

// hubEndpoint is the user's own choice, or the environment's; "" is the hub itself.
func (b *Backend) hubEndpoint() string {
	return cmp.Or(b.Settings().HubEndpoint, b.options.Getenv("HF_ENDPOINT"))
}

// table is the list of well-known models; known.json in the data folder adds to it.
func (b *Backend) table() models.Table {
	table, err := models.LoadTable(filepath.Join(b.options.Dirs.Data, models.NamesFile))
	if err != nil {
		b.tableRefused.Do(func() { b.log.Warn("the list of well-known models", "error", err) })
	}
	return table
}

func (b *Backend) inUse(name string) bool {
	for _, loaded := range b.engine.current().Loaded() {
		if loaded.Model.Name == name {
			return true
		}
	}
	return false
}

// sweepModels frees what was deleted while it was in use, and sees what came by hand.
func (b *Backend) sweepModels(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.library.CollectBlobs()
			if err := b.library.Sweep(); err != nil {
				b.log.Debug("free deleted models", "error", err)
			}
			if b.shelf.look() {
				b.changed.wake()
			}
		}
	}
}

// variants gives requests what a variant says before they are dispatched.
type variants struct {
	*dispatch.Dispatcher
	library *models.Library
}

func (v variants) apply(call dispatch.Call) dispatch.Call {
	if model, err := v.library.Find(call.Request.Model); err == nil { // else the dispatcher says what is wrong
		call.Request = model.Apply(call.Request)
	}
	return call
}

func (v variants) Generate(ctx context.Context, call dispatch.Call, answer dispatch.Answer) (llm.Record, llm.Stats, error) {
	return v.Dispatcher.Generate(ctx, v.apply(call), answer)
}

func (v variants) Count(ctx context.Context, call dispatch.Call) (int, error) {
	return v.Dispatcher.Count(ctx, v.apply(call))
}

func (v variants) Explain(ctx context.Context, call dispatch.Call) (dispatch.Explanation, error) {
	return v.Dispatcher.Explain(ctx, v.apply(call))
}

// Unload frees a variant's files, which the engine knows by the name of the model that has them.
func (v variants) Unload(ctx context.Context, name string) error {
	model, err := v.library.Find(name)
	if err != nil {
		return err
	}
	err = v.Dispatcher.Unload(ctx, model.Ref().Name)
	return errors.Join(err, v.library.Sweep())
}
