package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"signalbox/app"
	"signalbox/backend"
	"signalbox/backend/llm"
	"signalbox/internal/dirs"
	"signalbox/internal/disk"
	"signalbox/internal/instance"
	"signalbox/internal/logs"
	"signalbox/internal/version"
)

func (p Program) serveCommand() *cobra.Command {
	var engine string
	var properties map[string]string
	cmd := &cobra.Command{
		Use: "serve", Short: "Start the server, without a window", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if engine != "openvino" && engine != "fake" {
				return llm.Errorf(llm.CodeInvalid, "there is no engine %q: openvino and fake are known", engine)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), endings()...)
			defer stop()
			o := backend.Options{Fake: engine == "fake"}
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				o.Engine = append(o.Engine, "--property", name+"="+properties[name])
			}
			return p.serve(ctx, cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&engine, "engine", "openvino", "openvino, or fake: canned answers for client developers")
	// For tests: Wine has no AMX and needs INFERENCE_PRECISION_HINT=f32, and exact comparisons need exact numbers.
	cmd.Flags().StringToStringVar(&properties, "property", nil, "OpenVINO's own compile properties")
	_ = cmd.Flags().MarkHidden("property") // fails for a flag that is not there
	return cmd
}

// serve runs the server until ctx is done. It prints its address once it answers.
func (p Program) serve(ctx context.Context, out io.Writer, options backend.Options) error {
	o, err := p.own(os.Stderr)
	if err != nil {
		return err
	}
	defer o.close()
	options.Frontend = p.Assets
	b, err := o.open(options)
	if err != nil {
		return err
	}
	if err := b.StartServer(ctx); err != nil {
		return errors.Join(err, b.Close())
	}
	if err := o.publish(b); err != nil {
		return errors.Join(err, b.Close())
	}
	fmt.Fprintf(out, "Signalbox is listening on %s\n", b.Status().Server.URL)
	fmt.Fprintf(out, "The window in a browser: %s\n", b.OpenURL())
	return b.Run(ctx)
}

// desktop runs the whole app: window, tray and server. Where there is no display it is the server alone.
func (p Program) desktop(ctx context.Context, hidden bool) error {
	if there, reason := app.HasDisplay(); !there {
		fmt.Fprintf(os.Stderr, "No window: %s. The server runs alone.\n", reason)
		ctx, stop := signal.NotifyContext(ctx, endings()...)
		defer stop()
		return p.serve(ctx, os.Stdout, backend.Options{})
	}
	o, err := p.own(os.Stderr)
	if errors.Is(err, instance.ErrRunning) {
		return showRunning(ctx, os.Stdout)
	}
	if err != nil {
		return err
	}
	defer o.close()
	var b *backend.Backend
	a := app.New(app.Options{
		Title: "Signalbox " + version.Version, StateDir: o.dirs.State, Hidden: hidden, Log: o.log,
		Changed: func() { b.Wake() },
	})
	d := desktopSide{a.Desktop()}
	b, err = o.open(backend.Options{Frontend: p.Assets, Desktop: d, Info: d.info})
	if err != nil {
		return err
	}
	if err := b.StartServer(ctx); err != nil { // a sentence in window and tray, and no reason to end
		o.log.Error("the server does not listen", "error", err)
	}
	if err := o.publish(b); err != nil {
		return errors.Join(err, b.Close())
	}
	running, quit := context.WithCancel(ctx)
	defer quit()
	shown := newShown(b)
	ended := make(chan error, 1)
	go func() {
		defer close(shown.done)
		ended <- b.Run(running)
	}()
	err = a.Run(ctx, shown)
	quit()
	// Wails keeps the signals for itself from its first window on, so nobody could end a shutdown that hangs.
	time.AfterFunc(15*time.Second, func() {
		o.log.Error("the shutdown hangs: ending at once")
		os.Exit(1)
	})
	return errors.Join(err, <-ended)
}

// owner is this process as the one that owns the data folder.
type owner struct {
	dirs    dirs.Dirs
	lock    *instance.Lock
	token   string
	started time.Time
	unseen  atomic.Bool // others cannot find this process, and the log says so
	log     *slog.Logger
	logFile io.Closer
}

// own takes the lock, before anything else, and opens the log.
func (p Program) own(console io.Writer) (*owner, error) {
	d, err := dirs.Find()
	if err != nil {
		return nil, err
	}
	lock, err := instance.Acquire(d.State)
	if err != nil {
		return nil, err
	}
	if err := d.Make(); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	o := &owner{dirs: d, lock: lock, token: instance.NewToken(), started: time.Now()}
	o.log, o.logFile = logs.Open(d.Logs(), console)
	return o, nil
}

func (o *owner) close() {
	_ = o.lock.Release()
	_ = o.logFile.Close()
}

func (o *owner) open(options backend.Options) (b *backend.Backend, err error) {
	options.Dirs, options.Token, options.Log = o.dirs, o.token, o.log
	options.ServerChanged = func() {
		if err := o.publish(b); err != nil {
			o.log.Warn("tell the command line where the server is", "error", err)
		}
	}
	b, err = backend.New(options)
	return b, err
}

// publish tells the command line where this process listens.
func (o *owner) publish(b *backend.Backend) error {
	return o.tell(instance.Owner{
		UIURL: b.UIURL(), Token: o.token, APIURL: b.Status().Server.URL, Version: version.Version, Started: o.started,
	})
}

// tell publishes what is to be known. On a full disk that happens as soon as there is room, and the log says so once.
func (o *owner) tell(known instance.Owner) error {
	err := o.lock.Publish(known)
	full := disk.Full(err)
	if said := o.unseen.Swap(full); !full {
		return err
	} else if !said {
		o.log.Warn("the command line cannot find this Signalbox: the disk is full", "error", err)
	}
	return nil
}

// connectOrStart finds the running Signalbox, or is one itself until stop is called, and says so. After an error nothing runs, and
// stop is nil.
func (p Program) connectOrStart(ctx context.Context, info io.Writer) (c client, stop func(), err error) {
	c, err = connect()
	if err == nil {
		return c, func() {}, nil
	}
	if !errors.Is(err, errNoServer) {
		return client{}, nil, err
	}
	o, err := p.own(io.Discard)
	if err != nil {
		return client{}, nil, err
	}
	b, err := o.open(backend.Options{Frontend: p.Assets})
	if err != nil {
		o.close()
		return client{}, nil, err
	}
	if err := o.publish(b); err != nil {
		o.close()
		return client{}, nil, errors.Join(err, b.Close())
	}
	fmt.Fprintln(info, "No Signalbox is running: this command brings its own engine and ends it afterwards.")
	running, quit := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(running) }()
	stop = func() {
		quit()
		if err := <-ended; err != nil {
			printError(info, err)
		}
		o.close()
	}
	if c, err = connect(); err != nil {
		stop()
		return client{}, nil, err
	}
	return c, stop, nil
}
