// Package hub fetches models from the Hugging Face hub, a mirror that answers like it, or ModelScope, which has an API of
// its own (modelscope.go). New makes a Client for one endpoint; Snapshot lists a repository at one commit; Download brings one file of it, in parallel ranges, checked against
// the hash that the hub declares.
//
// Nothing that the hub says becomes a path or leads to another machine unseen: only files of a fixed list of names are
// fetched, the token goes to the endpoint alone, and the address of each hop is looked at before it is dialled.
package hub

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"signalbox/backend/llm"
)

// DefaultEndpoint is the hub itself.
const DefaultEndpoint = "https://huggingface.co"

// Options are what a Client is made of. The zero value is the hub as the environment says: HF_ENDPOINT, HTTPS_PROXY,
// NO_PROXY, SSL_CERT_FILE.
type Options struct {
	Endpoint string                     // empty: DefaultEndpoint
	Token    func(origin string) string // the token for "https://host"; nil or "": none
	Proxy    func(*http.Request) (*url.URL, error)
	Roots    *x509.CertPool // nil: the system's, and those of SSL_CERT_FILE
	Agent    string         // User-Agent

	Answer  time.Duration // within which a question is answered that a person waits for; 0: 8 s
	Stall   time.Duration // without a byte: try again; 0: 30 s
	Retries int           // in a row without a byte between them; 0: 6
	Backoff time.Duration // before the first retry, doubled each time; 0: 1 s
	Parts   int           // ranges of one file at once; 0: 4
	Chunk   int64         // bytes of one range; 0: 32 MiB

	// For tests: how names are looked up and addresses are dialled.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client talks to one hub. Its methods may be called from several goroutines at once.
type Client struct {
	o        Options
	endpoint *url.URL
	scope    bool // it is ModelScope
	named    bool // the endpoint was chosen by the user: it may be private
	dialer   *dialer
	http     *http.Client
}

// New makes a client. Nothing is sent yet.
func New(o Options) (*Client, error) {
	c := &Client{o: o, named: o.Endpoint != ""}
	if o.Endpoint == "" {
		o.Endpoint = DefaultEndpoint
	}
	u, err := url.Parse(strings.TrimRight(o.Endpoint, "/"))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
		return nil, llm.Errorf(llm.CodeInvalid, "the hub's address %q is not a URL such as %s", o.Endpoint, DefaultEndpoint)
	}
	c.endpoint, c.scope = u, isModelScope(u)
	setDefault(&o.Answer, 8*time.Second)
	setDefault(&o.Stall, 30*time.Second)
	setDefault(&o.Retries, 6)
	setDefault(&o.Backoff, time.Second)
	setDefault(&o.Parts, 4)
	setDefault(&o.Chunk, 32<<20)
	if o.Agent == "" {
		o.Agent = "signalbox"
	}
	if o.Proxy == nil {
		o.Proxy = SystemProxy(os.Getenv)
	}
	if o.Roots == nil {
		o.Roots = systemRoots()
	}
	c.o = o
	c.dialer = newDialer(o, u, c.named)
	c.http = &http.Client{Transport: c.dialer.transport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

func setDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v == 0 {
		*v = to
	}
}

// systemRoots are the system's certificates with those of SSL_CERT_FILE, which is how companies add their own; nil leaves
// it to the system.
func systemRoots() *x509.CertPool {
	file := os.Getenv("SSL_CERT_FILE")
	if file == "" {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	pool.AppendCertsFromPEM(text)
	return pool
}

// Endpoint is the hub's address.
func (c *Client) Endpoint() string { return c.endpoint.String() }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// url is an address below the endpoint. Each segment is escaped.
func (c *Client) url(query url.Values, segments ...string) *url.URL {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	u := *c.endpoint
	u.RawPath = u.EscapedPath() + "/" + strings.Join(escaped, "/")
	u.Path, _ = url.PathUnescape(u.RawPath)
	u.RawQuery = query.Encode()
	return &u
}

const mostHops = 8

// get follows redirects itself, so that the token stays with the endpoint and each hop is looked at. headers are sent on
// each hop. The first answer is given too: hubs put the file's hash and ETag there.
func (c *Client) get(ctx context.Context, u *url.URL, headers http.Header) (first, last *http.Response, err error) {
	return c.send(ctx, http.MethodGet, u, headers, nil)
}

// send is get with another method and a body, which stays with the endpoint.
func (c *Client) send(ctx context.Context, method string, u *url.URL, headers http.Header, body []byte) (first, last *http.Response, err error) {
	for hop := 0; ; hop++ {
		if err := c.mayVisit(u); err != nil {
			return nil, nil, err
		}
		var content io.Reader
		if body != nil {
			content = bytes.NewReader(body)
		}
		req, err := http.NewRequestWithContext(ctx, method, u.String(), content)
		if err != nil {
			return nil, nil, err
		}
		for name, values := range headers {
			req.Header[name] = values
		}
		req.Header.Set("User-Agent", c.o.Agent)
		req.Header.Set("Accept-Encoding", "identity") // a size that is declared is the size that comes
		if c.o.Token != nil && sameOrigin(u, c.endpoint) {
			if token := c.o.Token(origin(c.endpoint)); token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return nil, nil, c.explain(ctx, u, err)
		}
		if first == nil {
			first = resp
		}
		switch resp.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return first, resp, nil
		}
		resp.Body.Close()
		next, err := resp.Location()
		if err != nil {
			return nil, nil, fault("%s redirects to nowhere", u.Host)
		}
		if hop == mostHops {
			return nil, nil, fault("%s redirects without end", u.Host)
		}
		if u.Scheme == "https" && next.Scheme == "http" {
			return nil, nil, fault("%s redirects from https to http (%s): refused, since anyone on the way could change what comes", u.Host, next.Host)
		}
		if body != nil && !sameOrigin(next, c.endpoint) {
			return nil, nil, fault("%s sends a question on to %s: refused", u.Host, next.Host)
		}
		u = next
	}
}

// mayVisit refuses addresses that are wrong as they stand. Names are looked up and checked when they are dialled; behind a
// proxy that is all that can be seen.
func (c *Client) mayVisit(u *url.URL) error {
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return fault("the hub leads to %q, which is no web address", u.Redacted())
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !c.dialer.mayDial(u.Host, addr) {
		return c.dialer.refusal(u.Host, addr)
	}
	return nil
}

func origin(u *url.URL) string { return u.Scheme + "://" + strings.ToLower(u.Host) }

func sameOrigin(a, b *url.URL) bool { return origin(a) == origin(b) }

// fault is what a hub does that it must not: trying again does not help.
func fault(format string, args ...any) error {
	return &hubError{llm.Errorf(llm.CodeUnavailable, format, args...), false, 0}
}

// hubError is an error with what to do about it.
type hubError struct {
	err   *llm.Error
	again bool          // trying again may help
	after time.Duration // and not earlier
}

func (e *hubError) Error() string { return e.err.Error() }
func (e *hubError) Unwrap() error { return e.err }

const mayBeOffline = "this computer may be offline; HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy"

// Ask is Snapshot for somebody who waits for the answer: it comes within Options.Answer, or is an error.
func (c *Client) Ask(ctx context.Context, repo, revision string) (Snapshot, error) {
	within, done := c.patient(ctx)
	s, err := c.Snapshot(within, repo, revision)
	return s, done(err)
}

// patient gives a question that somebody waits for a time, and says so when it has run out. done frees what it holds.
func (c *Client) patient(ctx context.Context) (within context.Context, done func(error) error) {
	within, cancel := context.WithTimeout(ctx, c.o.Answer)
	return within, func(err error) error {
		defer cancel()
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			return llm.Errorf(llm.CodeUnavailable, "%s did not answer within %s", c.endpoint.Host, c.o.Answer).WithHint(mayBeOffline)
		}
		return err
	}
}

// explain turns an error of the network into a sentence with what to do.
func (c *Client) explain(ctx context.Context, u *url.URL, err error) error {
	if he, ok := errors.AsType[*hubError](err); ok {
		return he
	}
	if ctx.Err() != nil {
		return err
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		issuer := "an unknown authority"
		if unknown.Cert != nil {
			issuer = fmt.Sprintf("%q", unknown.Cert.Issuer.String())
		}
		return &hubError{llm.Errorf(llm.CodeUnavailable, "the certificate of %s was issued by %s, which this computer does not trust", u.Host, issuer).
			WithHint("in a company network, add its root certificate to the system, or name its file in SSL_CERT_FILE"), false, 0}
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return &hubError{llm.Errorf(llm.CodeUnavailable, "%s cannot be found: %w", u.Hostname(), err).WithHint(mayBeOffline), true, 0}
	}
	return &hubError{llm.Errorf(llm.CodeUnavailable, "reach %s: %w", u.Host, err), true, 0}
}
