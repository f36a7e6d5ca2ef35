package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"signalbox/backend/server"
)

func compileCommand() *cobra.Command {
	var device string
	cmd := &cobra.Command{
		Use: "compile MODEL", Short: "Compile a model for a device, ahead of its first request", Args: cobra.MaximumNArgs(1),
		Long: "An NPU compiles a model before it runs it for the first time, for a minute or more. compile does that now, in a process of\n" +
			"its own: requests go on meanwhile. What comes out is kept until the model, the driver or the runtime changes.\n" +
			"Ctrl-C ends it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needModel(args); err != nil {
				return err
			}
			c, err := connect()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			err = c.compile(ctx, args[0], device, cmd.OutOrStdout(), newBars(cmd.ErrOrStderr()))
			if errors.Is(err, context.Canceled) {
				fmt.Fprintln(cmd.ErrOrStderr(), "Stopped. Nothing was kept.")
				return exitError{130}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&device, "device", "npu", "npu, gpu, gpu:1 or cpu")
	return cmd
}

// going shows a step without a measure and how long it has taken: in a log each step is a line.
func (b *bars) going(step string, took time.Duration) {
	if b.width == 0 {
		b.say(step)
		return
	}
	b.clear()
	line := []rune(fmt.Sprintf("%s, %s", printable(step), took))
	fmt.Fprint(b.w, string(line[:min(len(line), b.width-1)]))
	b.drawn = true
}

// compile has a model compiled, and shows each phase and how long it has been going on.
func (c client) compile(ctx context.Context, model, device string, out io.Writer, show *bars) error {
	answer, err := c.do(ctx, "POST", "/ui/compile", map[string]any{"model": model, "device": device})
	if err != nil {
		return err
	}
	defer answer.Close()
	defer show.done()
	for lines := bufio.NewScanner(answer); lines.Scan(); {
		var line struct {
			server.Compiling
			Kept  server.CompiledModel `json:"kept"`
			Error string               `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("read how far the compiling is: %w", err)
		}
		took := time.Duration(line.ElapsedS * float64(time.Second)).Round(time.Second)
		switch {
		case line.Error != "":
			return errors.New(line.Error)
		case line.Status != "success":
			show.going(line.Status, took)
			continue
		}
		show.done()
		if line.Kept.Bytes == 0 {
			_, err = fmt.Fprintf(out, "%s runs on the %s. Nothing was kept: it is compiled there at each load.\n", printable(line.Kept.Model), line.Kept.Label)
			return err
		}
		_, err = fmt.Fprintf(out, "%s is compiled for the %s: %s are kept.\n", printable(line.Kept.Model), line.Kept.Label, humanize.Bytes(uint64(line.Kept.Bytes)))
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("compile " + model + ": the answer ended too early; the log of Signalbox may tell why")
}
