// Package procfs reads from /proc what tests and measurements need to know of other processes: whose
// child each is, and how much memory it holds.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a process of this machine.
type Process struct {
	PID  int
	Args []string // its command line
}

// Children lists the children of a process that have not ended.
func Children(parent int) []Process {
	var found []Process
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) || fields[0] == "Z" {
			continue
		}
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		args, _ := os.ReadFile(filepath.Dir(file) + "/cmdline")
		found = append(found, Process{id, strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")})
	}
	return found
}

// Memory is the memory of a process that no file backs, in bytes; an error once it has ended.
func Memory(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("process %d has ended", pid)
}
