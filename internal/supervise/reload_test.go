package supervise

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
)

// wantSize waits until a file has so many bytes.
func wantSize(t *testing.T, file string, want int64) {
	t.Helper()
	var size int64
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if info, err := os.Stat(file); err == nil {
			if size = info.Size(); size == want {
				return
			}
		}
	}
	t.Fatalf("%s has %d bytes, want %d", file, size, want)
}

// TestReloadWaitsForTheChild: a process that does not listen yet is not ended by SIGHUP, and gets it once when it does.
func TestReloadWaitsForTheChild(t *testing.T) {
	stop, cancel := context.WithCancel(context.Background())
	kill, slay := context.WithCancel(context.Background())
	var starts atomic.Int32
	c := child("reloads")
	c.Started = func(int) { starts.Add(1) }
	began, ended := start(t, c, stop, kill)
	c.Reload()
	c.Reload()
	wantSize(t, began+".hangups", 1)
	c.Reload()
	wantSize(t, began+".hangups", 2)
	if starts.Load() != 1 {
		t.Errorf("%d processes were started, want 1", starts.Load())
	}
	cancel()
	slay()
	<-ended
	c.Reload() // of none
}

// TestGroupReloads: SIGHUP reaches frontends, executors and those that can be missed if what was read is to be applied, and nobody else.
func TestGroupReloads(t *testing.T) {
	dir := t.TempDir()
	member := func(name, behaviour string) *Child {
		c := child(behaviour)
		c.Args = []string{filepath.Join(dir, name)}
		return c
	}
	apply := make(chan bool) // what Reread says
	g := &Group{
		Log: zap.NewNop(), Frontends: []*Child{member("frontend", "reloads")}, Executors: []*Child{member("executor", "reloads")}, Optional: []*Child{member("video", "reloads")}, Others: []*Child{member("scheduler", "polite")},
		Reread: func() bool { return <-apply },
	}
	signals, over := make(chan os.Signal), make(chan error)
	go func() { over <- g.Run(signals) }()
	for _, name := range []string{"frontend", "executor", "video", "scheduler"} {
		waitFile(t, filepath.Join(dir, name))
	}
	signals <- syscall.SIGHUP // "polite" would end by one
	apply <- true
	for _, name := range []string{"frontend", "executor", "video"} {
		wantSize(t, filepath.Join(dir, name)+".hangups", 1)
	}
	for _, ok := range []bool{false, true} {
		signals <- syscall.SIGHUP
		apply <- ok
	}
	for _, name := range []string{"frontend", "executor", "video"} {
		wantSize(t, filepath.Join(dir, name)+".hangups", 2)
	}
	signals <- syscall.SIGTERM
	if err := <-over; err != nil {
		t.Errorf("Run = %v", err)
	}
}
