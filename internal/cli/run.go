package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"signalbox/backend/llm"
)

func (p Program) runCommand() *cobra.Command {
	var device, keepAlive, system string
	var verbose bool
	cmd := &cobra.Command{
		Use: "run MODEL [PROMPT]", Short: "Chat with a model, or answer one prompt",
		Long: "Chat with a model. With a PROMPT, or text on standard input, it answers once.\n\n" +
			"Ctrl-C stops an answer, not the program; /bye or Ctrl-D ends it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needModel(args); err != nil {
				return err
			}
			c, stop, err := p.connectOrStart(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer stop()
			chat := &conversation{client: c, model: args[0], device: device, keepAlive: keepAlive, verbose: verbose,
				out: cmd.OutOrStdout(), info: cmd.ErrOrStderr()}
			if system != "" {
				chat.messages = append(chat.messages, message{Role: "system", Content: system})
			}
			prompt, err := onePrompt(args[1:], os.Stdin)
			if err != nil {
				return err
			}
			if prompt != "" {
				err := chat.ask(cmd.Context(), prompt)
				if errors.Is(err, errStopped) {
					return exitError{130} // as the shell says it of a program ended by Ctrl-C
				}
				return err
			}
			if !term.IsTerminal(int(os.Stdin.Fd())) {
				return llm.Errorf(llm.CodeInvalid, "nothing to answer: give a prompt after the model's name or on standard input")
			}
			return chat.talk(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&device, "device", "", "run on this device only: npu, gpu or cpu")
	cmd.Flags().StringVar(&keepAlive, "keepalive", "", "how long the model stays loaded, such as 10m; -1: for ever")
	cmd.Flags().StringVar(&system, "system", "", "the system message")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "print device, reason and speed after each answer")
	return cmd
}

// onePrompt is the prompt of a single question: the arguments, and before them what was piped in.
func onePrompt(args []string, stdin *os.File) (string, error) {
	prompt := strings.Join(args, " ")
	if term.IsTerminal(int(stdin.Fd())) {
		return prompt, nil
	}
	if info, err := stdin.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
		return prompt, nil // /dev/null and the like
	}
	piped, err := io.ReadAll(stdin)
	if err != nil {
		return "", fmt.Errorf("read the prompt from standard input: %w", err)
	}
	return strings.TrimSpace(string(piped) + "\n" + prompt), nil
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// conversation is one chat on the command line.
type conversation struct {
	client    client
	model     string
	device    string
	keepAlive string
	verbose   bool
	messages  []message
	out, info io.Writer
}

// chatLine is one line of /api/chat's stream.
type chatLine struct {
	Message message     `json:"message"`
	Done    bool        `json:"done"`
	Record  *llm.Record `json:"llmeu"`
	Error   string      `json:"error"`
}

// ask sends the conversation with one more turn and prints the answer as it comes. A Ctrl-C stops the answer: what came
// until then stays in the conversation, and ask returns errStopped.
func (c *conversation) ask(ctx context.Context, prompt string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	c.messages = append(c.messages, message{"user", prompt})
	options := map[string]any{}
	if c.device != "" {
		options["device"] = c.device
	}
	request := map[string]any{"model": c.model, "messages": c.messages, "options": options}
	if c.keepAlive != "" {
		request["keep_alive"] = c.keepAlive
		if _, err := strconv.ParseFloat(c.keepAlive, 64); err == nil { // seconds, or -1 for ever
			request["keep_alive"] = json.Number(c.keepAlive)
		}
	}
	body, err := c.client.do(ctx, "POST", "/api/chat", request)
	if err != nil {
		c.messages = c.messages[:len(c.messages)-1]
		return stopped(ctx, err)
	}
	defer body.Close()
	var answer strings.Builder
	record, err := c.print(body, &answer)
	c.messages = append(c.messages, message{"assistant", answer.String()})
	fmt.Fprintln(c.out)
	if err != nil {
		return stopped(ctx, err)
	}
	if c.verbose && record != nil {
		c.summary(record)
	}
	return nil
}

var errStopped = errors.New("the answer was stopped")

func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errStopped
	}
	return err
}

func (c *conversation) print(body io.Reader, answer *strings.Builder) (*llm.Record, error) {
	lines := bufio.NewReader(body)
	for {
		text, err := lines.ReadBytes('\n')
		if len(text) > 0 {
			var line chatLine
			if err := json.Unmarshal(text, &line); err != nil {
				return nil, fmt.Errorf("read the answer: %w", err)
			}
			if line.Error != "" {
				return nil, errors.New(line.Error)
			}
			answer.WriteString(line.Message.Content)
			fmt.Fprint(c.out, printable(line.Message.Content))
			if line.Done {
				return line.Record, nil
			}
		}
		if err == io.EOF {
			return nil, errors.New("the answer ended before its last line")
		}
		if err != nil {
			return nil, err
		}
	}
}

