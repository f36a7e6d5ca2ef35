package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"signalbox/backend/server"
)

func loginCommand() *cobra.Command {
	return &cobra.Command{
		Use: "login", Short: "Keep a token of the model hub, for gated and private models", Args: cobra.NoArgs,
		Long: "Asks for a token of the hub that models come from, or reads it from standard input, and keeps it in the system's\n" +
			"keyring. It is sent to that hub alone. (No argument takes it: other programs could read it there.)",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			var source server.Source
			if err := c.get(cmd.Context(), "GET", "/ui/hub", nil, &source); err != nil {
				return err
			}
			token, err := readToken(cmd.InOrStdin(), cmd.ErrOrStderr(), source.Endpoint)
			if err != nil {
				return err
			}
			var done server.Login
			if err := c.get(cmd.Context(), "PUT", "/ui/hub/token", map[string]any{"token": token}, &done); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), printable(loggedIn(source.Endpoint, done)))
			return err
		},
	}
}

func loggedIn(endpoint string, done server.Login) string {
	text := "The token for " + endpoint
	if done.Account != "" {
		text += " belongs to " + done.Account + " and"
	}
	text += map[string]string{
		"keyring": " is in the system's keyring.", "file": " is in a file that only you can read: this system has no keyring.",
		"environment": " was kept, but HF_TOKEN in the environment comes before it.",
	}[done.Kept]
	if done.Unchecked != "" {
		text += " It could not be checked: " + done.Unchecked + "."
	}
	return text
}

// readToken reads one line, without showing it at a terminal.
func readToken(in io.Reader, prompt io.Writer, endpoint string) (string, error) {
	text := ""
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(prompt, "Token for %s (%s/settings/tokens): ", printable(endpoint), printable(endpoint))
		line, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(prompt)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		text = string(line)
	} else {
		line, err := bufio.NewReader(io.LimitReader(in, 8192)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the token: %w", err)
		}
		text = line
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", errors.New("no token was given; `signalbox logout` forgets one")
	}
	return text, nil
}

func logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the token of the model hub", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			var done server.Login
			if err := c.get(cmd.Context(), "PUT", "/ui/hub/token", map[string]any{"token": ""}, &done); err != nil {
				return err
			}
			text := "The token is forgotten."
			if done.Kept == "environment" {
				text = "The kept token is forgotten. HF_TOKEN in the environment still counts."
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
}
