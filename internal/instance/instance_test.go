package instance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/instance"
)

// TestMain makes the test binary one more process that wants to run: it says "won", "lost" or an error, and holds the
// lock until its standard input ends.
func TestMain(m *testing.M) {
	dir := os.Getenv("INSTANCE_TEST_DIR")
	if dir == "" {
		os.Exit(m.Run())
	}
	lock, err := instance.Acquire(dir)
	switch {
	case errors.Is(err, instance.ErrRunning):
		fmt.Println("lost")
		return
	case err != nil:
		fmt.Println(err)
		return
	}
	if err := lock.Publish(instance.Owner{UIURL: "http://x.localhost:1", Token: "t", Version: "0"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("won")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = lock.Release()
}

type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "INSTANCE_TEST_DIR="+dir,
		"GORACE=atexit_sleep_ms=0") // else each of two hundred processes waits a second under -race
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &process{cmd, in, bufio.NewReader(out)}
}

func (p *process) says(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

func TestSecondAcquireIsToldWhoRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	lock, err := instance.Acquire(dir)
	require.NoError(t, err)
	require.NoError(t, lock.Publish(instance.Owner{UIURL: "http://a.localhost:1", Token: "secret", Version: "0.1.0"}))

	_, err = instance.Acquire(dir)
	require.ErrorIs(t, err, instance.ErrRunning)
	assert.ErrorContains(t, err, fmt.Sprintf("pid %d", os.Getpid()))
	running, ok := errors.AsType[*instance.RunningError](err)
	require.True(t, ok)
	assert.Equal(t, "http://a.localhost:1", running.Owner.UIURL)

	require.NoError(t, lock.Release())
	require.NoError(t, lock.Release(), "twice is fine")
	again, err := instance.Acquire(dir)
	require.NoError(t, err)
	require.NoError(t, again.Release())
}

func TestFindBelievesTheFileOnlyWhileTheLockIsHeld(t *testing.T) {
	dir := t.TempDir()
	_, err := instance.Find(filepath.Join(dir, "never"))
	require.ErrorIs(t, err, instance.ErrNotRunning)
	assert.NoDirExists(t, filepath.Join(dir, "never"), "looking creates nothing")

	lock, err := instance.Acquire(dir)
	require.NoError(t, err)
	_, err = instance.Find(dir)
	require.ErrorIs(t, err, instance.ErrStarting)
	require.NoError(t, lock.Publish(instance.Owner{UIURL: "http://a.localhost:1", Token: "secret"}))
	owner, err := instance.Find(dir)
	require.NoError(t, err)
	assert.Equal(t, os.Getpid(), owner.PID)
	assert.Equal(t, "secret", owner.Token)
	assert.False(t, owner.Elsewhere())
	assert.WithinDuration(t, time.Now(), owner.Started, time.Minute)

	require.NoError(t, lock.Publish(instance.Owner{UIURL: "http://a.localhost:1", APIURL: "http://127.0.0.1:11434"}))
	owner, err = instance.Find(dir)
	require.NoError(t, err)
	assert.Equal(t, "http://127.0.0.1:11434", owner.APIURL)

	require.NoError(t, lock.Release())
	_, err = instance.Find(dir)
	require.ErrorIs(t, err, instance.ErrNotRunning)
}

func TestAFileThatSomebodyRemovedComesBack(t *testing.T) {
	dir := t.TempDir()
	lock, err := instance.Acquire(dir)
	require.NoError(t, err)
	defer lock.Release()
	require.NoError(t, lock.Publish(instance.Owner{UIURL: "http://a.localhost:1", Token: "secret"}))
	require.NoError(t, os.Remove(filepath.Join(dir, "instance.json")))
	_, err = instance.Find(dir)
	require.ErrorIs(t, err, instance.ErrStarting)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	owner, err := instance.Wait(ctx, dir)
	require.NoError(t, err)
	assert.Equal(t, "secret", owner.Token)
}

func TestAFolderThatCannotBeWrittenIsToldFromOneWithoutLocks(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // there is no folder that nobody can write to
	}
	_, err := instance.Acquire("/sys/kernel/signalbox") // root cannot either
	require.Error(t, err)
	assert.ErrorContains(t, err, "; Signalbox must be able to write there: change who may, or set SIGNALBOX_HOME to another folder")
	assert.NotContains(t, err.Error(), "has no locks")
	_, err = instance.Acquire("/dev/null/signalbox")
	assert.ErrorContains(t, err, "not a directory; set SIGNALBOX_HOME to a folder that can be made")
}

func TestADiskThatCannotBeWrittenSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	undo := instance.MakeReadOnly()
	defer undo()
	_, err := instance.Acquire(dir)
	require.Error(t, err)
	assert.ErrorContains(t, err, "clear what an earlier run may have left: remove "+filepath.Join(dir, "instance.json"))
	assert.ErrorContains(t, err, "; Signalbox must be able to write there: mount that disk writable again, or set SIGNALBOX_HOME to a folder on another one")
}

