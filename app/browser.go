package app

import (
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// redirectPage sends the browser on. The address in it lets one browser in, once.
var redirectPage = template.Must(template.New("redirect").Parse(`<!doctype html><html><head><meta charset="utf-8"><title>Signalbox</title>
<meta name="referrer" content="no-referrer"></head><body><p>Opening Signalbox…</p><script>location.replace({{.}})</script></body></html>
`))

// redirectLife is how long the file with the address stays. The address itself dies with its first use.
const redirectLife = 30 * time.Second

// openInBrowser shows the page in the user's browser.
func (a *App) openInBrowser() error {
	a.mu.Lock()
	backend := a.backend
	a.mu.Unlock()
	if backend == nil {
		return errors.New("open the page in the browser: Signalbox is not ready yet")
	}
	address := backend.OpenURL()
	if runtime.GOOS == "windows" {
		return a.openURL(a.environ, address) // there, other users do not see a command's arguments
	}
	file, err := writeRedirect(redirectDir(a.opts.StateDir), address)
	if err != nil {
		return fmt.Errorf("open the page in the browser: %w", err)
	}
	a.mu.Lock()
	a.redirects = append(a.redirects, file)
	a.mu.Unlock()
	time.AfterFunc(redirectLife, func() { _ = os.Remove(file) })
	if err := a.openURL(a.environ, (&url.URL{Scheme: "file", Path: file}).String()); err != nil {
		return fmt.Errorf("open the page in the browser: %w", err)
	}
	return nil
}

// removeRedirects removes at the end what is not removed yet.
func (a *App) removeRedirects() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, file := range a.redirects {
		_ = os.Remove(file)
	}
}

// writeRedirect writes a page, for this user's eyes only, that leads to address. The address itself must not be an argument of
// a command: every user of the machine can read those.
func writeRedirect(dir, address string) (string, error) {
	file, err := os.CreateTemp(dir, "signalbox-open-*.html") // 0600
	if err != nil {
		return "", err
	}
	err = errors.Join(redirectPage.Execute(file, address), file.Close())
	if err != nil {
		_ = os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}

// redirectDir is where the browser can read the page. A browser that is a snap sees no hidden folders, and the state folder is one.
func redirectDir(stateDir string) string {
	home, err := os.UserHomeDir()
	if err != nil {
		return stateDir
	}
	for _, snap := range []string{"firefox", "chromium"} {
		common := filepath.Join(home, "snap", snap, "common")
		if info, err := os.Stat(common); err == nil && info.IsDir() {
			return common
		}
	}
	return stateDir
}
