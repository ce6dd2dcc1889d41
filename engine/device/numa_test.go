package device

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prefillonly/prefillonly/internal/osthread"
)

func TestProcessorsOf(t *testing.T) {
	for _, c := range []struct {
		nodes []string
		ranks int
		want  string
	}{
		{[]string{"0-3", "4-7"}, 2, "[[1 2 3] [4 5 6 7]]"},
		{[]string{"0-1,4-5", "2-3,6-7"}, 2, "[[1 4 5] [2 3 6 7]]"},
		{[]string{"0-1", "2", "3", "4"}, 2, "[[1 2] [3 4]]"},
		{[]string{"0-3", ""}, 1, "[[1 2 3]]"}, // a node without processors has memory alone
		{[]string{"0-3"}, 2, "[]"},
		{[]string{"0-1", "2", "3"}, 2, "[]"},
		{[]string{"0", "2-3"}, 2, "[]"}, // none of the first may be used
		{nil, 2, "[]"},
	} {
		dir := t.TempDir()
		for i, list := range c.nodes {
			node := filepath.Join(dir, fmt.Sprint("node", i))
			if err := os.Mkdir(node, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(node, "cpulist"), []byte(list+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := processorsOf(c.ranks, dir, func(cpu int) bool { return cpu > 0 })
		if fmt.Sprint(got) != c.want {
			t.Errorf("%d ranks on nodes %q: %v, want %s", c.ranks, c.nodes, got, c.want)
		}
	}
}

func TestPin(t *testing.T) {
	allowed, err := mayUse()
	if err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !allowed(cpu) {
		cpu++
	}
	var set unix.CPUSet
	err = osthread.Do(func() error {
		if err := pinThread([]int{cpu}); err != nil {
			return err
		}
		return unix.SchedGetaffinity(0, &set)
	})
	if err != nil || set.Count() != 1 || !set.IsSet(cpu) {
		t.Errorf("pinned to processor %d: %d processors, %v", cpu, set.Count(), err)
	}
}
