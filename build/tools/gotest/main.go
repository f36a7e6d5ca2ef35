// Command gotest runs go test and says at the end how many tests passed, failed and were skipped. It prints a line a package,
// and all that a failed test said.
//
//	go run ./build/tools/gotest -counts build/cache/counts -race ./...     further words are go test's
//	go run ./build/tools/gotest -sum build/cache/counts                    the sum of several runs
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// event is one line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func main() {
	args := os.Args[1:]
	file := ""
	if len(args) >= 2 && (args[0] == "-counts" || args[0] == "-sum") {
		file = args[1]
		if args[0] == "-sum" {
			fail(sum(file, os.Stdout))
			return
		}
		args = args[2:]
	}
	total, ok, err := run(args, os.Stdout)
	fail(err)
	fmt.Println(total)
	if file != "" {
		fail(add(file, total))
	}
	if !ok {
		os.Exit(1)
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// run runs go test with args; ok tells whether it ended well.
func run(args []string, out io.Writer) (total counts, ok bool, err error) {
	command := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		return total, false, err
	}
	if err := command.Start(); err != nil {
		return total, false, err
	}
	if total, err = read(stdout, out); err != nil {
		return total, false, errors.Join(err, command.Process.Kill(), command.Wait())
	}
	err = command.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return total, false, nil
	}
	return total, err == nil, err
}

// read counts the tests of a -json stream and prints what people want to see of it.
func read(stream io.Reader, out io.Writer) (counts, error) {
	var total counts
	said := map[string][]string{} // by package and test, until it is known how the test ended
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return total, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return total, err
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Fprint(out, line)
			continue
		}
		total.take(e, said, out)
	}
}

func (c *counts) take(e event, said map[string][]string, out io.Writer) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		if e.Test == "" && isResult(e.Output) {
			fmt.Fprint(out, e.Output)
		} else {
			said[key] = append(said[key], e.Output)
		}
	case "fail":
		fmt.Fprint(out, strings.Join(said[key], ""))
		if e.Test != "" {
			c.failed++
		}
		delete(said, key)
	case "skip":
		if e.Test != "" {
			c.skipped++
			fmt.Fprint(out, strings.Join(said[key], ""))
		}
		delete(said, key)
	case "pass":
		if e.Test != "" {
			c.passed++
		}
		delete(said, key)
	}
}

// isResult tells a package's closing line from what its tests print.
func isResult(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t")
}

func add(file string, total counts) error {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, total)
	return errors.Join(err, out.Close())
}

func sum(file string, out io.Writer) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var total counts
	for line := range strings.Lines(string(data)) {
		var one counts
		if _, err := fmt.Sscanf(line, "%d passed, %d failed, %d skipped", &one.passed, &one.failed, &one.skipped); err != nil {
			return fmt.Errorf("%s: %q: %w", file, line, err)
		}
		total.passed += one.passed
		total.failed += one.failed
		total.skipped += one.skipped
	}
	fmt.Fprintln(out, total)
	return nil
}
