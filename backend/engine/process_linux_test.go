package engine_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
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

func TestNoChildOutlivesAKilledParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=parent")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var children []int
	lines := bufio.NewScanner(stdout)
	for len(children) < 2 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		require.True(t, running(pid))
		children = append(children, pid)
	}
	require.Len(t, children, 2)
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	deadline := time.Now().Add(time.Second)
	for _, pid := range children {
		for running(pid) && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		assert.False(t, running(pid), "child %d lives on", pid)
	}
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
	b := openReal(t, engine.Options{Silence: 300 * time.Millisecond})
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
