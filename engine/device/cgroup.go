package device

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroupFiles are where a version of cgroups keeps the memory of one.
type cgroupFiles struct{ mount, limit, used, cache string }

var (
	cgroupV2     = cgroupFiles{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}
	cgroupHybrid = cgroupFiles{"sys/fs/cgroup/unified", cgroupV2.limit, cgroupV2.used, cgroupV2.cache}
	cgroupV1     = cgroupFiles{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
)

// cgroupLeft is the least of what is left to this process's cgroup and to those above it, each of which
// may have a limit: systemd sets that of a service on the service's own. What is left is the limit less the
// use that cannot be reclaimed; false without a limit. The file system under root is the machine's.
func cgroupLeft(root string) (left int64, ok bool) {
	membership, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(membership)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number:controllers:path
		if len(parts) < 3 {
			continue
		}
		var versions []cgroupFiles
		switch {
		case parts[1] == "":
			versions = []cgroupFiles{cgroupV2, cgroupHybrid}
		case strings.Contains(","+parts[1]+",", ",memory,"):
			versions = []cgroupFiles{cgroupV1}
		}
		for _, v := range versions {
			if n, limited := v.leastMemoryLeft(root, parts[2]); limited && (!ok || n < left) {
				left, ok = n, true
			}
		}
	}
	return left, ok
}

// leastMemoryLeft goes from the cgroup up. In a container the upper part of its path may be missing, or all of it.
func (v cgroupFiles) leastMemoryLeft(root, group string) (left int64, ok bool) {
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		if n, limited := v.memoryLeft(filepath.Join(root, v.mount, group)); limited && (!ok || n < left) {
			left, ok = n, true
		}
		if group == "/" {
			return left, ok
		}
	}
}

func (v cgroupFiles) memoryLeft(dir string) (int64, bool) {
	limit, ok := readInt(filepath.Join(dir, v.limit))
	if !ok || limit > 1<<60 { // version 1 writes a huge number for no limit
		return 0, false
	}
	used, _ := readInt(filepath.Join(dir, v.used))
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	for line := range strings.Lines(string(stat)) {
		if rest, ok := strings.CutPrefix(line, v.cache+" "); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64); err == nil {
				used -= n
			}
		}
	}
	return limit - max(used, 0), true
}

func readInt(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
