package backend

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"signalbox/backend/llm"
)

// listen opens a port on 127.0.0.1 and on ::1. Both, because "localhost" means either: whoever held the other one would get
// the prompts of clients that try it first. A machine without IPv6 has only the first. Port 0 picks a free one.
func listen(port int) ([]net.Listener, error) {
	const tries = 20 // with port 0: the other family may hold what the first one picked
	for try := 1; ; try++ {
		listeners, host, err := listenBoth(port)
		switch {
		case err == nil:
			return listeners, nil
		case port != 0 || try == tries:
			return nil, taken(host, port, err)
		}
	}
}

// listenBoth is one try. With an error host is the address that could not be had.
func listenBoth(port int) (listeners []net.Listener, host string, err error) {
	four, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, "127.0.0.1", err
	}
	port = four.Addr().(*net.TCPAddr).Port
	six, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
	switch {
	case err == nil:
		return []net.Listener{four, six}, "", nil
	case errors.Is(err, errAddressInUse):
		four.Close()
		return nil, "::1", err
	}
	return []net.Listener{four}, "", nil // no IPv6 here
}

// taken says who holds a port and what to do about it.
func taken(host string, port int, err error) error {
	if !errors.Is(err, errAddressInUse) {
		return llm.Errorf(llm.CodeUnavailable, "listen on %s port %d: %w", host, port, err).
			WithHint("choose another port in the settings, or with SIGNALBOX_HOST=127.0.0.1:%d", nextFree(port))
	}
	holder := "another program"
	if name, pid, ok := portHolder(port); ok {
		holder = fmt.Sprintf("%s (pid %d)", name, pid)
	}
	return llm.Errorf(llm.CodeUnavailable, "port %d on %s is held by %s", port, host, holder).
		WithHint("end that program, or choose another port in the settings or with SIGNALBOX_HOST=127.0.0.1:%d", nextFree(port))
}

// nextFree is the next port that this user could listen on now; 0, which picks one, where there is none.
func nextFree(port int) int {
	for next := port + 1; next < 65536; next++ {
		listeners, _, err := listenBoth(next)
		for _, l := range listeners {
			l.Close()
		}
		if err == nil {
			return next
		}
	}
	return 0
}

// PortFree tells whether the server could listen on a port now, and if not who holds it.
func PortFree(port int) error {
	listeners, err := listen(port)
	for _, l := range listeners {
		l.Close()
	}
	return err
}