func TestStaleFileIsHarmless(t *testing.T) {
	dir := t.TempDir()
	asked := make(chan struct{}, 10)
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	t.Cleanup(thief.Close)
	info := filepath.Join(dir, "instance.json")
	stale := fmt.Sprintf(`{"pid":1,"ui_url":%q,"token":"old"}`, thief.URL)
	require.NoError(t, os.WriteFile(info, []byte(stale), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))

	_, err := instance.Find(dir)
	require.ErrorIs(t, err, instance.ErrNotRunning)
	lock, err := instance.Acquire(dir)
	require.NoError(t, err)
	_, err = instance.Find(dir)
	require.ErrorIs(t, err, instance.ErrStarting, "the stale file is gone before anybody could believe it")
	require.NoError(t, lock.Publish(instance.Owner{UIURL: "http://a.localhost:1"}))
	if runtime.GOOS != "windows" {
		stat, err := os.Stat(info)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), stat.Mode().Perm())
	}
	require.NoError(t, lock.Release())
	assert.NoFileExists(t, info)
	assert.Empty(t, asked, "nobody talked to the address in the stale file")
}

func TestKilledOwnerLeavesTheLockFree(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	require.Equal(t, "won", first.says(t))
	owner, err := instance.Find(dir)
	require.NoError(t, err)
	require.Equal(t, first.Process.Pid, owner.PID)

	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	_, err = instance.Find(dir)
	require.ErrorIs(t, err, instance.ErrNotRunning)
	lock, err := instance.Acquire(dir)
	require.NoError(t, err)
	require.NoError(t, lock.Release())
}

func TestHundredDoubleStartsHaveOneWinnerEach(t *testing.T) {
	dir := t.TempDir()
	for round := range 100 {
		a, b := start(t, dir), start(t, dir)
		said := []string{a.says(t), b.says(t)}
		require.ElementsMatch(t, []string{"won", "lost"}, said, "round %d", round)
		_ = a.in.Close()
		_ = b.in.Close()
		_, _ = a.Wait(), b.Wait()
	}
}

func TestLookingNeverMakesAStartFail(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = instance.Find(dir)
		}
	}()
	for range 200 {
		lock, err := instance.Acquire(dir)
		require.NoError(t, err)
		require.NoError(t, lock.Release())
	}
	stop()
	<-done
}

func TestWaitGivesAStartingOwnerTime(t *testing.T) {
	dir := t.TempDir()
	lock, err := instance.Acquire(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lock.Release() })
	found := make(chan error, 1)
	go func() {
		owner, err := instance.Wait(t.Context(), dir)
		if err == nil && owner.Token != "t" {
			err = fmt.Errorf("wrong owner %+v", owner)
		}
		found <- err
	}()
	require.NoError(t, lock.Publish(instance.Owner{UIURL: "http://a.localhost:1", Token: "t"}))
	require.NoError(t, <-found)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := t.TempDir()
	starting, err := instance.Acquire(other)
	require.NoError(t, err)
	t.Cleanup(func() { _ = starting.Release() })
	_, err = instance.Wait(ctx, other)
	require.ErrorIs(t, err, instance.ErrStarting)
}

func TestPostReachesTheListenerByItsNameWithTheToken(t *testing.T) {
	var got *http.Request
	ui := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		if r.URL.Path != "/desktop/show" {
			http.Error(w, "no such thing", http.StatusNotFound)
		}
	}))
	t.Cleanup(ui.Close)
	_, port, err := net.SplitHostPort(ui.Listener.Addr().String())
	require.NoError(t, err)
	owner := instance.Owner{PID: 7, UIURL: "http://0123abcd.localhost:" + port, Token: "secret"}

	_, err = owner.Post(t.Context(), "/desktop/show", nil)
	require.NoError(t, err)
	assert.Equal(t, "Bearer secret", got.Header.Get("Authorization"))
	assert.Equal(t, "0123abcd.localhost:"+port, got.Host)

	_, err = owner.Post(t.Context(), "/other", map[string]string{"a": "b"})
	assert.ErrorContains(t, err, "404")
	assert.ErrorContains(t, err, "no such thing")

	client, err := owner.Client()
	require.NoError(t, err)
	_, err = client.Get("http://127.0.0.1:" + port)
	assert.ErrorContains(t, err, "not the running Signalbox", "the token goes nowhere else")
}

func TestOwnerOnAnotherHostIsNamedNotCalled(t *testing.T) {
	owner := instance.Owner{PID: 7, Host: "some-other-machine.invalid", UIURL: "http://a.localhost:1"}
	assert.True(t, owner.Elsewhere())
	_, err := owner.Post(t.Context(), "/desktop/show", nil)
	assert.ErrorContains(t, err, "pid 7 on host some-other-machine.invalid")
	assert.ErrorContains(t, &instance.RunningError{Owner: &owner}, "SIGNALBOX_HOME")
}
