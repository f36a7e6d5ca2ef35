package models_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/models"
)

func names(t *testing.T, l *models.Library) (names []string) {
	list, err := l.List()
	require.NoError(t, err)
	for _, m := range list {
		names = append(names, m.Name)
	}
	return names
}

func number(name, value string) models.Parameter {
	return models.Parameter{Name: name, Value: json.RawMessage(value)}
}

func TestAVariantSharesFilesAndSaysWhatIsDifferent(t *testing.T) {
	dir := t.TempDir()
	made(t, dir, "m", map[string]string{manifest: `{"name":"base:1b"}`})
	l := models.Open(dir)
	require.NoError(t, l.Create(models.Creation{
		Name: "pirate", From: "base:1b", System: "You are a pirate.", Parameters: []models.Parameter{number("temperature", "0.1"), number("stop", `["arr"]`)},
		Messages: []llm.Message{{Role: "user", Content: "hi"}, {Role: "assistant", Content: "arr"}},
	}))
	base, pirate := find(t, l, "base:1b"), find(t, l, "pirate")
	assert.Equal(t, base.Dir, pirate.Dir)
	assert.Equal(t, base.Ref(), pirate.Ref(), "in memory once")
	assert.NotEqual(t, base.Digest, pirate.Digest)
	assert.Equal(t, "base:1b", pirate.Parent)

	require.NoError(t, l.Create(models.Creation{Name: "parrot", From: "pirate", System: "You are a parrot."}))
	parrot := find(t, l, "parrot")
	assert.Equal(t, "base:1b", parrot.Parent, "a variant of a variant shares the files too")
	assert.Equal(t, "You are a parrot.", parrot.System)
	assert.Equal(t, pirate.Parameters, parrot.Parameters)
	asked := parrot.Apply(llm.Request{Sampling: llm.DefaultSampling()})
	assert.Equal(t, 0.1, asked.Sampling.Temperature)
	assert.Equal(t, []string{"arr"}, asked.Stop)

	require.NoError(t, l.Copy("pirate", "corsair"))
	assert.Equal(t, pirate.Digest, find(t, l, "corsair").Digest)
	require.NoError(t, l.Copy("base:1b", "twin"))
	assert.Equal(t, base.Digest, find(t, l, "twin").Digest)
	assert.ErrorContains(t, l.Create(models.Creation{Name: "base:1b", From: "base:1b", System: "x"}), "cannot be made from itself")
	assert.ErrorContains(t, l.Create(models.Creation{Name: "base:1b", From: "pirate", System: "x"}), "files of its own")
}

func TestMakersDefaultsHoldWhereARequestDoesNotSay(t *testing.T) {
	dir := t.TempDir()
	made(t, dir, "m", map[string]string{manifest: `{"name":"base"}`, "generation_config.json": `{"temperature":0.2,"top_p":0.9,"repetition_penalty":1.1}`})
	base := find(t, models.Open(dir), "base")
	req := base.Apply(llm.Request{Sampling: llm.DefaultSampling(), Sent: []string{"top_p"}})
	assert.Equal(t, 0.2, req.Sampling.Temperature)
	assert.Equal(t, 1.1, req.Sampling.RepeatPenalty)
	assert.Equal(t, llm.DefaultSampling().TopP, req.Sampling.TopP, "the request said so itself")
}

func TestFilesStayUntilTheLastThatSharesThemIsDeleted(t *testing.T) {
	dir := t.TempDir()
	home := made(t, dir, "m", map[string]string{manifest: `{"name":"base"}`})
	l := models.Open(dir)
	require.NoError(t, l.Copy("base", "one"))
	require.NoError(t, l.Copy("base", "two"))
	require.NoError(t, l.Delete("base"))
	assert.ElementsMatch(t, []string{"one", "two"}, names(t, l))
	assert.Empty(t, find(t, l, "one").Damaged)
	made(t, dir, "other", map[string]string{manifest: `{"name":"base"}`}) // the name is free again
	assert.Contains(t, names(t, l), "base")
	require.NoError(t, l.Delete("one"))
	assert.DirExists(t, home)
	require.NoError(t, l.Delete("two"))
	assert.NoDirExists(t, home)
	assert.Equal(t, []string{"base"}, names(t, l))
}

func TestWhatWasDeletedComesBackUntilTheTrashIsEmptied(t *testing.T) {
	dir := t.TempDir()
	made(t, dir, "m", nil)
	l := models.Open(dir)
	require.NoError(t, l.Delete("m"))
	assert.Empty(t, names(t, l))
	require.NoError(t, l.Restore("m"))
	assert.Empty(t, find(t, l, "m").Damaged)
	require.NoError(t, l.Delete("m"))
	require.NoError(t, l.EmptyTrash())
	assert.Equal(t, llm.CodeModelNotFound, llm.CodeOf(l.Restore("m")))
}

