package models_test

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/backend/models"
)

func TestNamesToPullAreResolved(t *testing.T) {
	table := models.Builtin()
	for asked, want := range map[string]models.Reference{
		"qwen3:4b":                            {Name: "qwen3:4b", Repo: "OpenVINO/Qwen3-4B-int4-ov"},
		"Qwen3:4B":                            {Name: "qwen3:4b", Repo: "OpenVINO/Qwen3-4B-int4-ov"},
		"qwen3":                               {Name: "qwen3:8b", Repo: "OpenVINO/Qwen3-8B-int4-cw-ov"},
		"qwen3:latest":                        {Name: "qwen3:8b", Repo: "OpenVINO/Qwen3-8B-int4-cw-ov"},
		"library/qwen3:latest":                {Name: "qwen3:8b", Repo: "OpenVINO/Qwen3-8B-int4-cw-ov"},
		"OpenVINO/Qwen3-8B-int4-cw-ov":        {Name: "qwen3:8b", Repo: "OpenVINO/Qwen3-8B-int4-cw-ov"},
		"hf.co/OpenVINO/Qwen3-8B-int4-cw-ov":  {Name: "qwen3:8b", Repo: "OpenVINO/Qwen3-8B-int4-cw-ov"},
		"Someone/A-Model-ov":                  {Name: "Someone/A-Model-ov", Repo: "Someone/A-Model-ov"},
		"Someone/A-Model-ov:latest":           {Name: "Someone/A-Model-ov", Repo: "Someone/A-Model-ov"},
		"Someone/A-Model-ov@v1.0":             {Name: "Someone/A-Model-ov:v1.0", Repo: "Someone/A-Model-ov", Revision: "v1.0"},
		"Someone/A-Model-ov@refs/pr/1":        {Name: "Someone/A-Model-ov:refs-pr-1", Repo: "Someone/A-Model-ov", Revision: "refs/pr/1"},
		"huggingface.co/Someone/A-Model-ov":   {Name: "Someone/A-Model-ov", Repo: "Someone/A-Model-ov"},
		"OpenVINO/Qwen3-8B-int4-cw-ov@0123ab": {Name: "OpenVINO/Qwen3-8B-int4-cw-ov:0123ab", Repo: "OpenVINO/Qwen3-8B-int4-cw-ov", Revision: "0123ab"},
	} {
		got, err := table.ParseReference(asked)
		if assert.NoError(t, err, asked) {
			assert.Equal(t, want, got, asked)
		}
	}
}

func TestNamesThatAreNoneChooseNoHostAndNoPath(t *testing.T) {
	table := models.Builtin()
	for _, name := range []string{
		"", "a b", "evil:8080/a/b", "http://evil/x", "https://evil/x/y", "OpenVINO/X@../../api/whoami-v2?x", "OpenVINO/X@", "OpenVINO/X@a/../b",
		"OpenVINO/X@a@b", `\\evil\s\m`, "/etc", "C:\\", "../x", "OpenVINO/../x", "OpenVINO/X@.git", "a/b?x=1", "a/b#c", "a/b%2f..",
	} {
		_, err := table.ParseReference(name)
		assert.EqualError(t, err, "invalid model name", "%q", name)
	}
	for _, name := range []string{"evil.com/a/b", "gpt-4o", "a/b/c"} {
		_, err := table.ParseReference(name)
		assert.Equal(t, llm.CodeModelNotFound, llm.CodeOf(err), name)
		assert.Contains(t, err.Error(), "pull model manifest: file does not exist")
	}
	_, err := table.ParseReference("qwen3:9b")
	assert.ErrorContains(t, err, "did you mean qwen3:")
	_, err = table.ParseReference("hf.co/bartowski/Qwen3-8B-GGUF:Q4_K_M")
	assert.Equal(t, llm.CodeUnsupported, llm.CodeOf(err))
	assert.ErrorContains(t, err, "`signalbox pull qwen3:8b` fetches OpenVINO/Qwen3-8B-int4-cw-ov instead")
}

