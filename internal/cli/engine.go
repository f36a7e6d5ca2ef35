package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"signalbox/backend/llm"
	"signalbox/backend/llm/llmtest"
	"signalbox/internal/generate"
	"signalbox/internal/pipe"
)

// engineCommand is the child process that owns one device. People do not call it: the server starts it, talks to it over
// its standard input and output, and ends it by closing them.
func engineCommand() *cobra.Command {
	var o generate.Options
	var fake bool
	var properties map[string]string
	cmd := &cobra.Command{
		Use: "engine", Hidden: true, Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			keepPrivate()
			// Between inferences Go has little to do here, and during one nothing: with more processors its scheduler wakes up every
			// 20 us to look for work, on cores that the native threads need (measured: a twentieth of a token's time on two cores).
			runtime.GOMAXPROCS(1)
			pipe.Main(pipe.Config{}, func(frames io.Writer) (llm.Runner, error) {
				if fake {
					return llmtest.NewFake(llmtest.Options{Noise: frames}), nil
				}
				o.Properties = properties
				// A grammar's native compile cannot be ended but with its process. Nothing runs here now; the parent starts a
				// new one at the next need.
				o.Worn = func(err error) {
					fmt.Fprintln(os.Stderr, "the engine process ends to start afresh:", err)
					os.Exit(0)
				}
				return generate.New(o), nil
			})
		},
	}
	cmd.Flags().StringVar(&o.Runtime, "runtime", "", "folder of the native libraries")
	cmd.Flags().StringVar(&o.Device, "device", "CPU", "OpenVINO's name of the device")
	cmd.Flags().BoolVar(&o.Emulate, "emulate", false, "let the CPU stand in for the NPU")
	cmd.Flags().StringVar(&o.CacheDir, "cache", "", "folder of compiled models")
	cmd.Flags().StringVar(&o.Driver, "driver", "", "version of the device's driver")
	cmd.Flags().Int64Var(&o.SlotMemory, "slot-memory", generate.DefaultSlotMemory, "bytes for conversations kept ready")
	cmd.Flags().StringToStringVar(&properties, "property", nil, "OpenVINO's own compile properties")
	cmd.Flags().BoolVar(&fake, "fake", false, "canned answers, no model")
	return cmd
}
