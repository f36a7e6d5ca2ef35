package backend

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/models"
	"signalbox/backend/server"
	"signalbox/internal/config"
	"signalbox/internal/dirs"
)

func TestChangesOfTheSettingsAtOnceLoseNothing(t *testing.T) {
	b, _ := start(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			assert.NoError(t, b.ChangeSettings(func(s *config.Settings) error {
				s.Pins = append(s.Pins, config.Pin{Client: fmt.Sprint(i), Device: "cpu"})
				return nil
			}))
		})
	}
	all.Wait()
	assert.Len(t, b.Settings().Pins, 20)
	assert.Error(t, b.ChangeSettings(func(s *config.Settings) error {
		s.Pins[0].Device = "npu"
		return errors.New("changed my mind")
	}))
	assert.Equal(t, "cpu", b.Settings().Pins[0].Device)
}

func TestANoticeIsThereOnceAndGoesWithItsCause(t *testing.T) {
	b, _ := start(t, t.TempDir(), func(s *config.Settings) { s.Port = 0 })
	setenv(t, "OLLAMA_HOST", "0.0.0.0:0")
	for range 3 {
		require.NoError(t, b.StartServer(t.Context()))
		require.NoError(t, b.StopServer(t.Context()))
		require.Len(t, b.Status().Notices, 1)
		assert.Contains(t, b.Status().Notices[0].Text, "OLLAMA_HOST asks to listen on 0.0.0.0")
	}
	setenv(t, "OLLAMA_HOST", "")
	require.NoError(t, b.StartServer(t.Context()))
	assert.Empty(t, b.Status().Notices)
}

func TestAnApiOpenToEveryPageIsSaid(t *testing.T) {
	b, _ := start(t, t.TempDir(), func(s *config.Settings) { s.Origins = []string{"https://app.example", "*"} })
	require.Len(t, b.Status().Notices, 1, "from the start")
	assert.Contains(t, b.Status().Notices[0].Text, "Every web page that you visit may use this server and read its answers, because the setting origins allows all origins")
	open := func(origins ...string) []server.Notice {
		require.NoError(t, b.ChangeSettings(func(s *config.Settings) error { s.Origins = origins; return nil }))
		return b.Status().Notices
	}
	assert.Empty(t, open("https://app.example"), "it goes with its cause")
	assert.Len(t, open("https://*"), 1)
	assert.Empty(t, open("https://*.example"))
	setenv(t, "OLLAMA_ORIGINS", "https://a.example, *")
	require.Len(t, open(), 1)
	assert.Contains(t, b.Status().Notices[0].Text, "because OLLAMA_ORIGINS allows all origins")
}

func TestAFolderThatCannotBeReadIsANoticeAndNotZeroModels(t *testing.T) {
	home := t.TempDir()
	b, _ := start(t, home)
	before := b.Status().Models
	require.Positive(t, before)
	library := filepath.Join(home, "no-folder")
	require.NoError(t, os.WriteFile(library, nil, 0o600))
	b.library.Reopen(library)
	b.shelf.look()
	now := b.Status()
	assert.Equal(t, before, now.Models, "they are still there, for all we know")
	require.Len(t, now.Notices, 1)
	assert.Contains(t, now.Notices[0].Text, "The models cannot be listed: list the models in "+library)
	require.NoError(t, os.Remove(library))
	b.shelf.look()
	assert.Empty(t, b.Status().Notices)
	assert.Zero(t, b.Status().Models)
}

func TestADamagedFileOfTheLibraryIsSaidOnce(t *testing.T) {
	home, library := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(library, ".library.json"), []byte("PK\x03"), 0o600))
	b, stop := start(t, home, func(s *config.Settings) { s.ModelsDir = library })
	require.Len(t, b.Status().Notices, 1)
	assert.Contains(t, b.Status().Notices[0].Text, "It was put aside as .library.json.damaged.")
	stop()
	b, _ = start(t, home, func(s *config.Settings) { s.ModelsDir = library })
	assert.Empty(t, b.Status().Notices)
}

func TestTheStatusDoesNotReadTheDiskEachTime(t *testing.T) {
	looks := 0
	s := shelf{list: func() ([]models.Model, error) { looks++; return make([]models.Model, looks), nil }}
	for range 5 {
		s.changed()
		count, _ := s.now()
		assert.Equal(t, 1, count)
	}
	assert.Equal(t, 1, looks)
	s.looked = s.looked.Add(-shelfFresh)
	count, _ := s.now()
	assert.Equal(t, 2, count, "a change is seen soon")
	s.looked = s.looked.Add(-shelfFresh)
	count, _ = s.now()
	assert.Equal(t, 2, count, "without one nothing is read")
}

func TestTheJournalsTroubleIsInOurLog(t *testing.T) {
	home := t.TempDir()
	d := dirs.Dirs{Config: home, Data: home, State: home, Cache: filepath.Join(home, "cache")}
	require.NoError(t, os.Mkdir(d.Journal(), 0o700)) // where the file should be
	var log bytes.Buffer
	b, err := New(Options{
		Dirs: d, Fake: true, Token: "token", Log: slog.New(slog.NewTextHandler(&log, nil)), Getenv: func(string) string { return "" },
	})
	require.NoError(t, err)
	require.NoError(t, b.Close())
	assert.Contains(t, log.String(), "msg=journal")
}
