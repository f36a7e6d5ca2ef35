package backend

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// portHolder finds the program that listens on a port of this machine, as far as this user may see it: the socket's inode
// from /proc/net/tcp (proc_pid_net(5)), then the process with a descriptor of that inode.
func portHolder(port int) (name string, pid int, ok bool) {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, inode := range listening(table, port) {
			inodes["socket:["+inode+"]"] = true
		}
	}
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, path := range descriptors {
		target, err := os.Readlink(path)
		if err != nil || !inodes[target] {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil {
			continue
		}
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return strings.TrimSpace(string(comm)), pid, true
	}
	return "", 0, false
}

// listening are the inodes of the sockets that listen on a port, from one of the kernel's tables.
func listening(table string, port int) (inodes []string) {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// sl local_address rem_address st ... uid timeout inode; 0A is LISTEN
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[3] == "0A" {
			inodes = append(inodes, fields[9])
		}
	}
	return inodes
}
