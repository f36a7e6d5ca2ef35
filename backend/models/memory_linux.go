package models

import (
	"bufio"
	"fmt"
	"os"
)

func memoryInfo() (available, total int64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var name string
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "%s %d", &name, &kib); n != 2 {
			continue
		}
		switch name {
		case "MemTotal:":
			total = kib << 10
		case "MemAvailable:":
			available = kib << 10
		}
	}
	return available, total
}
