package cli

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"signalbox/backend/llm"
)

// connectable is a client program as the server describes it.
type connectable struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Kind     string     `json:"kind"`
	Note     string     `json:"note"`
	LastSeen *time.Time `json:"last_seen"`
	Steps    []struct {
		Title string `json:"title"`
		File  string `json:"file"`
		Text  string `json:"text"`
	} `json:"steps"`
}

func connectCommand() *cobra.Command {
	var model string
	cmd := &cobra.Command{
		Use: "connect [CLIENT]", Short: "Print the settings that point a client here", Args: cobra.MaximumNArgs(1),
		Long: "Print the exact settings for a client, with the real port and model. Without a CLIENT it lists those it knows, and when\n" +
			"each was last seen.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			var answer struct {
				URL     string        `json:"url"`
				Running bool          `json:"running"`
				Clients []connectable `json:"clients"`
			}
			if err := c.get(cmd.Context(), "GET", "/ui/connect?model="+url.QueryEscape(model), nil, &answer); err != nil {
				return err
			}
			if !answer.Running {
				fmt.Fprintf(cmd.ErrOrStderr(), "The server is stopped: clients find it at %s once it runs.\n", answer.URL)
			}
			if len(args) == 0 {
				return listClients(cmd.OutOrStdout(), answer.Clients)
			}
			i := slices.IndexFunc(answer.Clients, func(c connectable) bool { return c.ID == strings.ToLower(args[0]) })
			if i < 0 {
				return unknownClient(args[0], answer.Clients)
			}
			return printClient(cmd.OutOrStdout(), answer.Clients[i])
		},
	}
	cmd.Flags().StringVar(&model, "model", "", "the model to use: by default the one for new chats")
	return cmd
}

// unknownClient names those that may be meant: "claude-code" is Claude Code, whose id is claude.
func unknownClient(asked string, clients []connectable) error {
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				return unicode.ToLower(r)
			}
			return -1
		}, s)
	}
	var near []string
	for _, c := range clients {
		if want := plain(asked); want != "" && (strings.Contains(plain(c.Name), want) || strings.Contains(want, plain(c.ID))) {
			near = append(near, c.ID)
		}
	}
	if len(near) > 0 {
		return llm.Errorf(llm.CodeInvalid, "no client is called %q; there is %s", asked, strings.Join(near, ", "))
	}
	return llm.Errorf(llm.CodeInvalid, "no client is called %q; `signalbox connect` lists those that are known", asked)
}

func listClients(out io.Writer, clients []connectable) error {
	rows := [][]string{{"CLIENT", "NAME", "KIND", "LAST SEEN"}}
	for _, c := range clients {
		last := "-"
		if c.LastSeen != nil {
			last = humanize.Time(*c.LastSeen)
		}
		rows = append(rows, []string{c.ID, c.Name, c.Kind, last})
	}
	return table(out, rows)
}

// printClient writes the settings so that they can be copied as they are: titles are comments.
func printClient(out io.Writer, c connectable) error {
	var b strings.Builder
	for i, step := range c.Steps {
		if i > 0 {
			b.WriteString("\n")
		}
		title := step.Title
		if step.File != "" {
			title += ": " + step.File
		}
		fmt.Fprintf(&b, "# %s\n%s\n", title, strings.TrimRight(step.Text, "\n"))
	}
	if c.Note != "" {
		fmt.Fprintf(&b, "\n# %s\n", c.Note)
	}
	_, err := io.WriteString(out, printable(b.String()))
	return err
}
