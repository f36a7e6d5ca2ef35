package runtime_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
	"signalbox/internal/runtime"
	"signalbox/internal/testenv"
)

// entry is one member of a crafted wheel.
type entry struct {
	name, text string
	mode       fs.FileMode
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}

// wheel writes a crafted wheel and returns what a lock says about it. Its hash is right: the checks behind the hash are tested.
func wheel(t *testing.T, folder string, members []entry, files ...runtime.File) runtime.Wheel {
	t.Helper()
	var data bytes.Buffer
	archive := zip.NewWriter(&data)
	for _, member := range members {
		head := &zip.FileHeader{Name: member.name, Method: zip.Deflate}
		head.SetMode(member.mode | 0o644)
		out, err := archive.CreateHeader(head)
		require.NoError(t, err)
		_, err = out.Write([]byte(member.text))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	name := "sample-1.0-py3-none-any.whl"
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), data.Bytes(), 0o644))
	return runtime.Wheel{Package: "sample", Version: "1.0", File: name, Size: int64(data.Len()), SHA256: sum(data.Bytes()), Files: files}
}

func listed(path, text string) runtime.File {
	return runtime.File{Path: path, Size: int64(len(text)), SHA256: sum([]byte(text))}
}

// sample is a small runtime whose wheel lies in a folder of its own.
func sample(t *testing.T) (target runtime.Target, wheels string) {
	t.Helper()
	wheels = t.TempDir()
	license := listed("licenses/LICENSE", "as you like")
	license.Member = "sample.dist-info/LICENSE"
	return runtime.Target{Name: "linux-amd64", Version: "1.0", Wheels: []runtime.Wheel{wheel(t, wheels,
		[]entry{
			{name: "openvino/libs/libopenvino.so.10", text: "core"},
			{name: "openvino/libs/libtbb.so.12", text: "threads"},
			{name: "openvino/libs/libopenvino_pytorch_frontend.so.10", text: "not wanted"},
			{name: "openvino/__init__.py", text: "print('hello')"},
			{name: "sample.dist-info/LICENSE", text: "as you like"},
		},
		listed("openvino/libs/libopenvino.so.10", "core"), listed("openvino/libs/libtbb.so.12", "threads"), license)}}, wheels
}

// unpacked puts the sample below folder, where Find looks for it.
func unpacked(t *testing.T, folder string) (target runtime.Target, dir string) {
	t.Helper()
	target, wheels := sample(t)
	dir = filepath.Join(folder, "runtime", target.Name)
	require.NoError(t, target.Unpack(wheels, dir))
	return target, dir
}

func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	}))
	return out
}

func TestUnpackWritesOnlyWhatTheLockNames(t *testing.T) {
	_, dir := unpacked(t, t.TempDir())
	assert.Equal(t, []string{"licenses/LICENSE", "openvino/libs/libopenvino.so.10", "openvino/libs/libtbb.so.12",
		"signalbox-runtime.json"}, filesBelow(t, dir))
}

func TestUnpackReplacesTheOldFolderWhole(t *testing.T) {
	target, wheels := sample(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "linux-amd64")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "openvino", "libs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openvino", "libs", "libopenvino.so.9"), []byte("old"), 0o644))
	require.NoError(t, target.Unpack(wheels, dir))
	require.NoError(t, target.Check(dir))
	assert.NoFileExists(t, filepath.Join(dir, "openvino", "libs", "libopenvino.so.9"))
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left beside the runtime")
}

