package procfs

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestChildren(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	isIt := func(p Process) bool {
		return p.PID == cmd.Process.Pid && slices.Equal(p.Args, []string{"sleep", "60"})
	}
	if found := Children(os.Getpid()); !slices.ContainsFunc(found, isIt) {
		t.Errorf("children are %v, want sleep 60 among them", found)
	}
	if n, err := Memory(cmd.Process.Pid); err != nil || n <= 0 || n > 1<<30 {
		t.Errorf("sleep has %d bytes, %v", n, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if found := Children(os.Getpid()); slices.ContainsFunc(found, isIt) {
		t.Errorf("children are %v after the end of sleep", found)
	}
	if _, err := Memory(cmd.Process.Pid); err == nil {
		t.Error("a process that has ended has memory")
	}
}
