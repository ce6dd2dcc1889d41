package dirlock

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// holdEnv makes this program hold a directory until it is killed.
const holdEnv = "DIRLOCK_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		if _, err := Take(dir, "serve"); err != nil {
			panic(err)
		}
		os.Stdout.WriteString("held\n")
		select {} // it is killed
	}
	os.Exit(m.Run())
}

// TestTakeTwice: what a process has is refused to others, which are told whose it is, by whatever path they come; when it is killed it
// is free.
func TestTakeTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	holder := exec.Command("/proc/self/exe")
	holder.Env = append(os.Environ(), holdEnv+"="+dir)
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Process.Kill()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		_, err := Take(path, "serve")
		var held *HeldError
		if !errors.As(err, &held) || held.Path != path || held.PID != strconv.Itoa(holder.Process.Pid) || !strings.Contains(err.Error(), path+" is in use by process "+held.PID) {
			t.Errorf("%s: %v", path, err)
		}
	}
	other, err := Take(dir, "other")
	if err != nil {
		t.Errorf("for something else: %v", err)
	}
	other.Close()
	_ = holder.Process.Kill()
	_ = holder.Wait()
	for range 2 { // also after it was given back
		own, err := Take(dir, "serve")
		if err != nil {
			t.Fatalf("after its process was killed: %v", err)
		}
		if text, _ := os.ReadFile(filepath.Join(dir, "serve.lock")); string(text) != strconv.Itoa(os.Getpid())+"\n" {
			t.Errorf("the lock file says %q", text)
		}
		own.Close()
	}
}