func TestUnpackLeavesTheOldFolderWhenAWheelIsBad(t *testing.T) {
	target, dir := unpacked(t, t.TempDir())
	empty := t.TempDir()
	require.Error(t, target.Unpack(empty, dir))
	require.NoError(t, target.Verify(dir))
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestUnpackRefusesHostileWheels(t *testing.T) {
	const lib = "openvino/libs/liba.so"
	good := entry{name: lib, text: "abc"}
	for name, row := range map[string]struct {
		members []entry
		file    runtime.File
		says    string
	}{
		"a name that climbs out":       {[]entry{good, {name: "../evil.so", text: "x"}}, listed(lib, "abc"), "leads out of the folder"},
		"a name that climbs from deep": {[]entry{good, {name: "a/../../evil.so", text: "x"}}, listed(lib, "abc"), "leads out of the folder"},
		"an absolute name":             {[]entry{good, {name: "/tmp/evil.so", text: "x"}}, listed(lib, "abc"), "leads out of the folder"},
		"a link":                       {[]entry{{name: lib, text: "/etc/passwd", mode: fs.ModeSymlink}}, listed(lib, "/etc/passwd"), "link"},
		"a link elsewhere":             {[]entry{good, {name: "openvino/x", text: "/etc", mode: fs.ModeSymlink}}, listed(lib, "abc"), "link"},
		"a name twice":                 {[]entry{good, good}, listed(lib, "abc"), "twice"},
		"a bomb":                       {[]entry{{name: lib, text: strings.Repeat("0", 1<<20)}}, listed(lib, "abc"), "unpacks to 1048576 bytes"},
		"another content":              {[]entry{{name: lib, text: "abd"}}, listed(lib, "abc"), "sha256"},
		"a missing file":               {[]entry{{name: "other.so", text: "abc"}}, listed(lib, "abc"), "there is no " + lib},
	} {
		t.Run(name, func(t *testing.T) {
			wheels, parent := t.TempDir(), t.TempDir()
			target := runtime.Target{Name: "linux-amd64", Version: "1.0",
				Wheels: []runtime.Wheel{wheel(t, wheels, row.members, row.file)}}
			assert.ErrorContains(t, target.Unpack(wheels, filepath.Join(parent, "linux-amd64")), row.says)
			assert.Empty(t, filesBelow(t, parent), "nothing was written")
		})
	}
}

func TestUnpackRefusesAnotherWheel(t *testing.T) {
	target, wheels := sample(t)
	path := filepath.Join(wheels, target.Wheels[0].File)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o644))
	assert.ErrorContains(t, target.Unpack(wheels, filepath.Join(t.TempDir(), "x")), "the lock says")
	require.NoError(t, os.WriteFile(path, append(data, 0), 0o644))
	assert.ErrorContains(t, target.Unpack(wheels, filepath.Join(t.TempDir(), "x")), "bytes, the lock says")
}

func TestLockWithPathsThatLeaveTheFolderIsRefused(t *testing.T) {
	for _, path := range []string{"", ".", "..", "../a.so", "a/../../b.so", "/etc/a.so", `a\..\b.dll`, "C:/a.dll", "a//b.so", "a/.hidden/b.so", "a.so\x00"} {
		lock := runtime.Lock{Version: "1", Targets: map[string]runtime.Target{
			"linux-amd64": {Wheels: []runtime.Wheel{{File: "a.whl", Files: []runtime.File{{Path: path}}}}}}}
		data, err := json.Marshal(lock)
		require.NoError(t, err)
		_, err = runtime.ParseLock(data)
		assert.ErrorContains(t, err, "not a plain path", "%q", path)
		assert.ErrorContains(t, lock.Targets["linux-amd64"].Unpack(t.TempDir(), filepath.Join(t.TempDir(), "x")), "not a plain path", "%q", path)
	}
}

func TestFindLooksBesideTheProgramAndThenInTheDataFolder(t *testing.T) {
	beside, data := t.TempDir(), t.TempDir()
	target, inData := unpacked(t, data)
	found, err := target.Find("", beside, data)
	require.NoError(t, err)
	assert.Equal(t, runtime.Runtime{Dir: inData, Version: "1.0"}, found)

	_, inBeside := unpacked(t, beside)
	found, err = target.Find("", beside, data)
	require.NoError(t, err)
	assert.Equal(t, inBeside, found.Dir)

	require.NoError(t, os.Remove(filepath.Join(inBeside, "openvino", "libs", "libtbb.so.12")))
	found, err = target.Find("", beside, data)
	require.NoError(t, err, "a damaged one does not hide a whole one")
	assert.Equal(t, inData, found.Dir)
}

func TestFindSaysInOneSentenceWhatIsWrong(t *testing.T) {
	libs := filepath.Join("openvino", "libs")
	for name, row := range map[string]struct {
		harm func(t *testing.T, dir string)
		says string
	}{
		"nothing there": {func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) }, "is missing: looked in"},
		"a library missing": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, libs, "libtbb.so.12")))
		}, "is damaged: openvino/libs/libtbb.so.12 is missing"},
		"cut short": {func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, libs, "libtbb.so.12"), 3))
		}, "is damaged: openvino/libs/libtbb.so.12 has 3 bytes, not 7"},
		"other content of the same size": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, libs, "libtbb.so.12"), []byte("THREADS"), 0o644))
		}, "is damaged: openvino/libs/libtbb.so.12 has another content"},
		"a link to the right content": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, libs, "libtbb.so.12")
			require.NoError(t, os.Rename(path, filepath.Join(dir, "elsewhere")))
			require.NoError(t, os.Symlink(filepath.Join(dir, "elsewhere"), path))
		}, "is not a plain file"},
		"a planted library": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, libs, "libirml.so.1"), []byte("evil"), 0o644))
		}, "openvino/libs/libirml.so.1 does not belong there"},
		"a planted DLL": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, libs, "TCM.DLL"), []byte("evil"), 0o644))
		}, "openvino/libs/TCM.DLL does not belong there"},
		"another version without a note": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "signalbox-runtime.json")))
			require.NoError(t, os.Rename(filepath.Join(dir, libs, "libopenvino.so.10"), filepath.Join(dir, libs, "libopenvino.so.9")))
		}, "another one (it has libopenvino.so.9), not 1.0"},
		"another version with a note": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "signalbox-runtime.json"), []byte(`{"version":"0.9","target":"linux-amd64"}`), 0o644))
		}, "is OpenVINO 0.9 for linux-amd64, not 1.0 for linux-amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			target, dir := unpacked(t, folder)
			row.harm(t, dir)
			_, err := target.Find("", folder, "")
			require.ErrorContains(t, err, row.says)
			assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
			assert.NotContains(t, err.Error(), "\n")
			var told *llm.Error
			require.ErrorAs(t, err, &told)
			assert.NotEmpty(t, told.Hint)
		})
	}
}

