//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"signalbox/internal/instance"
	"signalbox/internal/testenv"
)

// TestScripts are sessions at a shell with the built program, each in a home of its own, without a display. Beside
// testscript's commands there are those of commands below.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	program, err := filepath.Abs(Binary(t))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(program, filepath.Join(bin, "signalbox")))
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+":"+env.Getenv("PATH"))
			env.Setenv("SIGNALBOX_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("SIGNALBOX_HOST", "127.0.0.1:0")
			env.Setenv("RUNTIME", testenv.Runtime(t))
			env.Setenv("MODELS", filepath.Dir(testenv.ChatModel(t)))
			return nil
		},
		Cmds:                commands,
		RequireExplicitExec: true,
	})
}

var commands = map[string]func(*testscript.TestScript, bool, []string){
	"ready":     ready,
	"http":      request,
	"settings":  settings,
	"hold":      hold,
	"untouched": untouched,
	"signal":    send,
	"linktree":  linktree,
	"flip":      flip,
	"nobody":    nobody,
}

// patience is how long something may take that takes moments on a quiet machine.
const patience = time.Minute

// ready waits until the server in the background answers, and sets URL, UI, TOKEN and SERVER, its pid.
func ready(ts *testscript.TestScript, _ bool, _ []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		owner, err := instance.Wait(ctx, ts.Getenv("SIGNALBOX_HOME"))
		if err == nil {
			ts.Setenv("URL", owner.APIURL)
			ts.Setenv("UI", owner.UIURL)
			ts.Setenv("TOKEN", owner.Token)
			ts.Setenv("SERVER", strconv.Itoa(owner.PID))
			return
		}
		if !errors.Is(err, instance.ErrNotRunning) || ctx.Err() != nil {
			ts.Fatalf("no server: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// request is `http STATUS METHOD URL [BODY]`: it sends with the owner's token, and the answer's body is the new stdout.
func request(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: http STATUS METHOD URL [BODY]")
	}
	req, err := http.NewRequest(args[1], args[2], strings.NewReader(strings.Join(args[3:], " ")))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+ts.Getenv("TOKEN"))
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s", body)
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("%s: %s", resp.Status, body)
	}
}

// settings writes settings.json.
func settings(ts *testscript.TestScript, _ bool, args []string) {
	home := ts.Getenv("SIGNALBOX_HOME")
	ts.Check(os.MkdirAll(home, 0o700))
	ts.Check(os.WriteFile(filepath.Join(home, "settings.json"), []byte(strings.Join(args, " ")), 0o600))
}

// held are the ports that this process holds: port to *atomic.Int32, the connections that came.
var held sync.Map

// hold is `hold HOST`: this process listens there. It sets PORT and PID.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", net.JoinHostPort(args[0], "0"))
	ts.Check(err)
	asked := new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			c.Close()
		}
	}()
	ts.Defer(func() { l.Close() })
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	held.Store(port, asked)
	ts.Setenv("PORT", port)
	ts.Setenv("PID", strconv.Itoa(os.Getpid()))
}

// untouched holds that nobody has connected to the port that is held.
func untouched(ts *testscript.TestScript, _ bool, _ []string) {
	asked, _ := held.Load(ts.Getenv("PORT"))
	if n := asked.(*atomic.Int32).Load(); n > 0 {
		ts.Fatalf("%d connections came to port %s", n, ts.Getenv("PORT"))
	}
}

// send is `signal NAME PID`.
func send(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(syscall.Kill(pid, map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM}[args[0]]))
}

// linktree is `linktree FROM TO`: a copy of a folder, made of hard links where the disk allows it.
func linktree(ts *testscript.TestScript, _ bool, args []string) {
	from, to := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	ts.Check(copyTree(from, to))
}

func duplicate(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// flip changes a bit in the middle of the file that a pattern names, which becomes a file of its own.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%s: %q", args[0], found)
	}
	path := found[0]
	text, err := os.ReadFile(path)
	ts.Check(err)
	text[len(text)/2] ^= 1
	ts.Check(os.Remove(path))
	ts.Check(os.WriteFile(path, text, 0o600))
}

// nobody holds that no process is left that knows this script's folder, by its arguments or its environment.
func nobody(ts *testscript.TestScript, _ bool, _ []string) {
	work := ts.Getenv("WORK")
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left := processesThatMention(work)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("still there: %q", left)
		}
	}
}

// processesThatMention lists the command lines of the processes that have text in their arguments or their environment.
func processesThatMention(text string) (list []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if pid != os.Getpid() && (strings.Contains(string(cmdline), text) || strings.Contains(string(environ), text)) {
			list = append(list, strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return list
}
