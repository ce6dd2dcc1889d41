//go:build cgo && linux && amd64

package cpu

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// physicalCores counts the machine's cores, hyper-threads of one core once.
func physicalCores() int {
	lists, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
	cores := map[string]bool{}
	for _, file := range lists {
		if list, err := os.ReadFile(file); err == nil {
			cores[strings.TrimSpace(string(list))] = true
		}
	}
	if len(cores) == 0 {
		return runtime.NumCPU()
	}
	return len(cores)
}