func TestAModelInUseGoesAfterItWasUnloaded(t *testing.T) {
	dir := t.TempDir()
	home := made(t, dir, "m", nil)
	l := models.Open(dir)
	used := true
	l.SetInUse(func(string) bool { return used })
	require.NoError(t, l.Delete("m"))
	assert.Empty(t, names(t, l))
	assert.DirExists(t, home)
	u, err := l.Usage()
	require.NoError(t, err)
	require.Len(t, u.Models, 1)
	assert.Equal(t, "removing", u.Models[0].State)
	require.NoError(t, l.Sweep())
	assert.DirExists(t, home)
	used = false
	require.NoError(t, l.Sweep())
	assert.NoDirExists(t, home)
}

func TestDeletingTakesOurLinkAndNeverWhatItLeadsTo(t *testing.T) {
	theirs, dir := t.TempDir(), t.TempDir()
	made(t, theirs, "linked", nil)
	referenced := made(t, theirs, "王 小明", nil)
	require.NoError(t, os.Symlink(filepath.Join(theirs, "linked"), filepath.Join(dir, "linked")))
	l := models.Open(dir)
	name, err := l.Import(t.Context(), referenced, "mine", true, func(int64, int64) {})
	require.NoError(t, err)
	assert.Equal(t, "mine", name)
	assert.Equal(t, referenced, find(t, l, "mine").Dir)
	assert.Empty(t, find(t, l, "mine").Damaged)
	for _, name := range []string{"linked", "mine"} {
		require.NoError(t, l.Delete(name))
	}
	assert.Empty(t, names(t, l))
	require.NoError(t, l.EmptyTrash())
	for _, folder := range []string{"linked", "王 小明"} {
		assert.FileExists(t, filepath.Join(theirs, folder, "openvino_model.bin"), "the canary is gone")
	}
}

func TestImportCopiesAndRefusesWhatIsNoModel(t *testing.T) {
	theirs, dir := t.TempDir(), t.TempDir()
	from := made(t, theirs, "Some Model", map[string]string{manifest: `{"name":"evil","base":"m","reference":"/etc","hidden":true}`})
	l := models.Open(dir)
	last := int64(0)
	_, err := l.Import(t.Context(), from, "mine", false, func(done, total int64) {
		assert.GreaterOrEqual(t, done, last)
		last = done
	})
	require.NoError(t, err)
	mine := find(t, l, "mine")
	assert.Empty(t, mine.Damaged)
	assert.Contains(t, mine.Dir, dir)
	assert.Empty(t, mine.Parent)
	found, err := l.Verify(t.Context(), "mine", func(int64, int64) {})
	require.NoError(t, err)
	assert.True(t, found.OK() && found.Recorded && found.Files == 5, "%+v", found)
	weights := filepath.Join(mine.Dir, "openvino_model.bin")
	require.NoError(t, os.Chmod(weights, 0o600))
	require.NoError(t, os.WriteFile(weights, []byte(strings.Repeat("x", 4096)), 0o600))
	found, err = l.Verify(t.Context(), "mine", func(int64, int64) {})
	require.NoError(t, err)
	assert.Equal(t, []string{"openvino_model.bin"}, found.Wrong)
	_, err = l.Import(t.Context(), from, "mine", false, func(int64, int64) {})
	assert.ErrorContains(t, err, "there is a model")
	_, err = l.Import(t.Context(), theirs, "", false, func(int64, int64) {})
	assert.ErrorContains(t, err, "openvino_model.xml is missing")
	onnx := made(t, theirs, "onnx", map[string]string{"openvino_model.xml": "\x08\x07\x12\x07pytorch"})
	_, err = l.Import(t.Context(), onnx, "", false, func(int64, int64) {})
	assert.ErrorContains(t, err, "cannot be read")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Import(gone, from, "other", false, func(int64, int64) {})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, []string{"mine"}, names(t, l))
}

func TestMoveTakesEverythingAlong(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "ž 漢")
	made(t, dir, "m", nil)
	l := models.Open(dir)
	require.NoError(t, l.Create(models.Creation{Name: "v", From: "m", System: "s"}))
	digest := find(t, l, "m").Digest
	failed := errors.New("the setting cannot be saved")
	assert.ErrorIs(t, l.Move(t.Context(), to, func(int64, int64) {}, func(string) error { return failed }), failed)
	assert.ElementsMatch(t, []string{"m", "v"}, names(t, l), "all is as it was")
	require.NoError(t, l.Move(t.Context(), to, func(int64, int64) {}, func(to string) error {
		l.Reopen(to)
		return nil
	}))
	assert.ElementsMatch(t, []string{"m", "v"}, names(t, l))
	assert.Equal(t, digest, find(t, l, "m").Digest)
	assert.Contains(t, find(t, l, "m").Dir, to)
	assert.Equal(t, "m", find(t, l, "v").Parent)
	assert.Empty(t, names(t, models.Open(dir)))
	assert.ErrorContains(t, l.Move(t.Context(), filepath.Join(to, "x"), func(int64, int64) {}, nil), "within the folder")
}

