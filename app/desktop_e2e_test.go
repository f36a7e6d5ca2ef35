//go:build desktop_e2e && linux

package app_test

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/build"
	"signalbox/build/test/desktop"
	"signalbox/internal/e2e"
	"signalbox/internal/instance"
)

// These tests run a real binary on a real desktop session: SIGNALBOX_BIN, or the demo with a backend that runs no model.
//
//	go test -tags desktop_e2e ./app
//	SIGNALBOX_BIN=$PWD/build/bin/signalbox go test -tags desktop_e2e ./app
//
// With SIGNALBOX_SHOTS=folder they leave pictures there.

var (
	bin    = os.Getenv("SIGNALBOX_BIN")
	isDemo = bin == ""
)

const windowTitle = "Signalbox"

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if !isDemo {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "signalbox-demo")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
		bin = filepath.Join(dir, "signalbox")
		cmd := exec.Command("go", "build", "-tags", "desktop,production,webkit2_41", "-o", bin, "./internal/demo")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Printf("%s: %v\n", out, err)
			return 1
		}
		return m.Run()
	}())
}

// hidden starts the program in the tray and waits until its server runs.
func hidden(t *testing.T, desk *desktop.Desktop) (*desktop.App, *desktop.Tray, string) {
	t.Helper()
	app := desk.Run(t, bin, "--hidden")
	icon := desk.Tray(t)
	return app, icon, serverAddress(t, icon)
}

// serverAddress is what the tray says the server listens at.
func serverAddress(t *testing.T, icon *desktop.Tray) string {
	t.Helper()
	return strings.TrimPrefix(icon.Wait(t, "Server: http://").Label, "Server: http://")
}

func listening(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// owner is how another process reaches the running one.
func owner(t *testing.T, desk *desktop.Desktop) instance.Owner {
	t.Helper()
	var found instance.Owner
	require.Eventually(t, func() (ok bool) {
		var err error
		found, err = instance.Find(desk.Home())
		return err == nil
	}, desktop.Patience, 20*time.Millisecond)
	return found
}

type info struct {
	Desktop struct {
		Window bool
		Tray   string
		Note   string
	}
}

func desktopInfo(t *testing.T, desk *desktop.Desktop) info {
	t.Helper()
	o := owner(t, desk)
	client, err := o.Client()
	require.NoError(t, err)
	resp, err := client.Get(o.UIURL + "/ui/status")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var got info
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
	return got
}

// trayIs waits until the program knows what the desktop does with its icon.
func trayIs(t *testing.T, desk *desktop.Desktop, state string) {
	t.Helper()
	require.Eventually(t, func() bool { return desktopInfo(t, desk).Desktop.Tray == state }, desktop.Patience, 20*time.Millisecond, "the tray is never %q", state)
}

func post(t *testing.T, desk *desktop.Desktop, path string, body any) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), desktop.Patience)
	defer cancel()
	_, err := owner(t, desk).Post(ctx, path, body)
	return err
}

func webkitProcesses(app *desktop.App) (names []string) {
	for _, p := range app.Processes() {
		if strings.Contains(p.Name, "WebKit") {
			names = append(names, p.Name)
		}
	}
	return names
}

// shot keeps a picture where SIGNALBOX_SHOTS asks for it.
func shot(t *testing.T, name string, take func(path string)) {
	if dir := os.Getenv("SIGNALBOX_SHOTS"); dir != "" {
		take(filepath.Join(dir, name+".png"))
	}
}

// memory is what all processes of the program take, in MiB.
func memory(app *desktop.App) (text string, rss, pss int) {
	var parts []string
	for _, p := range app.Processes() {
		parts = append(parts, fmt.Sprintf("%s %d/%d", p.Name, p.RSS, p.PSS))
		rss, pss = rss+p.RSS, pss+p.PSS
	}
	return fmt.Sprintf("%d MiB RSS, %d MiB PSS (%s)", rss, pss, strings.Join(parts, ", ")), rss, pss
}

