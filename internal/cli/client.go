package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"signalbox/internal/dirs"
	"signalbox/internal/instance"
)

// errNoServer says that no Signalbox runs for this user.
var errNoServer = errors.New("no Signalbox is running: start the app, or `signalbox serve`")

// client talks to the running Signalbox over its own listener, which answers also while the public port is closed.
type client struct {
	url  string // of the window's listener
	http *http.Client
}

// connect finds the process that owns this user's data folder.
func connect() (client, error) {
	d, err := dirs.Find()
	if err != nil {
		return client{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	owner, err := instance.Wait(ctx, d.State)
	if errors.Is(err, instance.ErrNotRunning) {
		return client{}, errNoServer
	}
	if err != nil {
		return client{}, err
	}
	h, err := owner.Client()
	return client{url: owner.UIURL, http: h}, err
}

// do sends a JSON request and returns the answer's body, which the caller closes. An error answer becomes an error with
// the server's own words.
func (c client) do(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "signalbox-cli")
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the running Signalbox: %w", err)
	}
	if resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &said) == nil && said.Error != "" {
		return nil, errors.New(said.Error)
	}
	return nil, fmt.Errorf("%s %s: the running Signalbox answered %s", method, path, resp.Status)
}

// get decodes a JSON answer into out.
func (c client) get(ctx context.Context, method, path string, body, out any) error {
	answer, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if err := json.NewDecoder(answer).Decode(out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}
