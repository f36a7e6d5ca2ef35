package generate

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/testenv"
)

func notes(t *testing.T, dir string) (all []note) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, notePrefix+"*"))
	require.NoError(t, err)
	for _, file := range files {
		n, err := readNote(file)
		require.NoError(t, err)
		all = append(all, n)
	}
	return all
}

func TestAttemptsThatDoNotEndAreCounted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "compiled")
	r := New(Options{Device: "CPU", CacheDir: dir, Driver: "1"})
	ref := llm.ModelRef{Name: "m", Dir: "/models/m", Digest: "sha256:1"}
	begin := func() *attempt {
		a := r.attempt(ref, "2026.4.1")
		require.NoError(t, a.begin())
		return a
	}
	begin() // and the power fails
	assert.NoError(t, r.attempt(ref, "2026.4.1").refused(), "once is no reason")
	assert.Empty(t, ListNotPaged(dir))

	a := r.attempt(ref, "2026.4.1")
	end := r.attempts.begin(a)
	require.NoError(t, a.begin())
	assert.Equal(t, []note{{"m", 2}}, notes(t, dir), "should it end the process")
	r.Leave()
	assert.Equal(t, []note{{"m", 1}}, notes(t, dir), "who quits in the middle is not to blame")
	end()
	assert.Empty(t, notes(t, dir), "it came to an end")
	assert.Empty(t, r.attempts.all)

	begin().leave()
	assert.Empty(t, notes(t, dir))
	a = begin()
	a.began = time.Now().Add(-hung)
	a.leave()
	assert.Equal(t, []note{{"m", 1}}, notes(t, dir), "it hung, and was ended therefore")

	begin()
	assert.ErrorContains(t, r.attempt(ref, "2026.4.1").refused(), "signalbox doctor")
	list := ListNotPaged(dir)
	require.Len(t, list, 1)
	assert.Equal(t, "m", list[0].Model)
	assert.NoError(t, r.attempt(ref, "2026.4.2").refused(), "another runtime may do better")
	r.options.Driver = "2"
	assert.NoError(t, r.attempt(ref, "2026.4.1").refused(), "another driver too")
	r.options.Driver = "1"
	require.NoError(t, os.Remove(list[0].File))
	assert.NoError(t, r.attempt(ref, "2026.4.1").refused())
}

// After one attempt without an end a model is paged as usual, after two it runs another way.
func TestModelThatEndedTwoProcessesIsNotPagedAgain(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	ref := llm.ModelRef{Name: "smollm2:135m", Dir: testenv.ChatModel(t)}
	load := func(fails int, progress func(llm.Phase)) *chat {
		r := New(Options{Runtime: testenv.Runtime(t), Device: "CPU", CacheDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		t.Cleanup(func() { _ = r.Close() })
		core, err := r.native()
		require.NoError(t, err)
		text, err := json.Marshal(note{ref.Name, fails})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(r.attempt(ref, core.Library().Version()).path, text, 0o600))
		_, err = r.Load(context.Background(), llm.LoadRequest{Model: ref}, progress)
		require.NoError(t, err)
		c, _, done, err := r.chats.get(context.Background(), ref.Name, nil)
		require.NoError(t, err)
		t.Cleanup(done)
		return c
	}
	phases := 0
	c := load(1, func(p llm.Phase) {
		if p.Name != "reading" {
			phases++
			assert.Equal(t, []note{{ref.Name, 2}}, notes(t, dir), "while it is %s", p.Name)
		}
	})
	assert.Equal(t, 2, phases)
	assert.NotNil(t, c.pages)
	assert.Empty(t, notes(t, dir))
	assert.Empty(t, log.String())

	c.uncompile() // nothing of how it ran stays for another try
	assert.Zero(t, c.vocab)
	assert.Zero(t, c.pace.step)

	c = load(2, nil)
	assert.Nil(t, c.pages)
	assert.Contains(t, log.String(), "2 loads with it ended the process before they were done")
}