func TestTrayMenuTellsTheState(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	_, icon, address := hidden(t, desk)
	labels := icon.Labels(t)
	require.GreaterOrEqual(t, len(labels), 6, "%q", labels)
	assert.True(t, strings.HasPrefix(labels[0], "(Signalbox "), "%q", labels[0])
	assert.Equal(t, "(Server: http://"+address+")", labels[1])
	assert.Equal(t, []string{"Open window", "Stop server", "-", "Quit"}, labels[len(labels)-4:])
	assert.True(t, strings.HasPrefix(icon.Property(t, "Id").(string), "Signalbox"))
	if isDemo { // the product may load a model at once
		assert.True(t, shows(t, icon, build.TrayRunning))
	}
	shot(t, "tray-icon", func(path string) {
		file, err := os.Create(path)
		require.NoError(t, err)
		defer file.Close()
		require.NoError(t, png.Encode(file, icon.Icon(t)))
	})
}

// shows reports whether a panel shows exactly that PNG.
func shows(t *testing.T, icon *desktop.Tray, data []byte) bool {
	t.Helper()
	want, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	return assert.ObjectsAreEqual(want, icon.Icon(t))
}

func TestTrayFollowsTheDevices(t *testing.T) {
	if !isDemo {
		t.Skip("the product's devices do what they do; the demo's do what the test says")
	}
	desk := desktop.Start(t, desktop.Options{})
	_, icon, _ := hidden(t, desk)
	require.NoError(t, post(t, desk, "/demo/devices", []map[string]any{
		{"Label": "NPU", "State": "busy", "Model": "smollm2:135m", "TokensPerSecond": 61.2, "Queued": 2},
		{"Label": "GPU", "State": "loading", "Model": "my_own_model", "Phase": "compiling for GPU"},
		{"Label": "CPU", "State": "idle"},
	}))
	icon.Wait(t, "CPU: idle")
	labels := icon.Labels(t)
	assert.Contains(t, labels, "(NPU: smollm2:135m, 61 tok/s, 2 waiting)")
	assert.Contains(t, labels, "(GPU: loading my_own_model, compiling for GPU)")
	require.Eventually(t, func() bool { return shows(t, icon, build.TrayBusy) }, desktop.Patience, 20*time.Millisecond)

	require.NoError(t, post(t, desk, "/demo/devices", []map[string]any{{"Label": "NPU", "State": "idle"}}))
	icon.Wait(t, "NPU: idle")
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(icon.Labels(t), func(l string) bool { return strings.Contains(l, "CPU") })
	}, desktop.Patience, 20*time.Millisecond)
}

func TestServerStopsAndStartsFromTheTray(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	app, icon, address := hidden(t, desk)
	require.True(t, listening(address))
	var ended chan string
	busy := 0 // MiB while it answers
	if !isDemo {
		ended = story(t, address)
		_, _, busy = memory(app)
	}

	icon.Click(t, "Stop server")
	assert.Eventually(t, func() bool { return !listening(address) }, desktop.Patience, 10*time.Millisecond, "the port stays open")
	icon.Wait(t, "Start server")
	icon.Wait(t, "Server stopped")
	if !isDemo {
		last := <-ended
		assert.Contains(t, last, `"error"`, "an open stream ends with an error line")
		assert.NotContains(t, last, `"done":true`)
		assert.Eventually(t, func() bool { _, _, now := memory(app); return now < busy-50 }, desktop.Patience, 200*time.Millisecond,
			"the model's memory is not free: %d MiB before", busy)
	} else {
		require.Eventually(t, func() bool { return shows(t, icon, build.TrayStopped) }, desktop.Patience, 20*time.Millisecond)
	}

	icon.Click(t, "Start server")
	icon.Wait(t, "Stop server")
	assert.True(t, listening(serverAddress(t, icon)))
}

// story opens a stream that goes on for long, and returns when its first line has come. The channel gets its last one.
func story(t *testing.T, address string) chan string {
	t.Helper()
	resp, err := http.Post("http://"+address+"/api/chat", "application/json", strings.NewReader(
		`{"model":"smollm2:135m","messages":[{"role":"user","content":"Write a very long story."}],"options":{"num_predict":4000,"temperature":0.8}}`))
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan(), "no line came")
	ended := make(chan string, 1)
	go func() {
		last := lines.Text()
		for lines.Scan() {
			last = lines.Text()
		}
		ended <- last
	}()
	return ended
}

