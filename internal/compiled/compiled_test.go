package compiled_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/compiled"
)

var key = compiled.Key{Model: "m", Digest: "sha256:1", Device: "NPU", Driver: "1.2", Runtime: "2026.4.1", Properties: map[string]string{"LIMIT": "1024"}}

// keep does what a child does: take, compile, seal.
func keep(t *testing.T, c compiled.Cache, k compiled.Key, blob string) compiled.Folder {
	t.Helper()
	f, err := c.Take(k)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "1.blob"), []byte(blob), 0o600))
	require.NoError(t, f.Seal())
	return f
}

func TestWhatIsSealedIsUsedAgain(t *testing.T) {
	c := compiled.Open(t.TempDir())
	first := keep(t, c, key, "compiled")
	assert.False(t, first.Ready)
	assert.Empty(t, first.Again, "it was never compiled before")
	second, err := c.Take(key)
	require.NoError(t, err)
	assert.True(t, second.Ready)
	assert.Equal(t, first.Dir, second.Dir)
	assert.Empty(t, second.Again)
	require.NoError(t, second.Seal())
	list := c.List()
	require.Len(t, list, 1)
	assert.Equal(t, int64(8), list[0].Bytes)
}

func TestAnotherDriverRuntimeOrModelIsCompiledAgainAndSaysWhy(t *testing.T) {
	for want, change := range map[string]func(*compiled.Key){
		"its driver changed (1.2, now 1.3)":          func(k *compiled.Key) { k.Driver = "1.3" },
		"its driver changed (1.2, now not known)":    func(k *compiled.Key) { k.Driver = "" },
		"the runtime changed (2026.4.1, now 2027.0)": func(k *compiled.Key) { k.Runtime = "2027.0" },
		"the model's files changed":                  func(k *compiled.Key) { k.Digest = "sha256:2" },
		"":                                           func(k *compiled.Key) { k.Properties = map[string]string{"LIMIT": "2048"} },
	} {
		c := compiled.Open(t.TempDir())
		keep(t, c, key, "old")
		other := key
		change(&other)
		f, err := c.Take(other)
		require.NoError(t, err)
		assert.False(t, f.Ready, want)
		assert.Equal(t, want, f.Again)
		kept := len(c.List())
		if want == "" {
			assert.Equal(t, 1, kept, "another limit is another way, not a newer one")
		} else {
			assert.Zero(t, kept, "what can never be used again takes no space: %s", want)
		}
	}
}

func TestDamageIsFound(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, blob string){
		"one byte": func(t *testing.T, blob string) { require.NoError(t, os.WriteFile(blob, []byte("compilex"), 0o600)) },
		"cut":      func(t *testing.T, blob string) { require.NoError(t, os.Truncate(blob, 3)) },
		"gone":     func(t *testing.T, blob string) { require.NoError(t, os.Remove(blob)) },
		"one more": func(t *testing.T, blob string) { require.NoError(t, os.WriteFile(blob+"2", nil, 0o600)) },
	} {
		c := compiled.Open(t.TempDir())
		f := keep(t, c, key, "compiled")
		damage(t, filepath.Join(f.Dir, "1.blob"))
		f, err := c.Take(key)
		require.NoError(t, err, name)
		assert.False(t, f.Ready, name)
		assert.Equal(t, "what was kept of it is damaged", f.Again, name)
		found, err := os.ReadDir(f.Dir)
		require.NoError(t, err)
		assert.Empty(t, found, name)
	}
	t.Run("its note", func(t *testing.T) {
		c := compiled.Open(t.TempDir())
		f := keep(t, c, key, "compiled")
		require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "about.json"), []byte("{"), 0o600))
		f, err := c.Take(key)
		require.NoError(t, err)
		assert.False(t, f.Ready)
	})
}

func TestACompileThatWasKilledLeavesNothingToUse(t *testing.T) {
	c := compiled.Open(t.TempDir())
	f, err := c.Take(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "1.blob"), []byte("hal"), 0o600)) // and no Seal
	f, err = c.Take(key)
	require.NoError(t, err)
	assert.False(t, f.Ready)
	found, err := os.ReadDir(f.Dir)
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestNoPlaceIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := compiled.Open(file).Take(key)
	assert.ErrorContains(t, err, "make a folder for the compiled m")
	assert.Empty(t, compiled.Open(file).List())
	assert.Empty(t, compiled.Cache{}.List())
}

func TestNothingKeptIsNothingListed(t *testing.T) {
	c := compiled.Open(t.TempDir())
	f, err := c.Take(key)
	require.NoError(t, err)
	require.NoError(t, f.Seal(), "the runtime does not keep every model")
	assert.Empty(t, c.List())
	assert.NoDirExists(t, f.Dir)
}

func TestPruneKeepsTheLastUsedWithinTheSize(t *testing.T) {
	dir := t.TempDir()
	c := compiled.Open(dir)
	for i, name := range []string{"a", "b", "c", "d"} {
		k := key
		k.Model = name
		f := keep(t, c, k, "12345678")
		used := time.Now().Add(time.Duration(i-10) * time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(f.Dir, "about.json"), used, used))
	}
	stray := filepath.Join(dir, "5966499960016362601.blob")
	require.NoError(t, os.WriteFile(stray, []byte("of an earlier version"), 0o600))
	long := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(stray, long, long))
	f, err := c.Take(compiled.Key{Model: "under way"})
	require.NoError(t, err)

	assert.Equal(t, int64(16), c.Prune(16, func(e compiled.Entry) bool { return e.Model != "d" }))
	var left []string
	for _, e := range c.List() {
		left = append(left, e.Model)
	}
	assert.ElementsMatch(t, []string{"b", "c"}, left)
	assert.NoFileExists(t, stray)
	assert.DirExists(t, f.Dir, "a compile may be under way in it")
}
