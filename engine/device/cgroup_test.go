package device

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCgroupLeft(t *testing.T) {
	const (
		v2      = "sys/fs/cgroup/"
		v1      = "sys/fs/cgroup/memory/"
		hybrid  = "sys/fs/cgroup/unified/"
		service = "system.slice/prefillonly.service/"
		member2 = "0::/system.slice/prefillonly.service\n"
		member1 = "12:cpu,cpuacct:/elsewhere\n4:memory:/system.slice/prefillonly.service\n1:name=systemd:/system.slice/prefillonly.service\n"
	)
	for _, c := range []struct {
		name       string
		membership string
		files      map[string]string
		left       int64
		limited    bool
	}{
		{"no files", "", nil, 0, false},
		{"no limit", member2, map[string]string{v2 + service + "memory.max": "max\n", v2 + service + "memory.current": "5\n"}, 0, false},
		{"the process's own", member2, map[string]string{
			v2 + service + "memory.max": "2000\n", v2 + service + "memory.current": "1500\n",
			v2 + service + "memory.stat": "anon 100\ninactive_file 400\n",
		}, 900, true},
		{"its parent's is less", member2, map[string]string{
			v2 + service + "memory.max": "2000\n", v2 + service + "memory.current": "100\n",
			v2 + "system.slice/memory.max": "3000\n", v2 + "system.slice/memory.current": "2500\n",
		}, 500, true},
		{"its parent has none", member2, map[string]string{
			v2 + service + "memory.max": "2000\n", v2 + "system.slice/memory.max": "max\n",
		}, 2000, true},
		{"another's", member2, map[string]string{v2 + "system.slice/other.service/memory.max": "7\n"}, 0, false},
		{"a container with a namespace", "0::/\n", map[string]string{v2 + "memory.max": "1000\n"}, 1000, true},
		{"a container without one", "4:memory:/docker/0123\n", map[string]string{v1 + "memory.limit_in_bytes": "1000\n"}, 1000, true},
		{"above the namespace", "0::/../..\n", map[string]string{v2 + "memory.max": "1000\n"}, 1000, true},
		{"version 1", member1, map[string]string{
			v1 + service + "memory.limit_in_bytes": "1000\n", v1 + service + "memory.usage_in_bytes": "700\n",
			v1 + service + "memory.stat": "cache 500\ntotal_inactive_file 300\n",
		}, 600, true},
		{"version 1 without a limit", member1, map[string]string{v1 + service + "memory.limit_in_bytes": "9223372036854771712\n"}, 0, false},
		{"version 1 by its parent", member1, map[string]string{
			v1 + service + "memory.limit_in_bytes": "9223372036854771712\n", v1 + "memory.limit_in_bytes": "800\n",
		}, 800, true},
		{"both versions", member1 + "0::/user.slice\n", map[string]string{
			v1 + "memory.limit_in_bytes": "800\n", hybrid + "user.slice/memory.max": "300\n",
		}, 300, true},
	} {
		root := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if c.membership != "" {
			write("proc/self/cgroup", c.membership)
		}
		for name, text := range c.files {
			write(name, text)
		}
		if left, limited := cgroupLeft(root); left != c.left || limited != c.limited {
			t.Errorf("%s: %d, %v, want %d, %v", c.name, left, limited, c.left, c.limited)
		}
	}
}
