//go:build !windows

package hub

import "syscall"

const (
	errQuota  = syscall.EDQUOT
	onWindows = false
)
