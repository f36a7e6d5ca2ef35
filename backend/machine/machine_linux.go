package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

func source() string { return sourceIn("/sys/class/power_supply") }

// sourceIn looks through the power supplies. One that is online feeds the machine; where none is and a battery is
// discharging, it is the battery. A mouse has a battery too: its scope is Device.
func sourceIn(dir string) string {
	supplies, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	answer := ""
	for _, supply := range supplies {
		read := func(name string) string {
			text, err := os.ReadFile(filepath.Join(dir, supply.Name(), name))
			if err != nil {
				return ""
			}
			return strings.TrimSpace(string(text))
		}
		switch kind := read("type"); {
		case kind == "Mains" || strings.HasPrefix(kind, "USB"):
			if read("online") == "1" {
				return Mains
			}
		case kind == "Battery" && read("scope") != "Device":
			switch read("status") {
			case "Discharging":
				answer = Battery
			case "Charging", "Full", "Not charging":
				if answer == "" {
					answer = Mains
				}
			}
		}
	}
	return answer
}

func energy() (microjoules, wraps uint64, ok bool) { return energyIn("/sys/class/powercap") }

// energyIn reads the processor packages' counters, which most systems let only root read. With several packages their sum
// wraps at no fixed number, so it is not used then.
func energyIn(dir string) (microjoules, wraps uint64, ok bool) {
	const zone = "intel-rapl:0"
	if _, err := os.Stat(filepath.Join(dir, "intel-rapl:1")); err == nil && name(dir, "intel-rapl:1") == "package-1" {
		return 0, 0, false
	}
	microjoules, ok = number(filepath.Join(dir, zone, "energy_uj"))
	if !ok {
		return 0, 0, false
	}
	wraps, ok = number(filepath.Join(dir, zone, "max_energy_range_uj"))
	return microjoules, wraps, ok
}

func name(dir, zone string) string {
	text, _ := os.ReadFile(filepath.Join(dir, zone, "name"))
	return strings.TrimSpace(string(text))
}

func number(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// FreeMemory is how many bytes programs can have without anything being swapped out; 0 where the system does not tell. A limit
// on this process's group counts as the machine's.
func FreeMemory() int64 {
	free := meminfo("MemAvailable:")
	for _, pair := range [][2]string{
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
	} {
		limit, limited := number(pair[0])
		used, known := number(pair[1])
		if limited && known && limit < 1<<60 {
			free = min(free, int64(limit)-int64(min(used, limit))+cached(filepath.Join(filepath.Dir(pair[0]), "memory.stat")))
		}
	}
	return free
}

// TotalMemory is how many bytes of memory this computer has; 0 where the system does not tell.
func TotalMemory() int64 { return meminfo("MemTotal:") }

// meminfo is a line of /proc/meminfo, in bytes; 0 where it cannot be read.
func meminfo(field string) int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kilobytes, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// cached is what a group has in files that can be read again: it is given back when somebody needs it.
func cached(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	var sum int64
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key == "inactive_file" || key == "active_file" {
			n, _ := strconv.ParseInt(value, 10, 64)
			sum += n
		}
	}
	return sum
}

// uptime is the time since the start of the system, asleep or awake.
func uptime() time.Duration {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// Driver names the version of what drives GPUs and NPUs here: their drivers are part of the kernel, which does not change
// while this program runs.
var Driver = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(text))
})
