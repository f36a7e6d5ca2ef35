package engine

import (
	"fmt"

	"signalbox/backend/llm"
)

// Exit is how a child ended. It is in the chain of the error of every request that it took along: errors.AsType[*Exit].
type Exit struct {
	Device llm.Device
	Status string // "signal: killed", "exit status 2 (SIGSEGV: segmentation violation)", "0xC0000005"
	Phase  string // what the request was doing: "start", "devices", "prepare", "load", "prefill", "decode" or "embed"
	Fault  bool   // a crash; false where we, a user or the system ended it
	Reason string // why we ended it, empty if we did not
	Stuck  bool   // it was killed and has not ended, which Status says
}

func (e *Exit) Error() string {
	if e.Stuck {
		return fmt.Sprintf("the engine process for %s is stuck: %s", e.Device.Label(), e.Status)
	}
	if e.Reason != "" {
		return fmt.Sprintf("the engine process for %s was ended: %s", e.Device.Label(), e.Reason)
	}
	return fmt.Sprintf("the engine process for %s ended by itself: %s", e.Device.Label(), e.Status)
}
