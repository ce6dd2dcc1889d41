package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// program builds the program under test.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	binary := filepath.Join(t.TempDir(), "prefillonly")
	if text, err := exec.Command("go", "build", "-o", binary, "../../cmd/prefillonly").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return binary
}

// mustSoak demands that nothing goes wrong.
func mustSoak(t *testing.T, c config) *report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := soakAndPrint(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSoak is the short form of `make soak`: a minute of mixed traffic, frames of a network among it, its last two thirds with faults.
func TestSoak(t *testing.T) {
	r := mustSoak(t, config{
		binary: program(t), device: "cpu", frames: true, frontends: 2, clients: 8, duration: 50 * time.Second, every: 3 * time.Second,
		signals: "KILL,SEGV,STOP", roles: "executor,scheduler,frontend", silence: 3 * time.Second, seed: 1, flatWithin: 32 << 20,
	})
	if len(r.faults) < 3 {
		t.Errorf("%d faults, want at least 3", len(r.faults))
	}
}

// TestSoakStreams is the short form of the second half of `make soak-video`: streams of a file and of a camera with DDS beside requests.
func TestSoakStreams(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	camera := filepath.Join(t.TempDir(), "camera")
	if text, err := exec.Command("go", "build", "-o", camera, "../../cmd/camera").CombinedOutput(); err != nil {
		t.Skipf("the camera's program cannot be built: %v\n%s", err, text)
	}
	clip, err := filepath.Abs("../../videoext/media/ffmpeg/testdata/drawn.mp4")
	if err != nil {
		t.Fatal(err)
	}
	r := mustSoak(t, config{
		binary: program(t), device: "cpu", frames: true, streams: true, clip: clip, camera: camera, frontends: 2, clients: 4, duration: 50 * time.Second, every: 3 * time.Second,
		signals: "KILL,SEGV,STOP", roles: "video,executor,scheduler,frontend", silence: 3 * time.Second, seed: 3, flatWithin: 32 << 20,
	})
	if len(r.faults) < 3 || r.streams.cameras < 2 {
		t.Errorf("%d faults and %d cameras", len(r.faults), r.streams.cameras)
	}
	if dds := r.streams.all[1]; dds.number == uint64(dds.final) {
		t.Error("DDS asked for no region")
	}
}

// TestSoakModels is half a minute of the same on three models in memory for one and a bit: nothing is lost or wrong
// while they take turns and processes die.
func TestSoakModels(t *testing.T) {
	r := mustSoak(t, config{
		binary: program(t), device: "cpu", models: 3, memory: "140MiB", frontends: 2, clients: 8, duration: 30 * time.Second, every: 3 * time.Second,
		signals: "KILL,SEGV,STOP", roles: "executor,scheduler,frontend", silence: 3 * time.Second, seed: 4, flatWithin: 32 << 20,
	})
	if len(r.faults) < 2 {
		t.Errorf("%d faults, want at least 2", len(r.faults))
	}
}

// TestStrikes is the short form of `make strikes`: nothing is lost but by a dying frontend, nothing hangs.
func TestStrikes(t *testing.T) {
	mustSoak(t, config{
		binary: program(t), device: "null", frontends: 2, clients: 16, faults: 12,
		signals: "KILL,SEGV,KILL,STOP", roles: "executor,scheduler,frontend", silence: 3 * time.Second, seed: 2, flatWithin: 32 << 20,
	})
}

// steady is a long life of the scheduler that holds so many bytes.
func steady(bytes int64) *life {
	return &life{process: process{name: "scheduler", pid: 1}, samples: slices.Repeat([]int64{bytes}, 500)}
}

// TestVerdict: what is wrong is told.
func TestVerdict(t *testing.T) {
	now := time.Now()
	grown := &life{process: process{name: "scheduler"}, samples: append(slices.Repeat([]int64{50 << 20}, 80), slices.Repeat([]int64{200 << 20}, 20)...)}
	for _, c := range []struct {
		name string
		do   func(*report)
		want string // in the verdict; empty for none
	}{
		{"nothing", func(*report) {}, ""},
		{"a wrong answer", func(r *report) { r.addOutcome(&kinds[0], wrong, "x", now, 0) }, "score: 1 wrong"},
		{"a hung request", func(r *report) { r.addOutcome(&kinds[0], hung, "x", now, 0) }, "score: 1 hung"},
		{"an error", func(r *report) { r.addOutcome(&kinds[0], failed, "x", now, 0) }, "score: 1 failed"},
		{"a lost connection", func(r *report) { r.addOutcome(&kinds[0], lost, "EOF", now, 0) }, "no frontend was struck"},
		{"one lost beside an executor's death", func(r *report) {
			r.addFault(fault{role: "executor", at: now, over: now})
			r.addOutcome(&kinds[0], lost, "EOF", now, 0)
		}, "no frontend was struck"},
		{"one lost by a frontend", func(r *report) {
			r.addFault(fault{role: "frontend", at: now, over: now})
			r.addOutcome(&kinds[0], lost, "EOF", now, 0)
		}, ""},
		{"refusals", func(r *report) { r.addOutcome(&kinds[0], busy, "429", now, 0) }, ""},
		{"a process that grows", func(r *report) { r.memory.lives = append(r.memory.lives, grown) }, "scheduler (process 0) grew from 50 MiB to 200 MiB"},
		{"a short life that fills its caches", func(r *report) { r.memory.lives = append(r.memory.lives, grown, steady(190<<20)) }, ""},
		{"a short life that grows beyond", func(r *report) { r.memory.lives = append(r.memory.lives, steady(120<<20), grown) }, "grew from 50 MiB to 200 MiB"},
	} {
		r := newReport(config{flatWithin: 32 << 20})
		r.memory.every = time.Second
		c.do(r)
		if err := r.verdict(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestEnded: only the end of a connection that was there is the death of a process that held it.
func TestEnded(t *testing.T) {
	if _, err := http.Get("http://127.0.0.1:1/"); err == nil || isConnectionEnd(err) {
		t.Errorf("a port that refuses connections is taken for a dying process: %v", err)
	}
	if !isConnectionEnd(fmt.Errorf("read tcp: connection reset by peer")) {
		t.Error("a reset is not taken for one")
	}
}
