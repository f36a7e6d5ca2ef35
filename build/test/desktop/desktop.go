//go:build linux

// Package desktop is a whole desktop session for tests: a virtual display, a session bus, a window manager and a panel that shows
// tray icons. Programs under test are the real binaries; they are seen and used as a user does: windows, tray menu, page.
//
//	desk := desktop.Start(t, desktop.Options{})
//	app := desk.Run(t, bin, "--hidden")
//	desk.Tray(t).Click(t, "Stop server")
//
// Everything ends with the test. It needs Xvfb, dbus-daemon, openbox, wmctrl and imagemagick, and for pages
// WebKitWebDriver with gcc and libwebkit2gtk-4.1-dev, or chromedriver.
package desktop

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Options say what the session lacks.
type Options struct {
	NoBus   bool // no session bus, so no tray
	NoPanel bool // nothing shows tray icons; StartPanel may come later
}

// Desktop is one session.
type Desktop struct {
	Dir     string // everything of the session; HOME is Dir/home
	Display string // ":1"
	Bus     string // address of the session bus; empty for none

	panel    *panel
	programs []*exec.Cmd // the session's own, in the order they were started
}

// Patience is how long things on the desktop may take on a busy machine.
const Patience = 30 * time.Second

// Start begins a session, which ends with the test.
func Start(t testing.TB, opts Options) *Desktop {
	t.Helper()
	d := &Desktop{Dir: shortDir(t)}
	for _, dir := range []string{d.home(), d.runtime(), filepath.Join(d.Dir, "bin")} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	d.startDisplay(t)
	if !opts.NoBus {
		d.startBus(t)
	}
	d.background(t, "openbox")
	require.Eventually(t, func() bool { _, err := d.windows(); return err == nil }, Patience, 20*time.Millisecond, "no window manager")
	if !opts.NoBus && !opts.NoPanel {
		d.StartPanel(t)
	}
	d.writeOpener(t)
	return d
}

// shortDir is a test folder with a short path, since sockets lie in it.
func shortDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "desk")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the session's files stay in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

func (d *Desktop) home() string    { return filepath.Join(d.Dir, "home") }
func (d *Desktop) runtime() string { return filepath.Join(d.Dir, "run") }

// Home is SIGNALBOX_HOME of the programs in this session.
func (d *Desktop) Home() string { return filepath.Join(d.home(), "signalbox") }

func (d *Desktop) startDisplay(t testing.TB) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "1280x900x24", "-nolisten", "tcp", "-noreset")
	cmd.ExtraFiles = []*os.File{w}
	d.start(t, cmd)
	_ = w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err, "Xvfb did not start")
	d.Display = ":" + strings.TrimSpace(line)
}

func (d *Desktop) startBus(t testing.TB) {
	cmd := d.command("dbus-daemon", "--session", "--nofork", "--print-address=1", "--address=unix:path="+filepath.Join(d.runtime(), "bus"))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	d.start(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "dbus-daemon did not start")
	d.Bus = strings.TrimSpace(line)
}

// writeOpener puts an xdg-open in front of the PATH which keeps its arguments, and the page where it is a file.
func (d *Desktop) writeOpener(t testing.TB) {
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$1\" >> '%s'\ncase \"$1\" in file://*) cat \"${1#file://}\" >> '%s';; esac\n",
		filepath.Join(d.Dir, "opened"), filepath.Join(d.Dir, "opened.html"))
	require.NoError(t, os.WriteFile(filepath.Join(d.Dir, "bin", "xdg-open"), []byte(script), 0o700))
}

// Opened returns the addresses that programs gave to xdg-open, and the text of those that were files.
func (d *Desktop) Opened() (addresses []string, pages string) {
	list, _ := os.ReadFile(filepath.Join(d.Dir, "opened"))
	text, _ := os.ReadFile(filepath.Join(d.Dir, "opened.html"))
	return strings.Fields(string(list)), string(text)
}

// Env is the environment of programs in this session.
func (d *Desktop) Env() []string {
	env := []string{
		"HOME=" + d.home(), "XDG_RUNTIME_DIR=" + d.runtime(), "DISPLAY=" + d.Display, "XDG_SESSION_TYPE=x11",
		"PATH=" + filepath.Join(d.Dir, "bin") + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "USER=" + os.Getenv("USER"),
		"LIBGL_ALWAYS_SOFTWARE=1", "NO_AT_BRIDGE=1", "GTK_USE_PORTAL=0",
		"SIGNALBOX_HOME=" + d.Home(), "SIGNALBOX_HOST=127.0.0.1:0",
	}
	if d.Bus != "" {
		env = append(env, "DBUS_SESSION_BUS_ADDRESS="+d.Bus)
	}
	return env
}

func (d *Desktop) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = d.Env()
	cmd.Dir = d.home()
	return cmd
}

// start begins a program of the session itself, and ends it with the test.
func (d *Desktop) start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	d.programs = append(d.programs, cmd)
	t.Cleanup(func() { end(cmd) })
}

// End takes the session away from under its programs, as a log-out does.
func (d *Desktop) End(t testing.TB) {
	t.Helper()
	for _, cmd := range slices.Backward(d.programs) {
		end(cmd)
	}
}

