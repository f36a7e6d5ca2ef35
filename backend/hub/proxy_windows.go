package hub

import (
	"net/http"
	"net/url"

	"github.com/mattn/go-ieproxy"
)

// systemProxy reads the settings of Windows, and has WinHTTP run the script where they name one.
func systemProxy() func(*url.URL) (*url.URL, error) {
	ask := ieproxy.GetProxyFunc()
	return func(u *url.URL) (*url.URL, error) { return ask(&http.Request{URL: u}) }
}
