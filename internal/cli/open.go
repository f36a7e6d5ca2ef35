package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"signalbox/internal/dirs"
	"signalbox/internal/instance"
)

func openCommand() *cobra.Command {
	return &cobra.Command{
		Use: "open", Short: "Show the window of the running Signalbox, or print the page's address", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showRunning(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

// showRunning brings the window of the running Signalbox to the front. One that runs without a window gives a fresh address
// of its page.
func showRunning(ctx context.Context, out io.Writer) error {
	d, err := dirs.Find()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	owner, err := instance.Wait(ctx, d.State)
	if err != nil {
		return err
	}
	if _, noWindow := owner.Post(ctx, "/desktop/show", nil); noWindow == nil {
		fmt.Fprintf(out, "Signalbox runs already (%s): its window is shown.\n", owner)
		return nil
	}
	answer, err := owner.Post(ctx, "/ui/link", nil)
	if err != nil {
		return err
	}
	var link struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(answer, &link); err != nil {
		return fmt.Errorf("read the page's address: %w", err)
	}
	fmt.Fprintf(out, "Signalbox runs (%s) without a window. Within 30 seconds, open this in a browser:\n%s\n", owner, link.URL)
	return nil
}
