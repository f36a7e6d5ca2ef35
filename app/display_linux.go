package app

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func findDisplay() (bool, string) {
	wayland, x11 := os.Getenv("WAYLAND_DISPLAY"), os.Getenv("DISPLAY")
	if wayland == "" && x11 == "" {
		return false, "there is no display: neither WAYLAND_DISPLAY nor DISPLAY is set"
	}
	if wayland != "" {
		socket := wayland
		if !filepath.IsAbs(socket) {
			socket = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), socket)
		}
		if answers("unix", socket) {
			return true, ""
		}
	}
	if x11 != "" && x11Answers(x11) {
		return true, ""
	}
	return false, fmt.Sprintf("no display answers (WAYLAND_DISPLAY=%q, DISPLAY=%q)", wayland, x11)
}

// x11Answers takes ":1", ":1.0" and "host:10.0".
func x11Answers(display string) bool {
	host, number, found := strings.Cut(display, ":")
	if !found {
		return false
	}
	number, _, _ = strings.Cut(number, ".")
	if host != "" && host != "unix" {
		return true // a forwarded display: GTK will find out
	}
	socket := "/tmp/.X11-unix/X" + number
	return answers("unix", socket) || answers("unix", "@"+socket)
}

func answers(network, address string) bool {
	conn, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
