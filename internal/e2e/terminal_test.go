//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"signalbox/backend/journal"
)

// terminal is a program in a terminal window of its own, and the person before it.
type terminal struct {
	t      testing.TB
	cmd    *exec.Cmd
	keys   *os.File
	exited chan struct{} // closed when the program has ended

	mu     sync.Mutex
	screen bytes.Buffer // all that was shown; guarded by mu
	seen   int          // how much of it shows has taken; guarded by mu
}

const ctrlC, ctrlD, enter = "\x03", "\x04", "\r"

// openTerminal runs the program on a home. The terminal has no size, as a serial line has none.
func openTerminal(t testing.TB, home string, args ...string) *terminal {
	t.Helper()
	window, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(window.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(window.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer tty.Close()

	p := &terminal{t: t, keys: window, exited: make(chan struct{}), cmd: exec.Command(Binary(t), args...)}
	p.cmd.Env = append(os.Environ(), "TERM=xterm", "SIGNALBOX_HOST=127.0.0.1:0", "SIGNALBOX_HOME="+home)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, p.cmd.Start())
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := window.Read(buffer) // EIO when nobody has the terminal any more
			p.mu.Lock()
			p.screen.Write(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		_ = window.Close()
	})
	return p
}

func (p *terminal) types(keys string) {
	p.t.Helper()
	_, err := p.keys.WriteString(keys)
	require.NoError(p.t, err)
}

// shows waits until text is shown after what shows has found before.
func (p *terminal) shows(text string) {
	p.t.Helper()
	found := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		at := strings.Index(p.screen.String()[p.seen:], text)
		if at >= 0 {
			p.seen += at + len(text)
		}
		return at >= 0
	}
	defer func() {
		if p.t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.t.Logf("the terminal shows:\n%q", p.screen.String())
		}
	}()
	Eventually(p.t, patience, "the terminal shows "+text, found)
}

// ends waits for the program's end and returns its exit code.
func (p *terminal) ends() int {
	p.t.Helper()
	Eventually(p.t, patience, "the program ends", func() bool {
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	})
	return p.cmd.ProcessState.ExitCode()
}

// outcomes are those of the requests so far, the newest first.
func (s *Server) outcomes() (list []string) {
	var answer struct {
		Requests []journal.Entry `json:"requests"`
	}
	s.Get("/ui/requests?limit=100", &answer)
	for _, entry := range answer.Requests {
		list = append(list, string(entry.Outcome))
	}
	return list
}

const canned = "This is a canned answer from the fake engine. No model ran."

func TestConversationInATerminal(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	p := openTerminal(t, s.Home, "run", model)
	p.shows("/? for help, /bye to end.")
	p.shows(">>> ")
	p.types("Who are you?" + enter)
	p.shows(canned)
	p.shows(">>> ")

	p.types("[[endless]] [[slow 5]]" + enter)
	p.shows(canned)
	p.shows("This is")
	p.types(ctrlC)
	p.shows(">>> ")
	s.idle()
	assert.Equal(t, []string{"cancelled", "completed"}, s.outcomes(), "Ctrl-C stops the answer")

	p.types("half a word" + ctrlC)
	p.shows(">>> ")
	p.types("/nope" + enter)
	p.shows("There is no command /nope")
	p.types("/clear" + enter)
	p.shows("The conversation is cleared.")
	p.shows(">>> ")

	// Pasted at once, as text from an editor comes.
	p.types(`"""[[say first line` + enter + `second line]]"""` + enter)
	p.shows("first line\r\nsecond line\r\n")
	p.shows(">>> ")
	p.types("[[error]]" + enter)
	p.shows("Error: ")
	p.shows(">>> ")
	p.types("/bye" + enter)
	assert.Zero(t, p.ends())

	p = openTerminal(t, s.Home, "run", model)
	p.shows(">>> ")
	p.types(ctrlD)
	assert.Zero(t, p.ends())
}

func TestCtrlCDuringOneAnswerEndsWith130(t *testing.T) {
	s := Start(t, nil, "--engine", "fake")
	p := openTerminal(t, s.Home, "run", model, "[[endless]] [[slow 5]]")
	p.shows("This is a canned")
	p.types(ctrlC)
	assert.Equal(t, 130, p.ends())
	s.idle()
	assert.Equal(t, []string{"cancelled"}, s.outcomes())
}

// TestConversationWithoutAServer has the engine in the terminal's own process tree, where Ctrl-C reaches everybody.
func TestConversationWithoutAServer(t *testing.T) {
	home := t.TempDir()
	p := openTerminal(t, home, "run", model)
	p.shows("No Signalbox is running: this command brings its own engine")
	for range 2 {
		p.shows(">>> ")
		p.types("Tell me a very long story about a railway." + enter)
		p.shows("\r\n") // the echo
		p.shows(" ")    // between two words of the answer
		p.types(ctrlC)
	}
	p.shows(">>> ")
	p.types("/bye" + enter)
	assert.Zero(t, p.ends())
	assert.Empty(t, processesThatMention(home))
}

func TestCtrlCEndsServeInOrder(t *testing.T) {
	home := t.TempDir()
	p := openTerminal(t, home, "serve", "--engine", "fake")
	p.shows("The window in a browser: ")
	s := attach(t, home)
	resp := s.Open(context.Background(), "/api/chat", chat("[[endless]] [[slow 5]]", nil))
	defer resp.Body.Close()
	p.types(ctrlC)
	lines := stream(t, resp.Body)
	require.NotEmpty(t, lines)
	last := lines[len(lines)-1]
	assert.False(t, last.Done)
	assert.Contains(t, last.Error, "stopped", "the stream says goodbye")
	assert.Zero(t, p.ends())
}
