package engine_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
)

// running says that a process exists and is no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return fields[0] != "Z"
}

// PDEATHSIG is a tie to the thread that forked: threads come and go here, and no child may notice (golang/go#27505).
func TestNoChildDiesWithAThread(t *testing.T) {
	b := openReal(t, engine.Options{})
	for range 10 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
			b.answers(0)
			b.answers(1)
		}()
		<-done
		pids := []int{b.state(0).PID, b.state(1).PID}
		for range 10 {
			ended := make(chan struct{})
			go func() { runtime.LockOSThread(); close(ended) }()
			<-ended
		}
		b.answers(0)
		b.answers(1)
		assert.Equal(t, pids, []int{b.state(0).PID, b.state(1).PID})
		b.kill(0)
		until(t, "seen dead", func() bool { return !b.state(0).Up })
	}
}

func TestAChildIsOneThatMayBeLost(t *testing.T) {
	b := openReal(t, engine.Options{})
	b.answers(0)
	pid := b.state(0).PID
	read := func(name string) string {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		require.NoError(t, err)
		return strings.TrimSpace(string(data))
	}
	assert.Equal(t, "500", read("oom_score_adj"))
	assert.Regexp(t, `Max core file size\s+0\s+0`, read("limits"))
	assert.Equal(t, "signalbox-engin", read("comm"))
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	assert.Equal(t, pid, group, "Ctrl-C in the terminal is for the parent")
}

func TestAStoppedChildIsReplaced(t *testing.T) {
	b := openReal(t, engine.Options{Silence: 3 * time.Second})
	wait := b.streaming(t.Context(), job(0, "m", "[[endless]] [[slow 1]]"))
	require.NoError(t, syscall.Kill(b.state(0).PID, syscall.SIGSTOP))
	_, err := wait()
	assert.Contains(t, exitOf(t, err).Reason, "the process did not answer for")
	b.answers(0)
}

func TestCloseLeavesNoProcessAndNoZombie(t *testing.T) {
	b := openReal(t, engine.Options{})
	b.answers(0)
	b.answers(1)
	pids := []int{b.state(0).PID, b.state(1).PID}
	require.NoError(t, b.Close())
	for _, pid := range pids {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestSelfSurvivesTheReplacementOfItsFile(t *testing.T) {
	path, err := engine.Self()
	require.NoError(t, err)
	assert.Regexp(t, `^/proc/self/fd/\d+$`, path)
}

func TestTheChildsEnvironmentIsBuiltAnew(t *testing.T) {
	for _, name := range []string{"LD_LIBRARY_PATH", "ONEDNN_VERBOSE", "OV_NPU_LOG_LEVEL", "HF_TOKEN", "HTTPS_PROXY", "OPENCL_VENDOR_PATH", "LANG"} {
		t.Setenv(name, "1")
	}
	b := openReal(t, engine.Options{})
	b.answers(0)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", b.state(0).PID))
	require.NoError(t, err)
	var names []string
	for entry := range strings.SplitSeq(strings.TrimRight(string(environ), "\x00"), "\x00") {
		if name, _, _ := strings.Cut(entry, "="); !strings.HasPrefix(name, "glibc.") { // glibc cuts its own variable into pieces, in place
			names = append(names, name)
		}
	}
	assert.Subset(t, []string{"LC_ALL", "PATH", "GLIBC_TUNABLES", "HOME", "TZ", role, "GORACE"}, names)
	assert.Contains(t, string(environ), "LC_ALL=C.UTF-8")
}
