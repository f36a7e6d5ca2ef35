package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk is a file system that is full when a few bytes have been written.
type SmallDisk struct {
	Dir string // empty, and on that file system
	// Grow makes it that many bytes large.
	Grow func(t testing.TB, size int64)
}

// inNamespace is set where a test runs again, in a user namespace of its own.
const inNamespace = "SIGNALBOX_TEST_NAMESPACE"

// largestShared is how large a file system may be that a test fills for everybody.
const largestShared = 256 << 20

// OnSmallDisk runs a test with a disk of so many bytes. It needs no rights: where this user may mount nothing, the whole test runs
// again in a user namespace, in which he may; and in a container that allows neither, all but size bytes of its own small
// /dev/shm are filled. It skips where there is none of the three.
func OnSmallDisk(t *testing.T, size int64, run func(t *testing.T, disk SmallDisk)) {
	t.Helper()
	dir := t.TempDir()
	mount := func(flags uintptr, size int64) error {
		return syscall.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("size=%d,mode=700", size))
	}
	err := mount(0, size)
	if err == nil {
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		run(t, SmallDisk{dir, func(t testing.TB, size int64) {
			if err := mount(syscall.MS_REMOUNT, size); err != nil {
				t.Fatal(err)
			}
		}})
		return
	}
	if os.Getenv(inNamespace) != "" {
		t.Fatalf("mount a small file system in a namespace: %v", err)
	}
	if mayMountInNamespace(dir) {
		again(t)
		return
	}
	shared, ok := smallShared(t, size)
	if !ok {
		t.Skipf("this machine allows neither a small file system (%v) nor one in a user namespace, and has no small /dev/shm", err)
	}
	run(t, shared)
}

// mayMountInNamespace tries.
func mayMountInNamespace(dir string) bool {
	try := exec.Command("mount", "-t", "tmpfs", "-o", "size=4096", "tmpfs", dir)
	try.SysProcAttr = namespace()
	return try.Run() == nil
}

func namespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// again runs the test in a user namespace.
func again(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v") //nolint:gosec // this very test
	cmd.SysProcAttr, cmd.Env = namespace(), append(os.Environ(), inNamespace+"=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("in a user namespace: %v\n%s", err, said)
	}
}

// smallShared fills the shared memory of a container.
func smallShared(t *testing.T, size int64) (d SmallDisk, ok bool) {
	t.Helper()
	const shm = "/dev/shm"
	var fs syscall.Statfs_t
	if syscall.Statfs(shm, &fs) != nil || int64(fs.Blocks)*fs.Bsize > largestShared || int64(fs.Bavail)*fs.Bsize < size {
		return d, false
	}
	dir, err := os.MkdirTemp(shm, "signalbox-test-")
	if err != nil {
		return d, false
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	filler, err := os.CreateTemp(shm, "signalbox-filler-")
	if err != nil {
		return d, false
	}
	t.Cleanup(func() { _ = os.Remove(filler.Name()) })
	full := int64(fs.Bavail)*fs.Bsize - size
	if err := syscall.Fallocate(int(filler.Fd()), 0, 0, max(full, 1)); err != nil {
		return d, false
	}
	d.Dir = filepath.Join(dir, "disk")
	grow := func(t testing.TB, to int64) {
		if err := filler.Truncate(max(0, full-(to-size))); err != nil {
			t.Fatal(err)
		}
	}
	return SmallDisk{d.Dir, grow}, os.Mkdir(d.Dir, 0o700) == nil
}
