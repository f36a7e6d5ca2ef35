package engine_test

import (
	"context"
	"fmt"
	"os"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
)

// beParent is a process between the test and the children: it prints their ids once they stream, and waits to be killed.
func beParent() {
	e := engine.New(engine.Options{Fake: true, Command: childProcess})
	for device := range 2 {
		streams := make(chan struct{})
		j := job(device, "m", "[[endless]] [[slow 1]]")
		if device == 1 {
			j = job(device, "m", "[[hang-after 2]]") // in a native call
		}
		first := true
		j.OnDelta = func(llm.Delta) error {
			if first {
				first = false
				close(streams)
			}
			return nil
		}
		go e.Run(context.Background(), j)
		<-streams
	}
	for _, s := range e.States() {
		fmt.Println(s.PID)
	}
	os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}