func TestCheckReadsAFileAgainOnlyWhenItChanged(t *testing.T) {
	target, dir := unpacked(t, t.TempDir())
	path := filepath.Join(dir, "openvino", "libs", "libtbb.so.12")
	info, err := os.Stat(path)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(path, []byte("THREADS"), 0o644))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	require.NoError(t, target.Check(dir), "same size and time: not read")
	require.ErrorContains(t, target.Verify(dir), "another content")

	require.NoError(t, os.WriteFile(path, []byte("threads"), 0o644))
	later := info.ModTime().Add(time.Hour)
	require.NoError(t, os.Chtimes(path, later, later))
	require.NoError(t, target.Check(dir), "another time, the right content")
	require.NoError(t, os.WriteFile(path, []byte("THREADS"), 0o644))
	require.NoError(t, os.Chtimes(path, later, later))
	require.NoError(t, target.Check(dir), "the new time was noted")
}

func TestSettingIsTheOnlyPlaceLookedAt(t *testing.T) {
	beside, elsewhere := t.TempDir(), t.TempDir()
	target, _ := unpacked(t, beside)
	_, dir := unpacked(t, elsewhere)
	found, err := target.Find(dir, beside, "")
	require.NoError(t, err)
	assert.Equal(t, dir, found.Dir)
	_, err = target.Find(filepath.Join(elsewhere, "nowhere"), beside, "")
	require.ErrorContains(t, err, "the setting runtime_dir names")
	assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
}

func TestSettingThatOthersCanChangeIsRefused(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("file modes are not what protects files on Windows; see TestWidelyWritable")
	}
	for name, harm := range map[string]func(dir string) string{
		"the folder":          func(dir string) string { return dir },
		"a folder in it":      func(dir string) string { return filepath.Join(dir, "openvino", "libs") },
		"a folder between":    func(dir string) string { return filepath.Join(dir, "openvino") },
		"a library":           func(dir string) string { return filepath.Join(dir, "openvino", "libs", "libtbb.so.12") },
		"a folder further up": func(dir string) string { return filepath.Dir(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			target, dir := unpacked(t, t.TempDir())
			_, err := target.Find(dir, "", "")
			require.NoError(t, err)
			require.NoError(t, os.Chmod(harm(dir), 0o777))
			_, err = target.Find(dir, "", "")
			require.ErrorContains(t, err, "can change")
			assert.Equal(t, llm.CodeUnavailable, llm.CodeOf(err))
		})
	}
}

func TestEveryLockedLibraryHasASizeAndAHash(t *testing.T) {
	lock, err := runtime.Locked()
	require.NoError(t, err)
	for _, name := range []string{"linux-amd64", "windows-amd64"} {
		require.Contains(t, lock.Targets, name)
		for _, wheel := range lock.Targets[name].Wheels {
			assert.Len(t, wheel.SHA256, 64, wheel.File)
			for _, file := range wheel.Files {
				assert.NotZero(t, file.Size, file.Path)
				assert.Len(t, file.SHA256, 64, file.Path)
				for _, reader := range []string{"tensorflow", "paddle", "pytorch", "jax", "gguf"} {
					assert.NotContains(t, file.Path, reader, "a reader of files that nobody gives us")
				}
			}
		}
	}
}

func TestTheRuntimeOfThisMachineIsTheLockedOne(t *testing.T) {
	target, err := runtime.Here()
	require.NoError(t, err)
	dir := testenv.Runtime(t)
	require.NoError(t, target.Verify(dir))
	found, err := runtime.Find("", filepath.Dir(filepath.Dir(dir)), "")
	require.NoError(t, err)
	assert.Equal(t, dir, found.Dir)
}
