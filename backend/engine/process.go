package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"signalbox/backend/llm"
	"signalbox/internal/pipe"
)

// process is a running child, or what stands for one.
type process struct {
	client *pipe.Client
	pid    int
	kill   func()        // ends it at once; may be called often
	exited chan struct{} // closed when it has ended, and status is set
	status status
}

// status is how a process ended.
type status struct {
	text  string
	fault bool   // a crash
	stuck bool   // it has not ended
	last  string // its last line on stderr, or the first of a crash
	tail  string // the last of its stderr, with a crash's stacks
}

// helloLimit is how long a child may take to say its first word: it needs no model and no library for it.
const helloLimit = 30 * time.Second

// start starts the child for a device and waits for its first word.
func (e *Engine) start(device llm.Device) (*process, error) {
	var p *process
	var err error
	if e.options.InProcess != nil {
		p, err = e.inProcess(device)
	} else {
		p, err = e.spawn(device)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), helloLimit)
	defer cancel()
	hello, err := p.client.Hello(ctx)
	if err == nil && hello.Build != pipe.Build() {
		err = llm.Errorf(llm.CodeUnavailable, "start the engine process for %s: it is another version of Signalbox (%s) than this one (%s)",
			device.Label(), hello.Build, pipe.Build()).WithHint("restart Signalbox to finish the update")
	}
	if err == nil {
		p.pid = hello.PID
		return p, nil
	}
	ended := p.bury(e.options.KillLimit)
	if _, ok := errors.AsType[*llm.Error](err); ok && !errors.Is(err, pipe.ErrLost) {
		return nil, err
	}
	exit := &Exit{Device: device, Status: ended.text, Phase: "start", Fault: ended.fault}
	failed := llm.Errorf(llm.CodeUnavailable, "start the engine process for %s: it ended before it was ready (%s)", device.Label(), exit.Status)
	if ended.last != "" {
		failed.Message += ": " + ended.last
	}
	failed.Cause = exit
	return nil, failed
}

// bury ends the connection to a process, which then goes by itself or is killed, and tells how it ended. A driver may hold a
// process that even a kill does not end: such a one is given up after limit.
func (p *process) bury(limit time.Duration) status {
	closed := make(chan struct{})
	go func() { // a stream may not close before the process has ended
		p.client.Close()
		close(closed)
	}()
	select {
	case <-p.exited:
	case <-time.After(time.Second):
		go p.kill()
	}
	giveUp := time.After(limit)
	select {
	case <-p.exited:
	case <-giveUp:
		return status{stuck: true, text: fmt.Sprintf("it was killed and had not ended %s later, its driver may hold it", limit)}
	}
	select {
	case <-closed:
	case <-giveUp: // somebody else has its streams
	}
	return p.status
}

// inProcess runs the device's runner in this process.
func (e *Engine) inProcess(device llm.Device) (*process, error) {
	runner, err := e.options.InProcess(device)
	if err != nil {
		return nil, err
	}
	childIn, parentOut := io.Pipe()
	parentIn, childOut := io.Pipe()
	p := &process{exited: make(chan struct{})}
	p.client = pipe.NewClient(parentIn, parentOut, e.pipeConfig())
	ctx, stop := context.WithCancel(context.Background())
	p.kill = func() {
		stop()
		p.client.Close()
		runner.Close()
	}
	go func() { // watch waits for it, but not for ever
		defer close(p.exited)
		err := pipe.Serve(ctx, runner, childIn, childOut)
		childIn.Close()
		childOut.Close()
		runner.Close()
		p.status = status{text: fmt.Sprint("in-process runner ended: ", err)}
	}()
	return p, nil
}

func (e *Engine) pipeConfig() pipe.Config {
	return pipe.Config{Patience: e.options.Patience, Silence: e.options.Silence, Ping: e.options.Silence / 15}
}

// spawn starts a real child.
func (e *Engine) spawn(device llm.Device) (*process, error) {
	command := e.options.Command(device)
	streams, err := openStreams()
	if err != nil {
		return nil, spawnError(device, err)
	}
	cmd := &exec.Cmd{
		Path: command.Path, Args: append([]string{"signalbox"}, command.Args...),
		Env: environment(command.Env), Dir: command.Dir,
		Stdin: streams.inR, Stdout: streams.outW, Stderr: streams.errW,
		SysProcAttr: attributes(),
	}
	p := &process{exited: make(chan struct{})}
	log := e.log.With("device", device.ID())
	started := make(chan error, 1)
	go p.live(cmd, streams, log, started) // watch waits for it, but not for ever
	if err := <-started; err != nil {
		streams.close()
		return nil, spawnError(device, err)
	}
	p.client = pipe.NewClient(streams.outR, streams.inW, e.pipeConfig())
	log.Debug("engine process started", "pid", cmd.Process.Pid)
	return p, nil
}

// live starts a process and waits for it, on one thread: the kernel's tie to the parent (PDEATHSIG) is a tie to the thread that
// forked, so that thread must live as long as the child.
func (p *process) live(cmd *exec.Cmd, streams *streams, log *slog.Logger, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tied, err := startTied(cmd)
	if err != nil {
		started <- err
		return
	}
	streams.closeChildEnds()
	p.kill = sync.OnceFunc(func() { cmd.Process.Kill() })
	errors := &stderr{log: log}
	var draining sync.WaitGroup
	draining.Go(func() { errors.drain(streams.errR) })
	started <- nil

	cmd.Wait() // the state says all there is to say
	tied.release()
	drained := make(chan struct{})
	go func() { draining.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(time.Second): // somebody else has its stderr
	}
	streams.errR.Close()
	draining.Wait()
	last, death, tail := errors.words()
	p.status = statusOf(cmd.ProcessState, death)
	p.status.last, p.status.tail = cmp.Or(death, last), tail
	close(p.exited)
}

// streams are the six ends of a child's three pipes.
type streams struct{ inR, inW, outR, outW, errR, errW *os.File }

func openStreams() (*streams, error) {
	s := &streams{}
	var err error
	if s.inR, s.inW, err = os.Pipe(); err == nil {
		if s.outR, s.outW, err = os.Pipe(); err == nil {
			s.errR, s.errW, err = os.Pipe()
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *streams) closeChildEnds() {
	for _, f := range []*os.File{s.inR, s.outW, s.errW} {
		f.Close()
	}
}

func (s *streams) close() {
	for _, f := range []*os.File{s.inR, s.inW, s.outR, s.outW, s.errR, s.errW} {
		if f != nil {
			f.Close()
		}
	}
}

// spawnError blames no device: the system did not start the process.
func spawnError(device llm.Device, err error) error {
	failed := llm.Errorf(llm.CodeUnavailable, "start the engine process for %s: %w", device.Label(), err)
	if hint := spawnHint(err); hint != "" {
		return failed.WithHint("%s", hint)
	}
	return failed
}
