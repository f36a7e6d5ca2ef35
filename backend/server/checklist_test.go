package server_test

import (
	"log/slog"
	"testing"

	"signalbox/backend/server/wiretest"
)

var discard = slog.New(slog.DiscardHandler)

func TestSeedChecklist(t *testing.T) {
	r := newRig(t)
	wiretest.SeedChecklist(t, r.public.URL, wiretest.Options{
		Chat: chatModel, Embed: embedModel, LongPrompt: "[[endless]] [[slow 1]]", FailPrompt: "[[error-after 3]]", TimeoutPrompt: "[[error-after 3]] " + late,
		UI: r.ui.URL, Token: token,
	})
}
