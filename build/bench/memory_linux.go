package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// residentKB is a process's resident memory (proc_pid_status(5)).
func residentKB(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(value)[0])
			return kb
		}
	}
	return 0
}

// childrenOf lists a process's children, by any of its threads.
func childrenOf(pid int) (list []string) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		list = append(list, strings.Fields(string(text))...)
	}
	return list
}
