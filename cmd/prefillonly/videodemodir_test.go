package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestClaimDemoDir: a run removes the directories of those that were killed, and no others.
func TestClaimDemoDir(t *testing.T) {
	parent := t.TempDir()
	if err := os.WriteFile(filepath.Join(parent, demoPrefix+"file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(parent, demoPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	claimed := func() (string, *os.File) {
		dir, lock, err := claimDemoDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "street.ivf"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir, lock
	}
	killed, lock := claimed()
	alive, other := claimed()
	defer other.Close()
	if _, err := os.Stat(killed); err != nil {
		t.Fatalf("a run that was there is not: %v", err)
	}
	lock.Close() // as the system does when it is killed
	own, third := claimed()
	defer third.Close()
	left, err := os.ReadDir(parent)
	var names []string
	for _, entry := range left {
		names = append(names, filepath.Join(parent, entry.Name()))
	}
	text := strings.Join(names, " ")
	if err != nil || len(left) != 4 || !strings.Contains(text, alive) || !strings.Contains(text, own) || strings.Contains(text, killed) {
		t.Errorf("there are %v, %v; want %s, %s, a file and a link", names, err, alive, own)
	}
}

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