func TestHiddenStartRunsNoWebKit(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	app, icon, _ := hidden(t, desk)
	assert.Empty(t, desk.Windows(t))
	assert.Empty(t, webkitProcesses(app))
	if !isDemo { // the child that looks for devices is soon gone
		require.Eventually(t, func() bool { return len(app.Processes()) == 1 }, 3*time.Minute, time.Second)
	}
	text, rss, _ := memory(app)
	t.Logf("hidden: %s", text)
	if !isDemo {
		// Resident memory, not the proportional share: that one falls when other programs use the same libraries.
		assert.Less(t, rss, 80_000_000>>20, "a hidden start takes 80 MB or more")
	}

	icon.Click(t, "Open window")
	desk.Window(t, windowTitle)
	require.Eventually(t, func() bool { return len(webkitProcesses(app)) >= 2 }, desktop.Patience, 50*time.Millisecond)
	text, _, _ = memory(app)
	t.Logf("with window: %s", text)
}

func TestProgramStartsWithoutGTK(t *testing.T) {
	program, err := elf.Open(bin)
	require.NoError(t, err)
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	require.NoError(t, err)
	symbols, err := program.ImportedSymbols()
	require.NoError(t, err)
	var calls []string
	for _, s := range symbols {
		if regexp.MustCompile(`^(g|gdk|gtk|jsc|soup|webkit)_`).MatchString(s.Name) {
			calls = append(calls, s.Name)
		}
	}
	assert.Empty(t, calls, "app/internal/gtk has no stub of these functions")
	assert.Equal(t, []string{"libc.so.6"}, libraries)
}

func TestSecondStartHandsOverAndExitsZero(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	app, _, address := hidden(t, desk)
	assert.Equal(t, app.Process.Pid, owner(t, desk).PID)

	second := desk.Run(t, bin)
	desk.Window(t, windowTitle)
	assert.Zero(t, second.ExitCode(t), second.Log())
	assert.Equal(t, 1, desk.Icons())
	assert.True(t, app.Running())
	assert.True(t, listening(address))
}

func TestClosingHidesWhereThereIsATray(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	app := desk.Run(t, bin)
	icon := desk.Tray(t)
	address := serverAddress(t, icon)
	window := desk.Window(t, windowTitle)
	assert.Equal(t, app.Process.Pid, window.PID)
	trayIs(t, desk, "shown")

	desk.Close(t, window)
	desk.NoWindow(t, windowTitle)
	assert.True(t, app.Running())
	assert.True(t, listening(address))

	icon.Activate(t) // a left click
	desk.Window(t, windowTitle)
	desk.Close(t, desk.Window(t, windowTitle))
	desk.NoWindow(t, windowTitle)
	require.NoError(t, post(t, desk, "/desktop/show", nil))
	desk.Window(t, windowTitle)

	icon.Click(t, "Quit")
	assert.Zero(t, app.ExitCode(t))
	desk.NoIcon(t)
	assert.False(t, listening(address))
	_, err := instance.Find(desk.Home())
	assert.ErrorIs(t, err, instance.ErrNotRunning)
}

func TestClosingQuitsWhereNothingShowsTheIcon(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{NoPanel: true})
	app := desk.Run(t, bin)
	window := desk.Window(t, windowTitle)
	trayIs(t, desk, "missing")
	got := desktopInfo(t, desk).Desktop
	assert.True(t, got.Window)
	assert.Equal(t, "Nothing shows tray icons on this desktop: closing the window quits Signalbox.", got.Note)
	desk.Close(t, window)
	assert.Zero(t, app.ExitCode(t))
}

func TestPanelMayComeLateAndCrash(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{NoPanel: true})
	app := desk.Run(t, bin)
	window := desk.Window(t, windowTitle)
	trayIs(t, desk, "missing")

	desk.StartPanel(t)
	icon := desk.Tray(t) // it registers by itself
	icon.Wait(t, "Open window")
	trayIs(t, desk, "shown")
	desk.Close(t, window)
	desk.NoWindow(t, windowTitle)
	require.True(t, app.Running())
	icon.Click(t, "Open window")
	window = desk.Window(t, windowTitle)

	desk.StopPanel(t)
	trayIs(t, desk, "missing")
	desk.Close(t, window)
	assert.Zero(t, app.ExitCode(t))
}

func TestHiddenStartWithoutAPanelShowsTheWindow(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{NoPanel: true})
	desk.Run(t, bin, "--hidden")
	desk.Window(t, windowTitle)
}

