// Package generate is the engine: it runs language models and embedding models on one device through OpenVINO.
//
// A Runner belongs to one device and lives in a process of its own, since a fault in a driver ends the process:
//
//	r := generate.New(generate.Options{Runtime: dir, Device: "CPU"})
//	loaded, err := r.Load(ctx, llm.LoadRequest{Model: ref}, nil)
//	prompt, err := r.Prepare(ctx, llm.PrepareRequest{Model: ref, Messages: messages})
//	stats, err := r.Generate(ctx, llm.GenerateRequest{Model: ref, Tokens: prompt.Tokens, ...}, emit)
//
// How it works. Each answer has a slot with the KV cache of one conversation: on the CPU blocks of one cache that all conversations
// share, where the model's attention can be paged, else the states of an infer request. On CPU and GPU the answers that run at once
// take turns on the device, one inference each, first come first served; the NPU has one slot, and one answer at a time. When an
// answer has ended its slot is kept, so that the next turn of the conversation need not compute it again. A native call is never
// interrupted: cancelling takes effect at the next inference boundary.
package generate

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"signalbox/backend/llm"
	"signalbox/internal/openvino"
)

// Options say where the runtime is and how to use the device.
type Options struct {
	Runtime      string              // folder with openvino/ and openvino_tokenizers/
	Device       string              // "CPU", "GPU", "GPU.0", "NPU"
	Emulate      bool                // run the NPU's pipeline on the CPU, for machines without an NPU
	CacheDir     string              // compiled models are kept here; empty: not kept
	Driver       string              // version of the device's driver: part of what a compiled model depends on; empty: not known
	SlotMemory   int64               // bytes for the KV caches of conversations that are not running, usually DefaultSlotMemory; 0: none is kept
	PrefillLimit int                 // most prompt tokens in one inference; 0: 2048. Paged attention takes fewer
	Properties   openvino.Properties // compile properties that override ours, for measuring
	States       bool                // keep KV caches in the states of infer requests, not in pages, for comparing
	Log          *slog.Logger        // nil: none
	Worn         func(error)         // called once when this process should be replaced: a thread is lost to a native call, and no answer runs
}

// Usual values of Options.
const (
	DefaultSlotMemory   = 1 << 30
	DefaultPrefillLimit = 2048
)

// Runner runs models on one device. It implements llm.Runner.
type Runner struct {
	options    Options
	turn       *turn // the device's
	tokenizers shelf[*tokenizer]
	chats      shelf[*chat]
	embedders  shelf[*embedder]
	wear       wear
	memory     ledger
	attempts   attempts

	mu     sync.Mutex
	core   *openvino.Core // nil until first use; guarded by mu
	closed bool           // guarded by mu
}

var _ llm.Runner = (*Runner)(nil)

// New returns a runner. Nothing is loaded before it is needed; a missing runtime is reported by the call that needs it.
func New(options Options) *Runner {
	if options.PrefillLimit == 0 {
		options.PrefillLimit = DefaultPrefillLimit
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runner{options: options, turn: newTurn()}
	r.wear.tell = r.stuck
	return r
}

// native returns OpenVINO with its tokenizer operations, loading it on first use.
func (r *Runner) native() (*openvino.Core, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, llm.Errorf(llm.CodeUnavailable, "the engine is closed")
	}
	if r.core != nil {
		return r.core, nil
	}
	core, err := openCore(r.options.Runtime)
	if err != nil {
		return nil, llm.Errorf(llm.CodeUnavailable, "start the engine: %w", err).WithHint("check the installation with: signalbox doctor")
	}
	r.core = core
	r.memory.open()
	return core, nil
}

func openCore(dir string) (*openvino.Core, error) {
	lib, err := openvino.Load(dir)
	if err != nil {
		return nil, err
	}
	core, err := lib.NewCore()
	if err != nil {
		return nil, err
	}
	if err := core.AddTokenizers(); err != nil {
		core.Close()
		return nil, err
	}
	return core, nil
}

// Version is the runtime's release, such as "2026.4.1".
func (r *Runner) Version() (string, error) {
	core, err := r.native()
	if err != nil {
		return "", err
	}
	release, _, _ := strings.Cut(core.Library().Version(), "-")
	return release, nil
}

// Devices implements llm.Runner. With Options.Emulate the CPU stands in for an NPU, which is listed as emulated.
func (r *Runner) Devices(ctx context.Context) ([]llm.Device, error) {
	core, err := r.native()
	if err != nil {
		return nil, err
	}
	found, err := core.Devices()
	if err != nil {
		return nil, engineError(err, "list the devices")
	}
	var devices []llm.Device
	for _, class := range []string{llm.CPU, llm.GPU, llm.NPU} {
		for _, d := range found {
			kind, index, _ := strings.Cut(d.ID, ".")
			if kind != class || class == llm.NPU && r.options.Emulate {
				continue
			}
			n, _ := strconv.Atoi(index)
			devices = append(devices, llm.Device{Class: class, Index: n, Name: d.Name, Arch: d.Arch, Driver: d.Driver, Runtime: d.ID})
		}
	}
	if r.options.Emulate {
		devices = append(devices, llm.Device{Class: llm.NPU, Name: "NPU pipeline on " + cpuName(devices), Emulated: true, Runtime: "NPU"})
	}
	return devices, ctx.Err()
}

func cpuName(devices []llm.Device) string {
	if len(devices) > 0 && devices[0].Name != "" {
		return devices[0].Name
	}
	return "the CPU (" + runtime.GOARCH + ")"
}

// Unload implements llm.Runner. It waits for answers that still use the model.
func (r *Runner) Unload(ctx context.Context, model string) error {
	err := errors.Join(r.chats.drop(ctx, model), r.embedders.drop(ctx, model), r.tokenizers.drop(ctx, model))
	if err == nil {
		openvino.Trim() // below what others have in the heap, nothing is given back by itself
		r.memory.drop(model)
	}
	return err
}

// Close implements llm.Runner. It waits for running answers: cancel them first.
func (r *Runner) Close() error {
	r.mu.Lock()
	core := r.core
	r.core, r.closed = nil, true
	r.mu.Unlock()
	ctx := context.Background()
	err := errors.Join(r.chats.dropAll(ctx), r.embedders.dropAll(ctx), r.tokenizers.dropAll(ctx))
	if core != nil {
		core.Close()
	}
	return err
}

// Leave tells that the process is about to end, by somebody's wish: what is under way is not to blame.
func (r *Runner) Leave() { r.attempts.leave() }

// class is the device's class: "CPU", "GPU" or "NPU".
func (r *Runner) class() string {
	class, _, _ := strings.Cut(r.options.Device, ".")
	return class
}

// engineError is a failure of the runtime, with what was tried.
func engineError(err error, format string, args ...any) *llm.Error {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e
	}
	return llm.Errorf(llm.CodeEngine, format+": %w", append(args, err)...)
}