func (c *conversation) summary(r *llm.Record) {
	fmt.Fprintf(c.info, "\n%s: %s\n", r.ExecutionDevice, r.RouteReason)
	if r.PromptTokens != nil && r.CompletionTokens != nil {
		fmt.Fprintf(c.info, "%d prompt tokens, %d answer tokens", *r.PromptTokens, *r.CompletionTokens)
	}
	if r.TokensPerSecond != nil {
		fmt.Fprintf(c.info, ", %.1f tokens/s", *r.TokensPerSecond)
	}
	if r.TTFTMS != nil {
		fmt.Fprintf(c.info, ", first token after %s", (time.Duration(*r.TTFTMS) * time.Millisecond).Round(time.Millisecond))
	}
	fmt.Fprintln(c.info)
}

// talk is the interactive chat.
func (c *conversation) talk(ctx context.Context) error {
	fmt.Fprintf(c.info, "Chat with %s. /? for help, /bye to end.\n", printable(c.model))
	for {
		line, err := readLine(">>> ")
		if err == io.EOF {
			fmt.Fprintln(c.info)
			return nil
		}
		if err != nil {
			return err
		}
		switch line = strings.TrimSpace(line); {
		case line == "":
		case line == "/bye" || line == "/exit":
			return nil
		case line == "/clear":
			c.messages = nil
			fmt.Fprintln(c.info, "The conversation is cleared.")
		case line == "/?" || line == "/help":
			fmt.Fprintln(c.info, "/clear   begin anew\n/bye     end\nCtrl-C   stop an answer\n\"\"\"      begin and end a message of several lines")
		case strings.HasPrefix(line, "/"):
			fmt.Fprintf(c.info, "There is no command %s; /? lists them.\n", printable(line))
		default:
			if err := c.question(ctx, line); err != nil {
				return err
			}
		}
	}
}

// question takes the rest of a """ message and asks. What goes wrong with one question does not end the chat.
func (c *conversation) question(ctx context.Context, line string) error {
	if rest, multi := strings.CutPrefix(line, `"""`); multi {
		text, ended := strings.CutSuffix(rest, `"""`)
		for !ended {
			next, err := readLine("... ")
			if err != nil {
				return err
			}
			next, ended = strings.CutSuffix(next, `"""`)
			text += "\n" + next
		}
		line = strings.TrimSpace(text)
	}
	if err := c.ask(ctx, line); err != nil && !errors.Is(err, errStopped) {
		printError(c.info, err)
	}
	return nil
}

var (
	history *term.Terminal // keeps the lines typed so far, for arrow up
	typed   []byte         // keys that came after the line that was asked for: text pasted at once
)

// readLine reads one line with editing. The terminal is raw only while it reads, so that Ctrl-C during an answer is a
// signal. Ctrl-C at the prompt gives an empty line, Ctrl-D io.EOF.
func readLine(prompt string) (string, error) {
	fd := int(os.Stdin.Fd())
	old, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(fd, old) }()
	if history == nil {
		history = term.NewTerminal(nil, "")
	}
	keys := &keyboard{}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, os.Stdout}, prompt)
	t.History = history.History
	if width, height, err := term.GetSize(fd); err == nil && width > 0 && height > 0 { // a serial line knows no size
		_ = t.SetSize(width, height)
	}
	line, err := t.ReadLine()
	if keys.interrupted {
		fmt.Fprint(os.Stdout, "\r\n")
		return "", nil
	}
	return line, err
}

// keyboard gives the keys of one line and leaves what comes after it in typed: a term.Terminal is for one line here, and would
// keep the rest to itself.
type keyboard struct{ interrupted bool }

const ctrlC = 3

func (k *keyboard) Read(b []byte) (int, error) {
	if len(typed) == 0 {
		buffer := make([]byte, 4096)
		n, err := os.Stdin.Read(buffer)
		if err != nil {
			return 0, err
		}
		typed = buffer[:n]
	}
	end := bytes.IndexAny(typed, "\r\n\x03")
	n := copy(b, typed[:cmp.Or(end+1, len(typed))])
	typed = typed[n:]
	if b[n-1] == ctrlC {
		k.interrupted = true
		return 0, io.EOF
	}
	return n, nil
}