func TestWithoutASessionBusTheWindowWorks(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{NoBus: true})
	app := desk.Run(t, bin, "--hidden")
	window := desk.Window(t, windowTitle)
	trayIs(t, desk, "none")
	desk.Close(t, window)
	assert.Zero(t, app.ExitCode(t))
	assert.NotContains(t, app.Log(), "panic")
}

func TestSIGTERMEndsCleanly(t *testing.T) {
	for name, args := range map[string][]string{"hidden": {"--hidden"}, "with window": nil} {
		t.Run(name, func(t *testing.T) {
			desk := desktop.Start(t, desktop.Options{})
			app := desk.Run(t, bin, args...)
			address := serverAddress(t, desk.Tray(t))
			if args == nil {
				desk.Window(t, windowTitle)
			}
			require.NoError(t, app.Process.Signal(syscall.SIGTERM))
			assert.Zero(t, app.ExitCode(t), app.Log())
			assert.False(t, listening(address))
			desk.NoIcon(t)
			assert.NotContains(t, app.Log(), "panic")
			_, err := instance.Find(desk.Home())
			assert.ErrorIs(t, err, instance.ErrNotRunning)
		})
	}
}

func TestSIGTERMEndsAHiddenWindowToo(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	app := desk.Run(t, bin)
	desk.Tray(t)
	desk.Close(t, desk.Window(t, windowTitle))
	desk.NoWindow(t, windowTitle)
	require.NoError(t, app.Process.Signal(syscall.SIGTERM))
	assert.Zero(t, app.ExitCode(t))
}

func TestLogOutEndsTheHiddenProgram(t *testing.T) {
	bus := desktop.Start(t, desktop.Options{})
	screen := desktop.Start(t, desktop.Options{NoBus: true})
	app := bus.RunWith(t, []string{"DISPLAY=" + screen.Display}, bin, "--hidden")
	bus.Tray(t).Wait(t, "Stop server")
	screen.End(t)
	bus.End(t)
	assert.Zero(t, app.ExitCode(t), app.Log())
}

func TestWindowKeepsItsSize(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{NoPanel: true})
	app := desk.Run(t, bin)
	window := desk.Window(t, windowTitle)
	require.NotEqual(t, 900, window.Width)
	desk.Resize(t, window, 900, 620)
	require.Eventually(t, func() bool { return desk.Window(t, windowTitle).Width == 900 }, desktop.Patience, 50*time.Millisecond)
	desk.Close(t, window)
	require.Zero(t, app.ExitCode(t))

	desk.Run(t, bin)
	require.Eventually(t, func() bool { w := desk.Window(t, windowTitle); return w.Width == 900 && w.Height == 620 }, desktop.Patience, 50*time.Millisecond)
}

func TestWindowShowsThePageOfTheUIListener(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	page := desk.Wails(t, bin)
	page.Until(t, "return location.protocol === 'http:' && document.body.innerText.length > 10")
	shown, err := url.Parse(page.URL(t))
	require.NoError(t, err)
	ui, err := url.Parse(owner(t, desk).UIURL)
	require.NoError(t, err)
	assert.Equal(t, ui.Port(), shown.Port())
	assert.True(t, strings.HasSuffix(shown.Hostname(), ".localhost"), "a name of its own: cookies ignore ports")
	assert.Equal(t, "/ui/", shown.Path)
	assert.Empty(t, shown.RawQuery, "the code is gone from the address")
	if isDemo {
		page.Type(t, "#name", "signal man")
		page.Click(t, "#go")
		assert.Equal(t, "Hello signal man", page.Text(t, "#out"))
	}
	shot(t, "window", func(path string) { page.Screenshot(t, path) })
	// Quit through the tray: ending the driver's session would kill the program.
	desk.Tray(t).Click(t, "Quit")
	desk.NoIcon(t)
}

func TestLinksOpenInTheBrowserAndOthersDoNot(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	hidden(t, desk)
	require.NoError(t, post(t, desk, "/desktop/open", map[string]string{"url": "https://en.wikipedia.org/wiki/Signal_(railway)?a=b&c=(d)"}))
	for _, bad := range []string{"search-ms:query=x", "vscode://file/x", "file:///etc/passwd", "javascript:alert(1)", "--help"} {
		assert.Error(t, post(t, desk, "/desktop/open", map[string]string{"url": bad}), bad)
	}
	require.Eventually(t, func() bool { a, _ := desk.Opened(); return len(a) > 0 }, desktop.Patience, 20*time.Millisecond)
	addresses, _ := desk.Opened()
	assert.Equal(t, []string{"https://en.wikipedia.org/wiki/Signal_(railway)?a=b&c=(d)"}, addresses)
}

