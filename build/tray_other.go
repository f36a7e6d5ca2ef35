//go:build !windows

package build

import _ "embed"

// The tray's pictures, one for each state.
var (
	//go:embed tray/running.png
	TrayRunning []byte
	//go:embed tray/busy.png
	TrayBusy []byte
	//go:embed tray/problem.png
	TrayProblem []byte
	//go:embed tray/stopped.png
	TrayStopped []byte
)
