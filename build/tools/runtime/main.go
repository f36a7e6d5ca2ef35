// Command runtime makes the folder of native libraries that Signalbox needs, from the wheels that carry them.
//
//	go run ./build/tools/runtime fetch [-target linux-amd64]    download what is missing, verify, unpack; nothing to do: says so
//	go run ./build/tools/runtime lock                           rewrite internal/runtime/lock.json from the wheels it names
//
// Downloads go through Python's own package client, so the machine's settings for it (mirror, proxy, certificates) count and
// no host is named here. To take another version of a package: edit its version and the names of its libraries in lock.json,
// run lock, look at the difference, run the tests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"

	"signalbox/internal/runtime"
)

type options struct {
	python, wheels, dest, lock string
	target                     string
}

func main() {
	var opts options
	flags := flag.NewFlagSet("runtime", flag.ExitOnError)
	flags.StringVar(&opts.python, "python", "python3", "a Python that has pip")
	flags.StringVar(&opts.wheels, "wheels", "build/cache/wheels", "where downloads are kept")
	flags.StringVar(&opts.dest, "dest", "build/bin/runtime", "where the runtime goes")
	flags.StringVar(&opts.lock, "lock", "internal/runtime/lock.json", "the lock file, for the command lock")
	flags.StringVar(&opts.target, "target", goruntime.GOOS+"-"+goruntime.GOARCH, "the system to fetch the runtime for")
	if len(os.Args) < 2 {
		fail(errors.New("say fetch or lock"))
	}
	_ = flags.Parse(os.Args[2:]) // ExitOnError
	switch os.Args[1] {
	case "fetch":
		fail(fetch(opts))
	case "lock":
		fail(relock(opts))
	default:
		fail(fmt.Errorf("%q is neither fetch nor lock", os.Args[1]))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

func fetch(opts options) error {
	lock, err := runtime.Locked()
	if err != nil {
		return err
	}
	target, ok := lock.Targets[opts.target]
	if !ok {
		return fmt.Errorf("there is no runtime for %s", opts.target)
	}
	dest := filepath.Join(opts.dest, target.Name)
	if target.Check(dest) == nil {
		fmt.Printf("runtime: OpenVINO %s for %s is there\n", target.Version, target.Name)
		return nil
	}
	for _, wheel := range target.Wheels {
		if wheel.Has(opts.wheels) == nil {
			continue
		}
		fmt.Printf("runtime: download %s %s for %s\n", wheel.Package, wheel.Version, target.Name)
		if err := download(opts, lock, target, wheel, "--hash=sha256:"+wheel.SHA256); err != nil {
			return err
		}
		if err := wheel.Has(opts.wheels); err != nil {
			return fmt.Errorf("%s is not as the lock says after the download: %w", wheel.File, err)
		}
	}
	fmt.Printf("runtime: unpack OpenVINO %s for %s\n", target.Version, target.Name)
	return target.Unpack(opts.wheels, dest)
}

// download asks Python's package client for one wheel. With a hash, another file is refused by that client already.
func download(opts options, lock runtime.Lock, target runtime.Target, wheel runtime.Wheel, hash string) error {
	if err := os.MkdirAll(opts.wheels, 0o755); err != nil {
		return err
	}
	list, err := os.CreateTemp(opts.wheels, "wanted-*.txt")
	if err != nil {
		return err
	}
	defer os.Remove(list.Name())
	_, err = fmt.Fprintf(list, "%s==%s %s\n", wheel.Package, wheel.Version, hash)
	if err = errors.Join(err, list.Close()); err != nil {
		return err
	}
	if wheel.File != "" { // a broken download of an earlier run would be taken for the file
		if err := os.Remove(filepath.Join(opts.wheels, wheel.File)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	pip := exec.Command(opts.python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
		"--only-binary=:all:", "--implementation", "cp", "--python-version", lock.Python, "--platform", target.Platform,
		"--dest", opts.wheels, "--requirement", list.Name())
	pip.Stdout, pip.Stderr = os.Stdout, os.Stderr
	if err := pip.Run(); err != nil {
		return fmt.Errorf("download %s %s: %w (is the network there, and Python's package index reachable?)", wheel.Package, wheel.Version, err)
	}
	return nil
}
