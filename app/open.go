package app

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// Open opens a link of the page with the user's program for it. Only web and mail addresses pass: others, such as vscode:
// or search-ms:, start programs that take orders from a link.
func (a *App) Open(address string) error {
	checked, err := checkLink(address)
	if err != nil {
		return err
	}
	if err := a.openURL(a.environ, checked); err != nil {
		return fmt.Errorf("open %s: %w", checked, err)
	}
	return nil
}

// checkLink returns address in a form that is safe as one argument of a command, or says why it is not opened.
func checkLink(address string) (string, error) {
	const most = 8 << 10 // Windows takes no more on a command line
	if len(address) > most {
		return "", fmt.Errorf("open a link: it is %d bytes long, at most %d are passed on", len(address), most)
	}
	for _, r := range address {
		if unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' || unicode.Is(unicode.Cf, r) {
			return "", fmt.Errorf("open %q: the character %q does not belong into an address", address, r)
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("open a link: %w", err)
	}
	switch u.Scheme {
	case "http", "https":
		if u.Hostname() == "" {
			return "", fmt.Errorf("open %q: there is no host in it", address)
		}
		if u.User != nil {
			return "", fmt.Errorf("open %q: addresses with a user name in them are not opened, as they hide the host", address)
		}
	case "mailto":
		if u.Opaque == "" {
			return "", fmt.Errorf("open %q: there is no recipient in it", address)
		}
	default:
		return "", fmt.Errorf("open %q: only http, https and mailto addresses are opened", address)
	}
	// Parentheses and the like are fine in an argument. Quotes are not everywhere: browsers are started by a pattern
	// such as "%1", and the shell scripts behind xdg-open quote as well as they can.
	return strings.NewReplacer(`"`, "%22", `'`, "%27", "`", "%60", "<", "%3C", ">", "%3E", "|", "%7C", "^", "%5E", "$", "%24").
		Replace(u.String()), nil
}
