package build

import _ "embed"

// The tray's pictures, one for each state.
var (
	//go:embed tray/running.ico
	TrayRunning []byte
	//go:embed tray/busy.ico
	TrayBusy []byte
	//go:embed tray/problem.ico
	TrayProblem []byte
	//go:embed tray/stopped.ico
	TrayStopped []byte
)