func TestWithoutAWindowThePageOpensInTheBrowser(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	// A display that answers HasDisplay's question and then refuses: GTK cannot start.
	app := desk.RunWith(t, []string{"GDK_BACKEND=wayland"}, bin)
	icon := desk.Tray(t)
	address := serverAddress(t, icon)
	require.Eventually(t, func() bool { _, page := desk.Opened(); return strings.Contains(page, "location.replace") }, desktop.Patience, 20*time.Millisecond)
	addresses, page := desk.Opened()
	require.Len(t, addresses, 1)
	assert.True(t, strings.HasPrefix(addresses[0], "file:///"), addresses[0])
	assert.NotContains(t, addresses[0], "code")
	assert.Contains(t, page, "code=")

	got := desktopInfo(t, desk).Desktop
	assert.False(t, got.Window)
	assert.Contains(t, got.Note, "browser")
	icon.Click(t, "Open window")
	require.Eventually(t, func() bool { a, _ := desk.Opened(); return len(a) == 2 }, desktop.Patience, 20*time.Millisecond)
	assert.True(t, listening(address))
	icon.Click(t, "Quit")
	assert.Zero(t, app.ExitCode(t))
	left, err := filepath.Glob(filepath.Join(desk.Home(), "signalbox-open-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestWithoutWebKitThePageOpensInTheBrowser(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	broken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(broken, "libwebkit2gtk-4.1.so.0"), nil, 0o600))
	app := desk.RunWith(t, []string{"LD_LIBRARY_PATH=" + broken}, bin)
	icon := desk.Tray(t)
	require.True(t, listening(serverAddress(t, icon)))
	require.Eventually(t, func() bool { a, _ := desk.Opened(); return len(a) == 1 }, desktop.Patience, 20*time.Millisecond)
	got := desktopInfo(t, desk).Desktop
	assert.False(t, got.Window)
	assert.Contains(t, got.Note, "load WebKitGTK, which draws the window: "+broken)
	assert.Contains(t, got.Note, "apt install libwebkit2gtk-4.1-0")
	icon.Click(t, "Quit")
	assert.Zero(t, app.ExitCode(t))
}

func TestKilledProgramStartsAgain(t *testing.T) {
	desk := desktop.Start(t, desktop.Options{})
	first, _, _ := hidden(t, desk)
	require.NoError(t, first.Process.Kill())
	first.ExitCode(t)
	desk.NoIcon(t)
	second, _, address := hidden(t, desk)
	assert.Equal(t, second.Process.Pid, owner(t, desk).PID)
	assert.True(t, listening(address))
	_, err := instance.Acquire(desk.Home())
	assert.True(t, errors.Is(err, instance.ErrRunning))
}

// TestChatInTheWindow is the whole product as a user has it: the real binary, its real window, the real engine.
func TestChatInTheWindow(t *testing.T) {
	if isDemo {
		t.Skip("the demo runs no model; SIGNALBOX_BIN names a program that does")
	}
	desk := desktop.Start(t, desktop.Options{})
	page := desk.Wails(t, bin)
	icon := desk.Tray(t)
	page.Until(t, `return /^Model: (?!No model|Loading)/.test(document.querySelector('[aria-label^="Model:"]')?.getAttribute('aria-label') ?? '')`)
	page.Type(t, "textarea", "What is the capital of France?\ue007")
	const badge = `article[aria-label="Answer"] .badge`
	page.Until(t, `return document.querySelector(arguments[0])?.innerText`, badge)
	assert.NotEmpty(t, strings.TrimSpace(page.Text(t, `article[aria-label="Answer"] .prose`)))
	assert.Contains(t, page.Text(t, badge), "PU", "the badge names the device")
	shot(t, "chat", func(path string) { page.Screenshot(t, path) })

	// The tray is drawn from the same status: the model stays loaded for a while.
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(icon.Labels(t), func(l string) bool { return strings.Contains(l, "is loaded)") })
	}, desktop.Patience, 50*time.Millisecond, "%q", icon.Labels(t))

	// Stopping the server leaves the window its chat.
	icon.Click(t, "Stop server")
	icon.Wait(t, "Server stopped")
	page.Type(t, "textarea", "And of Norway?\ue007")
	page.Until(t, `return document.querySelectorAll(arguments[0]).length === 2`, badge)
	icon.Click(t, "Quit")
	desk.NoIcon(t)
}

