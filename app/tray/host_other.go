//go:build !linux

package tray

import "strings"

// host: the system itself has a notification area.
type host struct{}

func watchHost(func(Host)) (*host, error) { return &host{}, nil }

func (*host) now() Host { return Shown }
func (*host) close()    {}

// escape keeps an ampersand from becoming a key's underline.
func escape(label string) string { return strings.ReplaceAll(label, "&", "&&") }
