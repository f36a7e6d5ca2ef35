// Command demo is the desktop side with a backend that runs no model: for the desktop tests, and for looking at tray and window.
// It takes what the product takes: --hidden, SIGNALBOX_HOME, SIGNALBOX_HOST.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"signalbox/app"
	"signalbox/app/tray"
	"signalbox/internal/dirs"
	"signalbox/internal/instance"
)

func main() {
	hidden := flag.Bool("hidden", false, "start in the tray")
	flag.Parse()
	if err := run(*hidden); err != nil {
		log.Fatal(err)
	}
}

func run(hidden bool) error {
	d, err := dirs.Find()
	if err != nil {
		return err
	}
	lock, err := instance.Acquire(d.State)
	if errors.Is(err, instance.ErrRunning) {
		return show(d.State)
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	if there, reason := app.HasDisplay(); !there {
		return errors.New(reason)
	}
	b := &backend{changed: make(chan struct{}, 1), token: instance.NewToken()}
	a := app.New(app.Options{Title: "Signalbox demo", StateDir: d.State, Hidden: hidden, Changed: b.change, Log: slog.Default()})
	ui, err := b.serveUI(a.Desktop())
	if err != nil {
		return err
	}
	defer ui.Close()
	if err := b.StartServer(context.Background()); err != nil {
		log.Print(err) // shown in the tray
	}
	if err := lock.Publish(instance.Owner{UIURL: b.uiURL, Token: b.token, Version: "demo"}); err != nil {
		return err
	}
	defer b.StopServer(context.Background())
	return a.Run(context.Background(), b)
}

func show(stateDir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	owner, err := instance.Wait(ctx, stateDir)
	if err != nil {
		return err
	}
	_, err = owner.Post(ctx, "/desktop/show", nil)
	return err
}

type backend struct {
	changed chan struct{}
	token   string
	uiURL   string

	mu      sync.Mutex
	server  *http.Server  // guarded by mu; nil while stopped
	url     string        // guarded by mu
	failure string        // guarded by mu
	devices []tray.Device // guarded by mu
	code    string        // guarded by mu: lets one browser in
}

func (b *backend) Changed() <-chan struct{} { return b.changed }
func (b *backend) Done() <-chan struct{}    { return nil }

func (b *backend) change() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *backend) Status() tray.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := tray.Status{Title: "Signalbox demo", Devices: b.devices, Server: tray.Server{State: "stopped"}}
	switch {
	case b.server != nil:
		s.Server = tray.Server{State: "running", URL: b.url}
	case b.failure != "":
		s.Server = tray.Server{State: "failed", Error: b.failure}
	}
	return s
}

func (b *backend) StartServer(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.change()
	if b.server != nil {
		return nil
	}
	address := b.url
	if address == "" {
		address = os.Getenv("SIGNALBOX_HOST")
	} else {
		address = address[len("http://"):] // the port we had, as the product's is fixed
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		b.failure = err.Error()
		return err
	}
	b.url, b.failure = "http://"+l.Addr().String(), ""
	b.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "Ollama is running") })}
	go b.server.Serve(l)
	return nil
}

func (b *backend) StopServer(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.change()
	if b.server == nil {
		return nil
	}
	err := b.server.Close()
	b.server = nil
	return err
}

func (b *backend) OpenURL() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.code = instance.NewToken()
	return b.uiURL + "/ui/?code=" + b.code
}

// page shows enough to see that the window works: text, typing, and a link that goes to the desktop.
const page = `<!doctype html><html><head><meta charset="utf-8"><title>Signalbox demo</title></head>
<body style="background:#18181b;color:#e4e4e7;font:16px sans-serif;padding:2em"><h1>Signalbox demo</h1>
<input id="name" placeholder="type here"><button id="go">Greet</button><p id="out"></p>
<script>
for (const e of ['dragover','drop']) addEventListener(e, ev => ev.preventDefault());
document.getElementById('go').onclick = () => { document.getElementById('out').textContent = 'Hello ' + document.getElementById('name').value };
history.replaceState(null, '', '/ui/');
</script></body></html>`

func (b *backend) serveUI(desktop app.Desktop) (*http.Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	b.uiURL = "http://demo.localhost:" + port
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ui/", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		good := b.code != "" && r.URL.Query().Get("code") == b.code
		if good {
			b.code = ""
		}
		b.mu.Unlock()
		if !good {
			http.Error(w, "this address was used", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, page)
	})
	mux.HandleFunc("POST /desktop/show", b.guard(func(*http.Request) (any, error) { return nil, desktop.Show() }))
	mux.HandleFunc("POST /desktop/open", b.guard(func(r *http.Request) (any, error) {
		var body struct{ URL string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return nil, err
		}
		return nil, desktop.Open(body.URL)
	}))
	mux.HandleFunc("POST /demo/devices", b.guard(func(r *http.Request) (any, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		defer b.change()
		return nil, json.NewDecoder(r.Body).Decode(&b.devices)
	}))
	mux.HandleFunc("GET /ui/status", b.guard(func(*http.Request) (any, error) {
		return map[string]any{"desktop": desktop.Info()}, nil
	}))
	server := &http.Server{Handler: mux}
	go server.Serve(l)
	return server, nil
}

func (b *backend) guard(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+b.token {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		answer, err := do(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}
