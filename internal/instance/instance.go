// Package instance keeps one running Signalbox for each data folder, and lets others find it.
//
// The program that runs holds a file lock from its first moment to its last, so the system itself decides who is first and
// frees the lock when a process dies, however it dies. Beside the lock lies instance.json, which says where the owner
// listens. That file alone proves nothing: it is believed only while somebody holds the lock, and the owner removes
// what an earlier one left before it does anything else.
//
//	lock, err := instance.Acquire(dirs.State)
//	if errors.Is(err, instance.ErrRunning) {
//		owner, err := instance.Wait(ctx, dirs.State) // then owner.Post(ctx, "/desktop/show", nil)
//	}
//	defer lock.Release()
//	err = lock.Publish(instance.Owner{UIURL: ..., Token: instance.NewToken()})
package instance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"signalbox/internal/disk"
)

var (
	// ErrRunning says that another process holds the lock. Acquire's error also tells which, where that is known.
	ErrRunning = errors.New("Signalbox is already running")
	// ErrNotRunning says that nobody holds the lock.
	ErrNotRunning = errors.New("Signalbox is not running")
	// ErrStarting says that somebody holds the lock and has not published an address yet.
	ErrStarting = errors.New("Signalbox is starting")
)

// Owner describes the process that runs.
type Owner struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`              // a home folder may be shared between machines
	UIURL   string    `json:"ui_url"`            // "http://<id>.localhost:PORT", always on
	Token   string    `json:"token"`             // Bearer on the UI listener
	APIURL  string    `json:"api_url,omitempty"` // the public server, while it runs
	Version string    `json:"version"`
	Started time.Time `json:"started"`
}

// Elsewhere reports whether the owner runs on another machine: then its addresses are of no use here.
func (o Owner) Elsewhere() bool { return o.Host != "" && o.Host != hostname() }

// String names the owner in a sentence: "pid 4711", "pid 4711 on host laptop".
func (o Owner) String() string {
	if o.Elsewhere() {
		return fmt.Sprintf("pid %d on host %s", o.PID, o.Host)
	}
	return fmt.Sprintf("pid %d", o.PID)
}

// RunningError is Acquire's answer when another process is the owner.
type RunningError struct {
	Owner *Owner // nil while the owner has not published itself
}

func (e *RunningError) Error() string {
	switch {
	case e.Owner == nil:
		return ErrRunning.Error()
	case e.Owner.Elsewhere():
		return fmt.Sprintf("%v (%s): quit it there, or set SIGNALBOX_HOME to another folder here", ErrRunning, e.Owner)
	}
	return fmt.Sprintf("%v (%s)", ErrRunning, e.Owner)
}

func (e *RunningError) Unwrap() error { return ErrRunning }

// Lock is held by the process that runs.
type Lock struct {
	dir  string
	main *flock.Flock

	mu        sync.Mutex
	released  bool          // guarded by mu
	published []byte        // the file's text; guarded by mu
	keeping   chan struct{} // closed by Release; nil before Publish; guarded by mu
}

// Acquire makes this process the owner of stateDir, which it creates if need be. When another process is, the error
// is a *RunningError, which is ErrRunning.
func Acquire(stateDir string) (*Lock, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w%s", stateDir, err, hint(err, "; set SIGNALBOX_HOME to a folder that can be made"))
	}
	l := &Lock{dir: stateDir, main: flock.New(mainPath(stateDir))}
	held := false
	err := guarded(stateDir, func() (err error) {
		held, err = l.main.TryLock()
		if err != nil || !held {
			return err
		}
		// Whatever lies here is from an owner that is gone: from now on it would be believed.
		if err := remove(infoPath(stateDir)); err != nil {
			return fmt.Errorf("clear what an earlier run may have left: %w%s", err, hint(err, ""))
		}
		return nil
	})
	if err != nil {
		_ = l.main.Unlock()
		return nil, fmt.Errorf("lock %s: %w", mainPath(stateDir), err)
	}
	if !held {
		running := &RunningError{}
		if owner, err := read(stateDir); err == nil {
			running.Owner = &owner
		}
		return nil, running
	}
	return l, nil
}

// Publish tells others how to reach this process, and may be called again when that changes. PID, Host and Started are
// filled in when they are empty. Until Release the file is written again whenever it is missing, also after an error: that
// others cannot find this process now is no reason for it to end.
func (l *Lock) Publish(o Owner) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return fmt.Errorf("publish %s: the lock is released", infoPath(l.dir))
	}
	if o.PID == 0 {
		o.PID = os.Getpid()
	}
	if o.Host == "" {
		o.Host = hostname()
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	data, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return fmt.Errorf("publish %s: %w", infoPath(l.dir), err)
	}
	l.published = append(data, '\n')
	if l.keeping == nil {
		l.keeping = make(chan struct{})
		go l.keep(l.keeping)
	}
	if err := disk.Write(infoPath(l.dir), l.published); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// republishAfter is how long others may not find this process when its file is gone. A variable so that tests need not wait.
var republishAfter = 2 * time.Second

// keep writes the file again when it is missing: somebody cleaned up, or the disk was full. Without it this process runs and
// cannot be reached.
func (l *Lock) keep(until <-chan struct{}) {
	tick := time.NewTicker(republishAfter)
	defer tick.Stop()
	for {
		select {
		case <-until:
			return
		case <-tick.C:
		}
		l.mu.Lock()
		if _, err := os.Stat(infoPath(l.dir)); errors.Is(err, fs.ErrNotExist) && !l.released {
			_ = disk.Write(infoPath(l.dir), l.published) // the next tick tries again
		}
		l.mu.Unlock()
	}
}

// Release gives the lock back. It may be called twice.
func (l *Lock) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	l.released = true
	if l.keeping != nil {
		close(l.keeping)
	}
	// First the file, then the lock: the next owner may publish itself at once.
	return errors.Join(remove(infoPath(l.dir)), l.main.Unlock())
}

// Find returns the process that holds stateDir. It is ErrNotRunning when there is none, and ErrStarting when there is one
// that cannot be reached yet.
func Find(stateDir string) (Owner, error) {
	// Without the folder nobody can hold a lock in it, and looking must not create it.
	if _, err := os.Stat(mainPath(stateDir)); err != nil {
		return Owner{}, ErrNotRunning
	}
	probe := flock.New(mainPath(stateDir))
	free := false
	err := guarded(stateDir, func() (err error) {
		free, err = probe.TryLock()
		return errors.Join(err, probe.Unlock())
	})
	switch {
	case err != nil:
		return Owner{}, fmt.Errorf("look for the running Signalbox in %s: %w", stateDir, err)
	case free:
		return Owner{}, ErrNotRunning
	}
	owner, err := read(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return Owner{}, ErrStarting
	}
	return owner, err
}

// Wait is Find, but gives an owner that is starting time until ctx is done.
func Wait(ctx context.Context, stateDir string) (Owner, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		owner, err := Find(stateDir)
		if !errors.Is(err, ErrStarting) {
			return owner, err
		}
		select {
		case <-ctx.Done():
			return Owner{}, err
		case <-tick.C:
		}
	}
}

// NewToken returns a fresh secret for Owner.Token.
func NewToken() string { return rand.Text() }

// guarded runs fn while no other process acquires or looks: one that merely looks holds the lock for a moment, and
// must not make another that wants to run believe that it came second.
func guarded(stateDir string, fn func() error) error {
	const patience = 10 * time.Second // fn takes microseconds; a hundred at once still pass
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	guard := flock.New(filepath.Join(stateDir, "lock.guard"))
	if _, err := guard.TryLockContext(ctx, 2*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s is held for %v: a Signalbox process hangs; end it and try again", guard.Path(), patience)
		}
		return fmt.Errorf("%w%s", err, hint(err, "; if this file system has no locks, set SIGNALBOX_HOME to a folder on a local disk"))
	}
	return errors.Join(fn(), guard.Unlock())
}

// hint says what to do about a folder in which no lock can be had; otherwise is for what is not known better.
func hint(err error, otherwise string) string {
	switch {
	case errors.Is(err, readOnly):
		return "; Signalbox must be able to write there: mount that disk writable again, or set SIGNALBOX_HOME to a folder on another one"
	case errors.Is(err, fs.ErrPermission):
		return "; Signalbox must be able to write there: change who may, or set SIGNALBOX_HOME to another folder"
	case disk.Full(err):
		return "; the disk is full: free some space, or set SIGNALBOX_HOME to a folder on another disk"
	}
	return otherwise
}

func read(stateDir string) (Owner, error) {
	var data []byte
	err := disk.Patiently(func() (err error) {
		data, err = os.ReadFile(infoPath(stateDir))
		return err
	})
	if err != nil {
		return Owner{}, err
	}
	var o Owner
	if err := json.Unmarshal(data, &o); err != nil {
		return Owner{}, fmt.Errorf("read %s: %w", infoPath(stateDir), err)
	}
	return o, nil
}

// removeFile is a variable so that tests need no disk that cannot be written to.
var removeFile = os.Remove

func remove(path string) error {
	err := disk.Patiently(func() error { return removeFile(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

func mainPath(stateDir string) string { return filepath.Join(stateDir, "lock") }
func infoPath(stateDir string) string { return filepath.Join(stateDir, "instance.json") }