func TestTwoProcessesShareALibrary(t *testing.T) {
	dir := t.TempDir()
	made(t, dir, "m", nil)
	one, two := models.Open(dir), models.Open(dir)
	var group sync.WaitGroup
	for _, l := range []*models.Library{one, two} {
		group.Go(func() {
			for range 20 {
				assert.NoError(t, l.Create(models.Creation{Name: "v", From: "m", System: "s"}))
				_, err := l.List()
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
	assert.ElementsMatch(t, []string{"m", "v"}, names(t, one))
}

func TestModelfilesAreRead(t *testing.T) {
	c, err := models.ParseModelfile("# a comment\r\nfrom qwen3:4b\nPARAMETER temperature 0.3\nPARAMETER stop \"<|end|>\"\nparameter stop ###\nSYSTEM \"\"\"You are\nmany lines.\"\"\"\n" +
		"TEMPLATE {{ messages }}\nMESSAGE user hello there\nMESSAGE assistant \"\"\"hi\nyou\"\"\"\nLICENSE MIT\n")
	require.NoError(t, err)
	assert.Equal(t, models.Creation{
		From: "qwen3:4b", System: "You are\nmany lines.", Template: "{{ messages }}", License: "MIT",
		Parameters: []models.Parameter{number("temperature", "0.3"), number("stop", `["\u003c|end|\u003e","###"]`)},
		Messages:   []llm.Message{{Role: "user", Content: "hello there"}, {Role: "assistant", Content: "hi\nyou"}},
	}, c)
	for text, says := range map[string]string{
		"":                                    "no FROM line",
		"SYSTEM x":                            "no FROM line",
		"FROM x\nADAPTER ./a.gguf":            "adapters are not supported",
		"FROM x\nNONSENSE y":                  "line 2: command must be one of",
		"FROM x\nSYSTEM \"\"\"a\nb":           "does not end",
		"FROM x\n\nPARAMETER temperature hot": "line 3: parameter \"temperature\"",
		"FROM x\nPARAMETER nope 1":            "unknown parameter 'nope'",
		"FROM x\nMESSAGE robot hi":            "message role must be",
	} {
		_, err := models.ParseModelfile(text)
		assert.ErrorContains(t, err, says, text)
	}
}

func TestApplyGivesARequestWhatItDoesNotSay(t *testing.T) {
	dir := t.TempDir()
	made(t, dir, "m", nil)
	l := models.Open(dir)
	require.NoError(t, l.Create(models.Creation{
		Name: "v", From: "m", System: "S", Template: "{{ t }}", Messages: []llm.Message{{Role: "user", Content: "u"}, {Role: "assistant", Content: "a"}},
		Parameters: []models.Parameter{number("temperature", "0.1"), number("num_predict", "7"), number("seed", "3"), number("stop", `"x"`)},
	}))
	v := find(t, l, "v")
	chat := v.Apply(llm.Request{Sampling: llm.DefaultSampling(), Messages: []llm.Message{{Role: "user", Content: "q"}}})
	assert.Equal(t, []llm.Message{{Role: "system", Content: "S"}, {Role: "user", Content: "u"}, {Role: "assistant", Content: "a"}, {Role: "user", Content: "q"}}, chat.Messages)
	assert.Equal(t, 0.1, chat.Sampling.Temperature)
	assert.Equal(t, 7, chat.MaxTokens)
	assert.Equal(t, int64(3), *chat.Sampling.Seed)
	assert.Equal(t, []string{"x"}, chat.Stop)
	assert.Equal(t, "{{ t }}", chat.Template)

	own := llm.DefaultSampling()
	own.Temperature = 0.5
	own.TopK = 1
	chat = v.Apply(llm.Request{Sampling: own, Sent: []string{"temperature"}, MaxTokens: 9, Stop: []string{"y"}, Template: "T", Messages: []llm.Message{{Role: "system", Content: "mine"}, {Role: "user", Content: "q"}}})
	assert.Equal(t, []llm.Message{{Role: "system", Content: "mine"}, {Role: "user", Content: "u"}, {Role: "assistant", Content: "a"}, {Role: "user", Content: "q"}}, chat.Messages)
	assert.Equal(t, 0.5, chat.Sampling.Temperature)
	assert.Equal(t, 9, chat.MaxTokens)
	assert.Equal(t, "T", chat.Template)

	plain := v.Apply(llm.Request{Sampling: own, Prompt: "p"})
	assert.Len(t, plain.Messages, 4)
	raw := v.Apply(llm.Request{Sampling: own, Prompt: "p", Raw: true})
	assert.Empty(t, raw.Messages)
	assert.Empty(t, raw.Template)
	base := find(t, l, "m").Apply(llm.Request{Sampling: own, Prompt: "p"})
	assert.Equal(t, llm.Request{Sampling: own, Prompt: "p"}, base)
}

func ggufOf(pairs ...string) []byte {
	var b bytes.Buffer
	b.WriteString("GGUF")
	binary.Write(&b, binary.LittleEndian, uint32(3))
	binary.Write(&b, binary.LittleEndian, uint64(0))
	binary.Write(&b, binary.LittleEndian, uint64(len(pairs)/2))
	for i, text := range pairs {
		if i%2 == 1 {
			binary.Write(&b, binary.LittleEndian, uint32(8))
		}
		binary.Write(&b, binary.LittleEndian, uint64(len(text)))
		b.WriteString(text)
	}
	return b.Bytes()
}

func TestAGGUFFileIsRefusedWithItsArchitectureAndTheModelToPull(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	require.NoError(t, os.WriteFile(path, ggufOf("general.name", "Qwen3 4B", "general.architecture", "qwen3", "general.size_label", "4B"), 0o600))
	assert.True(t, models.IsGGUF(path))
	_, err := models.Open(dir).Import(t.Context(), path, "", false, nil)
	assert.ErrorContains(t, err, `architecture "qwen3"`)
	assert.ErrorContains(t, err, "signalbox pull qwen3:4b")
}

func FuzzGGUF(f *testing.F) {
	f.Add(ggufOf("general.architecture", "llama"))
	f.Add([]byte("GGUF\x03\x00\x00\x00" + strings.Repeat("\xff", 40)))
	f.Fuzz(func(t *testing.T, file []byte) {
		g, err := models.ReadGGUF(bytes.NewReader(file))
		assert.True(t, err != nil || len(g.Architecture) <= len(file))
	})
}

func FuzzManifests(f *testing.F) {
	f.Add(`{"name":"x","base":"../..","reference":"/etc"}`)
	f.Add(`{"name":"a b","base":"m","parameters":[{"name":"stop","value":1}]}`)
	f.Add(`{"hidden":true,"removing":true}`)
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		made(t, dir, "m", nil)
		made(t, dir, "n", map[string]string{manifest: text})
		l := models.Open(dir)
		list, err := l.List()
		require.NoError(t, err)
		for _, m := range list {
			assert.True(t, models.ValidName(m.Name))
			m.Apply(llm.Request{Prompt: "x"})
			_ = l.Delete(m.Name)
		}
		require.NoError(t, l.EmptyTrash())
	})
}

func FuzzModelfiles(f *testing.F) {
	f.Add("FROM x\nSYSTEM \"\"\"a\"\"\"\nPARAMETER stop x")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := models.ParseModelfile(text)
		if err == nil {
			assert.NotEmpty(t, c.From)
			_, err = json.Marshal(c)
			assert.NoError(t, err)
		}
	})
}

