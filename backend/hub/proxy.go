package hub

import (
	"cmp"
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

// SystemProxy is how requests leave this computer: by HTTPS_PROXY, HTTP_PROXY or ALL_PROXY where one is set, else as the
// system's settings say, a script (PAC) included, which the system itself runs. Hosts in NO_PROXY are reached directly.
func SystemProxy(getenv func(string) string) func(*http.Request) (*url.URL, error) {
	return proxyBy(getenv, systemProxy())
}

func proxyBy(getenv func(string) string, system func(*url.URL) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	env := func(name, lower string) string { return cmp.Or(getenv(name), getenv(lower)) }
	all := env("ALL_PROXY", "all_proxy")
	set := httpproxy.Config{
		HTTPSProxy: cmp.Or(env("HTTPS_PROXY", "https_proxy"), all), HTTPProxy: cmp.Or(env("HTTP_PROXY", "http_proxy"), all),
		NoProxy: env("NO_PROXY", "no_proxy"),
	}
	if set.HTTPSProxy != "" || set.HTTPProxy != "" {
		chosen := set.ProxyFunc()
		return func(r *http.Request) (*url.URL, error) { return chosen(r.URL) }
	}
	// What no proxy is for, whichever it is.
	every := httpproxy.Config{HTTPSProxy: "http://any", HTTPProxy: "http://any", NoProxy: set.NoProxy}
	asked := every.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) {
		if proxy, err := asked(r.URL); proxy == nil || err != nil {
			return nil, err
		}
		return system(r.URL)
	}
}
