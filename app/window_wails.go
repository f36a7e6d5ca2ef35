//go:build desktop

package app

import (
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/wailsapp/wails/v2"
	"github.com/wailsapp/wails/v2/pkg/logger"
	"github.com/wailsapp/wails/v2/pkg/options"
	"github.com/wailsapp/wails/v2/pkg/options/assetserver"
	"github.com/wailsapp/wails/v2/pkg/options/linux"
	"github.com/wailsapp/wails/v2/pkg/options/windows"
	"github.com/wailsapp/wails/v2/pkg/runtime"

	"signalbox/app/internal/gtk"
	"signalbox/build"
)

const hasWindow = true

// entryPage is the one page that Wails itself serves. It leads to the UI listener, so that the window is a client like any other: what
// Wails serves is not streamed on Windows. Wails needs the head and the body.
var entryPage = template.Must(template.New("entry").Parse(`<!doctype html><html><head><title>Signalbox</title></head>
<body style="background:#18181b"><script>location.replace({{.}})</script></body></html>
`))

// runWindow shows the window until it is closed for good. It may be called once in a process: Wails cannot start again.
func runWindow(o windowOptions) (err error) {
	defer func() {
		// Wails panics where GTK cannot start.
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	if goruntime.GOOS == "linux" && os.Getenv("WEBKIT_DISABLE_DMABUF_RENDERER") == "" {
		// Without this the window stays blank with some drivers (NVIDIA; KDE on Wayland).
		if err := os.Setenv("WEBKIT_DISABLE_DMABUF_RENDERER", "1"); err != nil {
			return err
		}
	}
	if err := gtk.Load(); err != nil {
		return err
	}
	state := options.Normal
	if o.size.Maximised {
		state = options.Maximised
	}
	return wails.Run(&options.App{
		Title: o.title, Width: o.size.Width, Height: o.size.Height, MinWidth: minWidth, MinHeight: minHeight,
		WindowStartState: state,
		BackgroundColour: options.NewRGB(0x18, 0x18, 0x1b), // until the page is there
		AssetServer: &assetserver.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" && r.URL.Path != "/index.html" {
				http.NotFound(w, r) // each answer uses up an address
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = entryPage.Execute(w, o.page())
		})},
		OnStartup: func(ctx context.Context) {
			// On Windows WebView2 tells drops to Wails' own pages alone: there nothing comes.
			runtime.OnFileDrop(ctx, func(_, _ int, paths []string) {
				if len(paths) > 0 {
					o.dropped(paths[0])
				}
			})
			o.started(wailsWindow{ctx})
		},
		DragAndDrop:   &options.DragAndDrop{EnableFileDrop: true},
		OnBeforeClose: func(ctx context.Context) bool { return o.closing(wailsWindow{ctx}) },
		Logger:        wailsLog{o.log},
		LogLevel:      logger.WARNING, LogLevelProduction: logger.WARNING,
		Linux: &linux.Options{Icon: build.AppIcon, ProgramName: "signalbox"},
		Windows: &windows.Options{
			WebviewUserDataPath: filepath.Join(o.dataDir, "webview"),
			DisablePinchZoom:    true,
		},
	})
}

// wailsWindow steers the window through Wails' context.
type wailsWindow struct{ ctx context.Context }

func (w wailsWindow) Show() {
	runtime.WindowShow(w.ctx)
	runtime.WindowUnminimise(w.ctx) // on Linux this is what raises it
}

func (w wailsWindow) Hide() { runtime.WindowHide(w.ctx) }
func (w wailsWindow) Quit() { runtime.Quit(w.ctx) }

func (w wailsWindow) Size() geometry {
	width, height := runtime.WindowGetSize(w.ctx)
	return geometry{Width: width, Height: height, Maximised: runtime.WindowIsMaximised(w.ctx)}
}

func (w wailsWindow) Folder(title string) (string, error) {
	return runtime.OpenDirectoryDialog(w.ctx, runtime.OpenDialogOptions{Title: title, CanCreateDirectories: true})
}

// Notify shows a notice of the desktop. Where there is no notification service, there is no notice.
func (w wailsWindow) Notify(title, text string) {
	if runtime.InitializeNotifications(w.ctx) != nil {
		return
	}
	_ = runtime.SendNotification(w.ctx, runtime.NotificationOptions{ID: "signalbox", Title: title, Body: text})
}

// wailsLog sends what Wails has to say to our log.
type wailsLog struct{ log *slog.Logger }

func (l wailsLog) Print(message string)   { l.log.Info("wails: " + strings.TrimSpace(message)) }
func (l wailsLog) Trace(message string)   { l.log.Debug("wails: " + strings.TrimSpace(message)) }
func (l wailsLog) Debug(message string)   { l.log.Debug("wails: " + strings.TrimSpace(message)) }
func (l wailsLog) Info(message string)    { l.log.Info("wails: " + strings.TrimSpace(message)) }
func (l wailsLog) Warning(message string) { l.log.Warn("wails: " + strings.TrimSpace(message)) }
func (l wailsLog) Error(message string)   { l.log.Error("wails: " + strings.TrimSpace(message)) }
func (l wailsLog) Fatal(message string)   { l.log.Error("wails: " + strings.TrimSpace(message)) }
