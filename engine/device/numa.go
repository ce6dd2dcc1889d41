package device

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// numaNodes is where Linux lists the nodes of memory and their processors.
const numaNodes = "/sys/devices/system/node"

// processorsOf divides the nodes with processors of allowed among ranks, so that each rank computes
// beside its own memory. It is nil where the nodes cannot be divided so: with fewer than ranks.
func processorsOf(ranks int, dir string, allowed func(cpu int) bool) [][]int {
	lists, _ := filepath.Glob(filepath.Join(dir, "node[0-9]*", "cpulist"))
	var nodes [][]int
	for _, file := range lists {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		cpus := slices.DeleteFunc(parseCPUList(string(text)), func(cpu int) bool { return !allowed(cpu) })
		if len(cpus) > 0 {
			nodes = append(nodes, cpus)
		}
	}
	if len(nodes) == 0 || len(nodes)%ranks != 0 {
		return nil
	}
	var all [][]int
	for group := range slices.Chunk(nodes, len(nodes)/ranks) {
		all = append(all, slices.Concat(group...))
	}
	return all
}

// parseCPUList reads a list like 0-3,8; what it cannot read it leaves out.
func parseCPUList(text string) []int {
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		for cpu := from; err == nil && err2 == nil && cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// pinThread keeps the calling OS thread, and those it starts, on the processors.
func pinThread(cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("keep a rank's threads on processors %v: %w", cpus, err)
	}
	return nil
}

// mayUse says which processors this process may use.
func mayUse() (func(cpu int) bool, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("which processors may be used: %w", err)
	}
	return set.IsSet, nil
}