func TestAModelWhoseFolderIsGoneSaysSoAndComesBack(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "drive")
	made(t, elsewhere, "Model", nil)
	l := models.Open(t.TempDir())
	name, err := l.Import(t.Context(), filepath.Join(elsewhere, "Model"), "mine", true, func(int64, int64) {})
	require.NoError(t, err)
	require.NoError(t, l.Create(models.Creation{Name: "variant", From: name, System: "Be brief."}))
	require.NoError(t, os.Rename(elsewhere, elsewhere+"-unplugged"))
	for range 2 { // also from what was kept
		for _, name := range []string{"mine", "variant"} {
			m := find(t, l, name)
			assert.Contains(t, m.Damaged, "The folder with its files is not there: "+elsewhere, name)
			assert.Empty(t, m.Digest)
		}
		_, err = l.List()
		require.NoError(t, err)
	}
	u, err := l.Usage()
	require.NoError(t, err)
	require.Len(t, u.Models, 2)
	for _, m := range u.Models {
		assert.Contains(t, []string{"away", "variant"}, m.State)
	}
	v, err := l.Verify(t.Context(), "mine", func(int64, int64) {})
	require.NoError(t, err)
	assert.Contains(t, v.Problem, "is not there")
	require.NoError(t, os.Rename(elsewhere+"-unplugged", elsewhere))
	assert.Empty(t, find(t, l, "mine").Damaged)
	require.NoError(t, os.RemoveAll(elsewhere))
	require.NoError(t, l.Delete("variant"))
	require.NoError(t, l.Delete("mine"))
	list, err := l.List()
	require.NoError(t, err)
	assert.Empty(t, list)
}
