package device

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// TestOwnCgroup reads the limit of a real cgroup, from inside of it, where this process may make one.
func TestOwnCgroup(t *testing.T) {
	if os.Getenv("PREFILLONLY_TEST_CGROUP") != "" {
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is in the group
		left, limited := cgroupLeft("/")
		fmt.Println("left", left, limited)
		return
	}
	const limit = 300 << 20
	group := childCgroup(t, limit)
	child := exec.Command(os.Args[0], "-test.run=^TestOwnCgroup$")
	child.Env = append(os.Environ(), "PREFILLONLY_TEST_CGROUP=1")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	child.Stdout = &output
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(child.Process.Pid)), 0o644); err != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
		t.Skipf("no process can be moved: %v", err)
	}
	input.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	var left int64
	var limited bool
	if _, err := fmt.Sscanf(output.String(), "left %d %t", &left, &limited); err != nil || !limited || left > limit || left < limit/2 {
		t.Errorf("%q in a cgroup of %d bytes", output.String(), limit)
	}
	if outside, _ := cgroupLeft("/"); outside == left {
		t.Errorf("as much is left outside of it: %d", outside)
	}
}

// childCgroup makes a cgroup below this process's, with a limit of memory, for the length of the test.
func childCgroup(t *testing.T, limit int) string {
	membership, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(membership)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		for _, v := range []cgroupFiles{cgroupV2, cgroupHybrid, cgroupV1} {
			if len(parts) < 3 || (parts[1] == "") == (v == cgroupV1) || v == cgroupV1 && parts[1] != "memory" {
				continue
			}
			dir := filepath.Join("/", v.mount, parts[2], fmt.Sprint("prefillonly-test-", os.Getpid()))
			if os.Mkdir(dir, 0o755) != nil {
				continue
			}
			t.Cleanup(func() { _ = os.Remove(dir) })
			if os.WriteFile(filepath.Join(dir, v.limit), []byte(strconv.Itoa(limit)), 0o644) == nil {
				return dir
			}
		}
	}
	t.Skip("this process may make no cgroup with a limit of memory")
	return ""
}
