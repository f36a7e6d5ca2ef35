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
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"signalbox/backend/llm"
	"signalbox/backend/models"
)

func pullCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pull MODEL", Short: "Download a model, or go on with a download",
		Long: "Downloads a model by its short name (qwen3:8b), or by its name on the hub (OpenVINO/Qwen3-8B-int4-cw-ov, with\n" +
			"@revision). A download that was interrupted goes on where it stopped.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return llm.Errorf(llm.CodeInvalid, "name a model; `signalbox search` finds some")
			}
			c, err := connect()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			_, err = c.follow(ctx, "POST", "/api/pull", map[string]any{"model": args[0]}, newBars(cmd.ErrOrStderr()))
			if errors.Is(err, context.Canceled) {
				fmt.Fprintln(cmd.ErrOrStderr(), "Stopped. The same command goes on from here.")
				return exitError{130}
			}
			if err != nil {
				return err
			}
			return c.tellNPU(ctx, args[0], cmd.ErrOrStderr())
		},
	}
}

// tellNPU says whether NPUs run what was pulled: that is what most people want to know of it.
func (c client) tellNPU(ctx context.Context, model string, w io.Writer) error {
	var m struct {
		NPU models.Fitness `json:"npu"`
	}
	if c.get(ctx, "POST", "/api/show", map[string]any{"model": model}, &m) != nil || m.NPU.Reason == "" {
		return nil //nolint:nilerr // it is here, which is what was asked for; a name with @revision is none to show
	}
	verb := "do not run"
	if m.NPU.OK {
		verb = "run"
	}
	_, err := fmt.Fprintf(w, "NPUs %s it: %s\n", verb, printable(m.NPU.Reason))
	return err
}

// frame is a line of a long answer.
type frame struct {
	Status    string `json:"status"`
	Digest    string `json:"digest"`
	Total     int64  `json:"total"`
	Completed int64  `json:"completed"`
	Error     string `json:"error"`
	Model     string `json:"model"`
	models.Verified
}

// follow sends a request, shows the lines of its answer, and returns the last.
func (c client) follow(ctx context.Context, method, path string, body any, show *bars) (last frame, err error) {
	answer, err := c.do(ctx, method, path, body)
	if err != nil {
		return last, err
	}
	defer answer.Close()
	defer show.done()
	lines := bufio.NewScanner(answer)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = frame{}
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			return last, fmt.Errorf("%s %s: read the answer: %w", method, path, err)
		}
		if last.Error != "" {
			return last, errors.New(last.Error)
		}
		show.show(last)
	}
	if err := lines.Err(); err != nil {
		if ctx.Err() != nil {
			return last, ctx.Err()
		}
		return last, fmt.Errorf("%s %s: the answer broke off: %w", method, path, err)
	}
	if last.Status != "success" {
		return last, fmt.Errorf("%s %s: the answer ended too early", method, path)
	}
	return last, nil
}

// bars shows progress: a line that is drawn again at a terminal, and lines for what ends in a pipe or a file.
type bars struct {
	w        io.Writer
	width    int // of the terminal; 0: it is none
	step     string
	began    time.Time
	from     int64
	drawn    bool
	reported map[string]bool
}

func newBars(w io.Writer) *bars {
	b := &bars{w: w, reported: map[string]bool{}}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		b.width = 80
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			b.width = width
		}
	}
	return b
}

func (b *bars) show(f frame) {
	if f.Total <= 0 {
		b.say(f.Status)
		return
	}
	if f.Status != b.step {
		b.step, b.began, b.from = f.Status, time.Now(), f.Completed
	}
	if b.width == 0 {
		b.report(f)
		return
	}
	b.clear()
	fmt.Fprint(b.w, b.line(f))
	if b.drawn = f.Completed < f.Total; !b.drawn {
		fmt.Fprintln(b.w)
	}
}

// longPull is from how many bytes on a log gets a line for each tenth, so that it shows that something moves.
const longPull = 50 << 20

// report writes what a log is to keep: that a file has come, and of a large one how far it is.
func (b *bars) report(f frame) {
	line := fmt.Sprintf("%s: %s", f.Status, size(f.Total))
	switch tenth := f.Completed * 10 / f.Total; {
	case f.Completed == f.Total:
	case f.Total >= longPull && tenth > 0:
		line = fmt.Sprintf("%s: %d%% of %s", f.Status, tenth*10, size(f.Total))
	default:
		return
	}
	if !b.reported[line] {
		b.reported[line] = true
		fmt.Fprintln(b.w, printable(line))
	}
}

// line fits into the terminal: a longer one would scroll with each drawing.
func (b *bars) line(f frame) string {
	percent := int(f.Completed * 100 / f.Total)
	text := fmt.Sprintf("%-36.36s %3d%%", printable(f.Status), percent)
	right := fmt.Sprintf(" %s/%s", humanize.Bytes(uint64(max(0, f.Completed))), humanize.Bytes(uint64(f.Total)))
	if took := time.Since(b.began).Seconds(); took > 0.5 && f.Completed > b.from {
		rate := float64(f.Completed-b.from) / took
		right += fmt.Sprintf(" %s/s %s", humanize.Bytes(uint64(rate)), time.Duration(float64(f.Total-f.Completed)/rate*float64(time.Second)).Round(time.Second))
	}
	if room := b.width - 1 - len(text) - len(right) - 3; room >= 5 {
		full := room * percent / 100
		text += " [" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "]"
	}
	return text + right[:max(0, min(len(right), b.width-1-len(text)))]
}

func (b *bars) say(status string) {
	b.clear()
	if !b.reported[status] {
		b.reported[status] = true
		fmt.Fprintln(b.w, printable(status))
	}
}

func (b *bars) clear() {
	if b.width > 0 {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
	b.drawn = false
}

// done leaves the cursor at the beginning of a line.
func (b *bars) done() {
	if b.drawn {
		fmt.Fprintln(b.w)
	}
}
