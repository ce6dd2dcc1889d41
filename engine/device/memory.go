package device

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// availableMemory is what this process may still use: the kernel's estimate, or what is left of the
// least limit of its cgroups when that is less.
func availableMemory() (int64, error) {
	available, err := memAvailable("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	if left, ok := cgroupLeft("/"); ok {
		available = min(available, left)
	}
	return available, nil
}

func memAvailable(file string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no MemAvailable", file)
}

// limitMemory is what models may take of an amount.
func (o *Options) limitMemory(available int64) int64 {
	if o.Memory > 0 {
		return min(o.Memory, available)
	}
	return available
}
