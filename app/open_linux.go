package app

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// openURL hands an address to the desktop's opener. environ is the user's own environment, without what Wails set.
func openURL(environ []string, address string) error {
	opener, err := findOpener()
	if err != nil {
		return err
	}
	cmd := exec.Command(opener[0], append(opener[1:], address)...)
	cmd.Env = environ
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C at our terminal is not for the browser
	cmd.WaitDelay = time.Second                          // a browser may keep the opener's stderr for hours
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return fmt.Errorf("%s: %w: %s", opener[0], err, bytes.TrimSpace(complaint.Bytes()))
		}
		return nil
	case <-time.After(3 * time.Second):
		return nil // it has become the browser
	}
}

// findOpener returns a command by its absolute path: a relative PATH entry must not decide what runs.
func findOpener() ([]string, error) {
	for _, command := range [][]string{{"xdg-open"}, {"gio", "open"}} {
		path, err := exec.LookPath(command[0])
		if err == nil && filepath.IsAbs(path) {
			return append([]string{path}, command[1:]...), nil
		}
	}
	return nil, errors.New("neither xdg-open nor gio is installed; install xdg-utils")
}
