package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Client returns an HTTP client for the owner's UI listener, which sends the token with each request to it and to nothing
// else. Addresses are o.UIURL plus a path.
func (o Owner) Client() (*http.Client, error) {
	if o.Elsewhere() {
		return nil, fmt.Errorf("reach Signalbox (%s): it is not on this machine", o)
	}
	ui, err := url.Parse(o.UIURL)
	if err != nil || ui.Port() == "" {
		return nil, fmt.Errorf("reach Signalbox (%s): it published no address (%q)", o, o.UIURL)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	// The listener's name is <id>.localhost: browsers know that this is 127.0.0.1, resolvers often do not.
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", ui.Port()))
	}
	return &http.Client{
		Transport: &bearer{next: transport, host: ui.Host, token: o.Token},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // nothing of ours redirects, and the token must not travel
		},
	}, nil
}

// Post sends body as JSON (nil for none) to a path of the UI listener and returns its answer, which is an error unless
// the status is 2xx.
func (o Owner) Post(ctx context.Context, path string, body any) ([]byte, error) {
	client, err := o.Client()
	if err != nil {
		return nil, err
	}
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("ask Signalbox (%s) for %s: %w", o, path, err)
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(o.UIURL, "/")+path, payload)
	if err != nil {
		return nil, fmt.Errorf("ask Signalbox (%s) for %s: %w", o, path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask Signalbox (%s) for %s: %w", o, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("ask Signalbox (%s) for %s: %w", o, path, err)
	}
	if resp.StatusCode/100 != 2 {
		return answer, fmt.Errorf("ask Signalbox (%s) for %s: %s: %s", o, path, resp.Status, bytes.TrimSpace(answer))
	}
	return answer, nil
}

type bearer struct {
	next  http.RoundTripper
	host  string
	token string
}

func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != b.host {
		return nil, fmt.Errorf("%s is not the running Signalbox", req.URL.Host)
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(req)
}
