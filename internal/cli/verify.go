package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"signalbox/backend/downloads"
	"signalbox/backend/models"
)

func verifyCommand() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use: "verify MODEL...", Short: "Read a model's files and compare them with how they came",
		Long: "Reads all files of a model and compares them with the hashes that they came with. With --repair, what is missing\n" +
			"or damaged is fetched again, and nothing else. The exit code is 1 when a model is damaged.",
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
			damaged := false
			for _, model := range args {
				found, err := c.verify(ctx, model, cmd.ErrOrStderr())
				if err == nil && !found.OK() && repair {
					if err = c.repair(ctx, model, cmd.ErrOrStderr()); err == nil {
						found, err = c.verify(ctx, model, cmd.ErrOrStderr())
					}
				}
				if err != nil {
					return err
				}
				damaged = damaged || !found.OK()
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", printable(model), printable(verdict(found))); err != nil {
					return err
				}
			}
			if damaged {
				return exitError{1}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "fetch again what is missing or damaged")
	return cmd
}

// verdict is what was found, in one line.
func verdict(v models.Verified) string {
	switch {
	case len(v.Wrong) > 0 && v.Source != "":
		return fmt.Sprintf("damaged: %s; `signalbox verify --repair` fetches it again from %s", strings.Join(v.Wrong, ", "), v.Source)
	case len(v.Wrong) > 0:
		return "damaged: " + strings.Join(v.Wrong, ", ")
	case v.Problem != "":
		return v.Problem
	case !v.Recorded:
		return fmt.Sprintf("%d files can be read; how they came was not recorded, so there is nothing to compare them with", v.Files)
	}
	return fmt.Sprintf("%d files are as they came", v.Files)
}

func (c client) verify(ctx context.Context, model string, w io.Writer) (models.Verified, error) {
	last, err := c.follow(ctx, "POST", "/ui/models/verify", map[string]any{"model": model}, newBars(w))
	return last.Verified, err
}

// repair waits for the download that repairs a model. Leaving it does not stop it.
func (c client) repair(ctx context.Context, model string, w io.Writer) error {
	var d downloads.Download
	if err := c.get(ctx, "POST", "/ui/models/repair", map[string]any{"model": model}, &d); err != nil {
		return err
	}
	show := newBars(w)
	defer show.done()
	for {
		list, err := c.downloads(ctx)
		if err != nil {
			return err
		}
		for _, other := range list {
			if other.ID != d.ID {
				continue
			}
			show.show(frame{Status: "repairing " + other.Model, Total: other.Total, Completed: other.Completed})
			switch other.State {
			case downloads.Done:
				return nil
			case downloads.Failed:
				return errors.New(other.Error)
			case downloads.Paused:
				return fmt.Errorf("the repair of %s was paused; `signalbox downloads resume` goes on", model)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use: "restore MODEL", Short: "Bring back a model that was deleted since Signalbox was started", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name a model; `signalbox df` lists what was deleted and can come back")
			}
			c, err := connect()
			if err != nil {
				return err
			}
			answer, err := c.do(cmd.Context(), "POST", "/ui/models/restore", map[string]any{"model": args[0]})
			if err != nil {
				return err
			}
			answer.Close()
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored '%s'\n", printable(args[0]))
			return err
		},
	}
}