func TestTheTableIsWellFormedAndAFileOnlyAddsToIt(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range models.Builtin() {
		for _, name := range append(k.Aliases, k.Name) {
			assert.True(t, models.ValidName(name), name)
			assert.False(t, seen[name], name)
			seen[name] = true
		}
		assert.Equal(t, 1, strings.Count(k.Repo, "/"), k.Repo)
		assert.Contains(t, []string{models.KindChat, models.KindEmbedding}, k.Kind)
		assert.Equal(t, strings.HasSuffix(k.Repo, "-int4-cw-ov"), k.NPU, k.Repo)
	}
	file := filepath.Join(t.TempDir(), "known.json")
	require.NoError(t, os.WriteFile(file, []byte(`[{"name":"qwen3:4b","repo":"evil/x"},{"name":"new:1b","repo":"OpenVINO/New-1B-int4-ov"},
		{"name":"bad","repo":"http://evil/x"},{"name":"worse","repo":"a/b","revision":"../../x"},{"name":"other","aliases":["qwen3"],"repo":"a/b"}]`), 0o600))
	table, err := models.LoadTable(file)
	assert.EqualError(t, err, file+`: qwen3:4b means OpenVINO/Qwen3-4B-int4-ov already; bad has no valid repository: "http://evil/x"; worse has no valid repository: "a/b@../../x"`)
	old, _ := table.Find("qwen3:4b")
	assert.Equal(t, "OpenVINO/Qwen3-4B-int4-ov", old.Repo)
	added, ok := table.Find("new:1b")
	assert.True(t, ok)
	assert.Equal(t, "OpenVINO/New-1B-int4-ov", added.Repo)
	assert.Len(t, table, len(models.Builtin())+2)
	qwen, _ := table.Find("qwen3")
	assert.Equal(t, "qwen3:8b", qwen.Name)

	table, err = models.LoadTable(filepath.Join(t.TempDir(), "none.json"))
	require.NoError(t, err)
	assert.Len(t, table, len(models.Builtin()))
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Chmod(file, 0o666))
		table, err = models.LoadTable(file)
		assert.ErrorContains(t, err, "others can write it")
		assert.Len(t, table, len(models.Builtin()), "what others can write names no models")
	}
}

func TestNamesAreAddedToTheUsersOwnFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none yet", "known.json")
	list := append(models.Builtin(), models.Known{Name: "new:1b", Repo: "a/b"}, models.Known{Name: "two:2b", Repo: "c/d", Revision: strings.Repeat("0", 40)})
	added, refused, err := models.AddNames(file, list)
	require.NoError(t, err)
	assert.Empty(t, refused, "what is known already is no fault of a newer list")
	assert.Len(t, added, 2)
	added, refused, err = models.AddNames(file, models.Table{{Name: "new:1b", Repo: "a/better"}, {Name: "../x", Repo: "a/b"}, {Name: "qwen3", Repo: "evil/x"}})
	require.NoError(t, err)
	assert.Len(t, added, 1)
	assert.Equal(t, []string{`entry 2 has no valid name: "../x"`, "qwen3 means OpenVINO/Qwen3-8B-int4-cw-ov already"}, refused)
	table, err := models.LoadTable(file)
	require.NoError(t, err)
	for name, repo := range map[string]string{"new:1b": "a/better", "two:2b": "c/d@" + strings.Repeat("0", 40), "qwen3": "OpenVINO/Qwen3-8B-int4-cw-ov"} {
		k, _ := table.Find(name)
		assert.Equal(t, repo, k.Reference())
	}

	require.NoError(t, os.WriteFile(file, []byte("<html>"), 0o600))
	table, err = models.LoadTable(file)
	assert.ErrorContains(t, err, "is not read: it is no list of models in JSON")
	assert.Len(t, table, len(models.Builtin()))
	_, _, err = models.AddNames(file, list)
	assert.Error(t, err, "what is there may be worth keeping")
}

func TestAGGUFFileHasAModelToPullInstead(t *testing.T) {
	table := models.Builtin()
	k, ok := table.InPlaceOf("qwen3", 4_000_000_000)
	require.True(t, ok)
	assert.Equal(t, "qwen3:4b", k.Name)
	k, ok = table.InPlaceOf("phi3", 3_800_000_000)
	require.True(t, ok)
	assert.Equal(t, "phi3.5:3.8b", k.Name)
	_, ok = table.InPlaceOf("mamba", 1)
	assert.False(t, ok)
}

var plainFolder = regexp.MustCompile(`^m-([a-z0-9_-]{0,60}-)?[0-9a-f]{12}$`)

func TestFoldersAreSafeOnEverySystemAndOneForEachName(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"CON", "COM\u00b9", "nul.bin", "x.", "x ", "a:b", "\u00e9", "Qwen", "sm\u212a", strings.Repeat("n", 300), "../..", `\\evil\s`, "王小明", "a/b", "a-b", "qwen3:4b"} {
		folder := models.FolderOf(name)
		assert.Regexp(t, plainFolder, folder, name)
		assert.Empty(t, seen[folder], name)
		seen[folder] = name
	}
	assert.Equal(t, models.FolderOf("qwen3:4b"), models.FolderOf("Qwen3:4B"))
	assert.Equal(t, models.FolderOf("e\u0301"), models.FolderOf("\u00e9"))
	assert.Equal(t, models.FolderOf("qwen3"), models.FolderOf("qwen3:latest"))
}

func FuzzReferences(f *testing.F) {
	for _, seed := range []string{"qwen3", "OpenVINO/X@main", "hf.co/a/b:Q4", "http://evil/x", "a/b@../x"} {
		f.Add(seed)
	}
	table := models.Builtin()
	f.Fuzz(func(t *testing.T, name string) {
		r, err := table.ParseReference(name)
		assert.Regexp(t, plainFolder, models.FolderOf(name))
		if err == nil {
			assert.True(t, models.ValidName(r.Name))
			assert.Regexp(t, `^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$`, r.Repo)
			assert.NotContains(t, r.Revision, "..")
			assert.NotContains(t, r.Repo, "/.")
		}
	})
}
