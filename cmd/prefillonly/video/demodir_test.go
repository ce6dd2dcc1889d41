package video

import (
	"os"
	"path/filepath"
	"strings"
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