// TestHostileAnswerStaysInTheWindow is check 3 of the threat page with WebKitGTK, as it is in the window: an answer, as it comes and as
// it is stored, loads nothing from elsewhere, leads the window nowhere and runs nothing.
func TestHostileAnswerStaysInTheWindow(t *testing.T) {
	if isDemo {
		t.Skip("the demo shows no answers")
	}
	var mu sync.Mutex
	var came []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, r.URL.String()+" Cookie: "+r.Header.Get("Cookie"))
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}))
	t.Cleanup(other.Close)
	address := strings.TrimPrefix(other.URL, "http://")
	requests := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(came)
	}

	desk := desktop.Start(t, desktop.Options{})
	page := desk.Wails(t, bin)
	page.Until(t, `return /^Model: (?!No model|Loading)/.test(document.querySelector('[aria-label^="Model:"]')?.getAttribute('aria-label') ?? '')`)
	// The model says nothing of this kind, so the answer is put in its place: in pieces, as a server sends it.
	page.Eval(t, `
		const [text] = arguments, real = window.fetch;
		window.alert = window.confirm = window.prompt = () => { window.ran = true };
		window.fetch = (to, how) => {
			if (!String(to).endsWith('/api/chat')) return real(to, how);
			const line = (o) => new TextEncoder().encode(JSON.stringify({model: 'm', message: {role: 'assistant', content: ''}, done: false, ...o}) + '\n');
			return Promise.resolve(new Response(new ReadableStream({
				async start(out) {
					for (let i = 0; i < text.length; i += 40) {
						out.enqueue(line({message: {role: 'assistant', content: text.slice(i, i + 40)}}));
						await new Promise((go) => setTimeout(go, 1));
					}
					out.enqueue(line({done: true, done_reason: 'stop'}));
					out.close();
				}})));
		}`, e2e.HostileMarkdown(address)+"\n[go](http://"+address+"/clicked)")
	page.Type(t, "textarea", "hello\ue007")
	const shown = `return /THE END/.test(document.querySelector('article[aria-label="Answer"] .prose')?.innerText ?? '')
		&& document.querySelector('[aria-label="Send"], button[title^="Send"]') !== null`
	page.Until(t, shown)
	drawn := func() { // and a request of the page's own is answered: what the answer wanted to fetch has been sent before it
		page.Eval(t, `return new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame)).then(() => fetch('/ui/status')).then((r) => r.text())`)
	}
	drawn()
	assert.Empty(t, requests(), "as it came")
	first := page.URL(t)

	page.Eval(t, `location.reload()`)
	page.Until(t, shown)
	drawn()
	assert.Empty(t, requests(), "as it is stored")
	assert.Equal(t, first, page.URL(t))
	assert.Nil(t, page.Eval(t, `return window.ran ?? null`))

	page.Eval(t, `document.querySelectorAll('article[aria-label="Answer"] .prose a').forEach((a) => a.click())`)
	require.Eventually(t, func() bool { opened, _ := desk.Opened(); return len(opened) > 0 }, desktop.Patience, 20*time.Millisecond)
	drawn()
	assert.Equal(t, first, page.URL(t), "a link leads the window away")
	assert.Equal(t, 1.0, page.Eval(t, `return window.length + 1`), "a frame was opened")
	assert.Empty(t, requests(), "after the links")
	opened, _ := desk.Opened()
	for _, to := range opened {
		assert.True(t, strings.HasPrefix(to, "http://"+address+"/"), "%q was opened", to)
	}

	// A page of another server in the same window: it gets no session, and Signalbox's is still good afterwards.
	page.Go(t, other.URL+"/elsewhere")
	for _, seen := range requests() {
		assert.True(t, strings.HasSuffix(seen, " Cookie: "), seen)
	}
	require.NotEmpty(t, requests())
	page.Go(t, first)
	page.Until(t, shown)
	desk.Tray(t).Click(t, "Quit")
	desk.NoIcon(t)
}
