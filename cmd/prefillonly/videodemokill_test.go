package main

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestDemoAfterKill: kill -9 of a demo leaves its directory to the next one.
func TestDemoAfterKill(t *testing.T) {
	temporary, bin := t.TempDir(), buildCamera(t)
	run := func(until string) {
		cmd := command([]string{"TMPDIR=" + temporary, "PATH=" + bin + ":" + os.Getenv("PATH")}, "video", "demo", "--port", "0", "--no-browser")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), until) {
		}
		how := syscall.SIGKILL
		if until != "drawing" {
			how = syscall.SIGINT
		}
		if err := cmd.Process.Signal(how); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // one of them was killed
	}
	run("drawing")
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 1 {
		t.Fatalf("a killed demo leaves %v, %v; want its directory", left, err)
	}
	run("starting")
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("the next one leaves %v, %v", left, err)
	}
}