// end may be called twice.
func end(cmd *exec.Cmd) {
	if cmd.ProcessState != nil {
		return
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	killLater := time.AfterFunc(5*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer killLater.Stop()
	_ = cmd.Wait()
}

func (d *Desktop) background(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := d.command(name, args...)
	log, err := os.Create(filepath.Join(d.Dir, filepath.Base(name)+".log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	cmd.Stdout, cmd.Stderr = log, log
	d.start(t, cmd)
}

// App is a program under test.
type App struct {
	*exec.Cmd
	log   string
	ended chan struct{}
}

// Run starts a program in the session. It is killed with the test if it still runs then; its output is logged if the test failed.
func (d *Desktop) Run(t testing.TB, bin string, args ...string) *App {
	t.Helper()
	return d.RunWith(t, nil, bin, args...)
}

// RunWith is Run with more environment variables.
func (d *Desktop) RunWith(t testing.TB, env []string, bin string, args ...string) *App {
	t.Helper()
	log, err := os.CreateTemp(d.Dir, "app-*.log")
	require.NoError(t, err)
	cmd := d.command(bin, args...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	a := &App{Cmd: cmd, log: log.Name(), ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		_ = cmd.Wait()
		_ = log.Close()
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-a.ended
		if t.Failed() {
			t.Logf("%s %s said:\n%s", filepath.Base(bin), strings.Join(args, " "), a.Log())
		}
	})
	return a
}

// Log is what the program has written so far.
func (a *App) Log() string {
	text, _ := os.ReadFile(a.log)
	return string(text)
}

// ExitCode waits for the program's end.
func (a *App) ExitCode(t testing.TB) int {
	t.Helper()
	select {
	case <-a.ended:
	case <-time.After(Patience):
		require.FailNow(t, "the program still runs", "after %v: %s", Patience, a.Log())
	}
	return a.ProcessState.ExitCode()
}

// Running reports whether the program has not ended.
func (a *App) Running() bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

// Process is one process of a program.
type Process struct {
	PID      int
	Name     string
	RSS, PSS int // MiB
}

// Processes are the program's own process and all that it started, with their memory.
func (a *App) Processes() []Process {
	parents := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range dirs {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state ppid ...": the name may hold anything but its last parenthesis ends it.
		after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(after[1])
		parents[parent] = append(parents[parent], pid)
	}
	var found []Process
	var walk func(pid int)
	walk = func(pid int) {
		if p, ok := process(pid); ok {
			found = append(found, p)
		}
		for _, child := range parents[pid] {
			walk(child)
		}
	}
	walk(a.Process.Pid)
	return found
}

func process(pid int) (Process, bool) {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return Process{}, false
	}
	name, _, _ := strings.Cut(string(cmdline), "\x00")
	p := Process{PID: pid, Name: filepath.Base(name)}
	rollup, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return p, true
	}
	defer rollup.Close()
	for lines := bufio.NewScanner(rollup); lines.Scan(); {
		var kib int
		if n, _ := fmt.Sscanf(lines.Text(), "Rss: %d", &kib); n == 1 {
			p.RSS = kib / 1024
		} else if n, _ := fmt.Sscanf(lines.Text(), "Pss: %d", &kib); n == 1 {
			p.PSS = kib / 1024
		}
	}
	return p, true
}

// Window is one window on the display.
type Window struct {
	ID            string
	PID           int
	X, Y          int
	Width, Height int
	Title         string
}

// Windows lists what the window manager shows; a hidden window is not among them.
func (d *Desktop) Windows(t testing.TB) []Window {
	t.Helper()
	windows, err := d.windows()
	require.NoError(t, err)
	return windows
}

func (d *Desktop) windows() ([]Window, error) {
	out, err := d.command("wmctrl", "-l", "-p", "-G").Output()
	if err != nil {
		return nil, fmt.Errorf("list the windows: %w", err)
	}
	var windows []Window
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		w := Window{ID: f[0], Title: strings.Join(f[8:], " ")}
		for i, field := range []*int{2: &w.PID, 3: &w.X, 4: &w.Y, 5: &w.Width, 6: &w.Height} {
			if field != nil {
				*field, _ = strconv.Atoi(f[i])
			}
		}
		windows = append(windows, w)
	}
	return windows, nil
}

// Window waits for a window of that title.
func (d *Desktop) Window(t testing.TB, title string) Window {
	t.Helper()
	var found Window
	require.Eventually(t, func() bool {
		windows, _ := d.windows() // fails while the window manager is busy
		for _, w := range windows {
			if w.Title == title {
				found = w
				return true
			}
		}
		return false
	}, Patience, 50*time.Millisecond, "no window %q", title)
	return found
}

// NoWindow waits until there is none of that title.
func (d *Desktop) NoWindow(t testing.TB, title string) {
	t.Helper()
	require.Eventually(t, func() bool {
		windows, err := d.windows()
		return err == nil && !slices.ContainsFunc(windows, func(w Window) bool { return w.Title == title })
	}, Patience, 50*time.Millisecond, "window %q is still there", title)
}

// Close presses the window's close button.
func (d *Desktop) Close(t testing.TB, w Window) {
	t.Helper()
	require.NoError(t, d.command("wmctrl", "-i", "-c", w.ID).Run())
}

// Resize gives the window another size.
func (d *Desktop) Resize(t testing.TB, w Window, width, height int) {
	t.Helper()
	require.NoError(t, d.command("wmctrl", "-i", "-r", w.ID, "-e", fmt.Sprintf("0,-1,-1,%d,%d", width, height)).Run())
}

// Screenshot writes what the display shows as a PNG.
func (d *Desktop) Screenshot(t testing.TB, path string) {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	out, err := d.command("import", "-window", "root", abs).CombinedOutput()
	require.NoError(t, err, string(out))
}

// copyTo writes text to a file of the session.
func (d *Desktop) copyTo(t testing.TB, name string, mode os.FileMode, text string) string {
	path := filepath.Join(d.Dir, name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	require.NoError(t, err)
	defer file.Close()
	_, err = io.WriteString(file, text)
	require.NoError(t, err)
	return path
}
