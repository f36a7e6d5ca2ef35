package backend

import (
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/llm"
)

func TestListenTakesBothLoopbacks(t *testing.T) {
	listeners, err := listen(0)
	require.NoError(t, err)
	for _, l := range listeners {
		defer l.Close()
		assert.True(t, l.Addr().(*net.TCPAddr).IP.IsLoopback(), l.Addr())
		assert.Equal(t, listeners[0].Addr().(*net.TCPAddr).Port, l.Addr().(*net.TCPAddr).Port)
	}
}

func TestTakenPortNamesItsHolder(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		held, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil && host == "::1" {
			continue // no IPv6 on this machine
		}
		require.NoError(t, err)
		defer held.Close()
		port := held.Addr().(*net.TCPAddr).Port
		_, err = listen(port)
		assert.ErrorContains(t, err, "port "+strconv.Itoa(port)+" on "+host+" is held by")
		assert.ErrorContains(t, err, "pid "+strconv.Itoa(os.Getpid()))
		assert.ErrorContains(t, err, "SIGNALBOX_HOST=127.0.0.1:")
	}
}

func TestThePortThatIsProposedIsOne(t *testing.T) {
	for _, err := range []error{errAddressInUse, syscall.EACCES} {
		refused, ok := errors.AsType[*llm.Error](taken("127.0.0.1", 65535, err))
		require.True(t, ok)
		assert.Contains(t, refused.Hint, "SIGNALBOX_HOST=127.0.0.1:0")
	}
}
