package dirlock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestTempSweeps: a process removes the directories of those that were killed, and no others.
func TestTempSweeps(t *testing.T) {
	const prefix = "prefillonly_"
	parent := t.TempDir()
	if err := os.WriteFile(filepath.Join(parent, prefix+"1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(parent, prefix+"2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(parent, prefix+"mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	claimed := func() (string, *os.File) {
		dir, lock, err := Temp(parent, prefix)
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
	if err != nil || len(left) != 5 || !strings.Contains(text, alive) || !strings.Contains(text, own) || strings.Contains(text, killed) {
		t.Errorf("there are %v, %v; want %s, %s, a file, a link and a directory of another name", names, err, alive, own)
	}
}

// TestTempSaysWhyAndLeavesNothing: with no file to open the error is not one of locks, and no directory stays.
func TestTempSaysWhyAndLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	dir, _, err := Temp(parent, "prefillonly-run-")
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EMFILE) || dir != "" {
		t.Errorf("%q, %v; want that too many files are open", dir, err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 1 {
		t.Errorf("%d directories are left, %v", len(left), err)
	}
}
