package hub

import (
	"bufio"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// resolver is a desktop's portal, with a script that sends one domain through a proxy.
type resolver struct {
	mu    sync.Mutex
	asked []string // guarded by mu
}

func (r *resolver) Lookup(address string) ([]string, *dbus.Error) {
	r.mu.Lock()
	r.asked = append(r.asked, address)
	r.mu.Unlock()
	if strings.Contains(address, "company.test") {
		return []string{"direct://"}, nil
	}
	return []string{"socks://proxy.test:1080", "direct://"}, nil
}

func TestTheDesktopsPortalIsAskedForTheProxy(t *testing.T) {
	bus := exec.CommandContext(t.Context(), "dbus-daemon", "--session", "--nofork", "--print-address")
	out, err := bus.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, bus.Start())
	t.Cleanup(func() { _ = bus.Process.Kill(); _ = bus.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))

	ask := systemProxy()
	hub := &url.URL{Scheme: "https", Host: "hub.test", Path: "/secret/path"}
	proxy, err := ask(hub)
	require.NoError(t, err)
	assert.Nil(t, proxy, "a bus without a portal has no settings")

	conn, err := dbus.Connect(strings.TrimSpace(address))
	require.NoError(t, err)
	defer conn.Close()
	r := &resolver{}
	require.NoError(t, conn.Export(r, "/org/freedesktop/portal/desktop", "org.freedesktop.portal.ProxyResolver"))
	_, err = conn.RequestName("org.freedesktop.portal.Desktop", dbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	ask = systemProxy()
	for range 3 {
		proxy, err = ask(hub)
		require.NoError(t, err)
		require.NotNil(t, proxy)
		assert.Equal(t, "socks5://proxy.test:1080", proxy.String())
	}
	proxy, err = ask(&url.URL{Scheme: "https", Host: "files.company.test"})
	require.NoError(t, err)
	assert.Nil(t, proxy)
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Equal(t, []string{"https://hub.test/", "https://files.company.test/"}, r.asked, "the script learns hosts, and each once")
}
