package hub

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/backend/llm"
)

// dialer connects to addresses that it has looked at: names are resolved here, so that the address that was checked is the
// one that is dialled (threats A17).
type dialer struct {
	o        Options
	endpoint string      // "host:port"
	named    bool        // by the user
	private  atomic.Bool // the endpoint is in a private network, so other machines there may be
	proxies  sync.Map    // "host:port" of proxies, which the user has chosen
}

func newDialer(o Options, endpoint *url.URL, named bool) *dialer {
	d := &dialer{o: o, endpoint: hostPort(endpoint), named: named}
	if d.o.Resolve == nil {
		d.o.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if d.o.Dial == nil {
		d.o.Dial = (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	if addr, err := netip.ParseAddr(endpoint.Hostname()); err == nil && named && inside(addr) {
		d.private.Store(true)
	}
	return d
}

func (d *dialer) transport() *http.Transport {
	return &http.Transport{
		Proxy: d.proxy, DialContext: d.dial, TLSClientConfig: &tls.Config{RootCAs: d.o.Roots, MinVersion: tls.VersionTLS12},
		DisableCompression: true, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: 60 * time.Second,
		TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: d.o.Stall, MaxResponseHeaderBytes: 256 << 10,
	}
}

// proxy asks the settings, and remembers the answer: it is dialled without further question. This computer is never asked
// for through a proxy.
func (d *dialer) proxy(req *http.Request) (*url.URL, error) {
	if host := req.URL.Hostname(); host == "localhost" || isLoopback(host) {
		return nil, nil
	}
	proxy, err := d.o.Proxy(req)
	if proxy != nil {
		d.proxies.Store(hostPort(proxy), true)
	}
	return proxy, err
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if _, ok := d.proxies.Load(address); ok {
		return d.o.Dial(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, addr)
	} else if addrs, err = d.lookUp(ctx, host); err != nil {
		return nil, err
	}
	var last error
	for _, addr := range addrs {
		if address == d.endpoint && d.named && inside(addr) {
			d.private.Store(true)
		}
		if !d.mayDial(address, addr) {
			last = d.refusal(address, addr)
			continue
		}
		conn, err := d.o.Dial(ctx, network, net.JoinHostPort(addr.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	if last == nil {
		last = &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	return nil, last
}

// lookUp does not wait for a name server that never answers, as where there is no network.
func (d *dialer) lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	within, cancel := context.WithTimeout(ctx, d.o.Answer)
	defer cancel()
	addrs, err := d.o.Resolve(within, host)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = &net.DNSError{Err: "no name server answers", Name: host, IsTimeout: true}
	}
	return addrs, err
}

// mayDial allows what is on the internet, and private addresses where the user's own endpoint is one.
func (d *dialer) mayDial(address string, addr netip.Addr) bool {
	addr = addr.Unmap()
	switch {
	case !inside(addr):
		return true
	case addr.IsLinkLocalUnicast() || addr.IsUnspecified() || addr.IsMulticast(): // cloud metadata lives at 169.254.169.254
		return address == d.endpoint && d.named
	}
	return d.private.Load()
}

func (d *dialer) refusal(address string, addr netip.Addr) error {
	return &hubError{llm.Errorf(llm.CodeUnavailable, "the hub leads to %s (%s), an address inside this computer's network: refused", address, addr), false, 0}
}

var (
	sharedSpace = netip.MustParsePrefix("100.64.0.0/10")
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour   = netip.MustParsePrefix("2002::/16")
)

// inside tells whether an address is not on the internet: this machine, its network, or one of the ways to write those.
func inside(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.Is6() && (nat64.Contains(addr) || sixToFour.Contains(addr)) {
		return true
	}
	return !addr.IsGlobalUnicast() || addr.IsPrivate() || sharedSpace.Contains(addr) || addr.IsLoopback() || addr.IsLinkLocalUnicast() ||
		addr.Is4() && (addr.As4()[0] == 0 || addr.As4()[0] >= 240)
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
