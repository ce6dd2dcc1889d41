package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lives starts a server that takes a process for hung after hangTimeout.
func lives(t *testing.T, harm string, args ...string) *program {
	t.Helper()
	return start(t, []string{poisonEnv + "=" + harm}, append([]string{"--hang-timeout", hangTimeout.String(), "--device", "null"}, args...)...)
}

// halt stops a child and waits until all of its threads stand still: a busy machine lets some of them go on
// for a while. The child is returned.
func (p *program) halt(role string) int {
	p.Helper()
	pid := p.child(role)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		p.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); running(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("the %s does not stop", role)
		}
	}
	return pid
}

// running says that a thread of a process does not stand still.
func running(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(threads, func(file string) bool {
		text, err := os.ReadFile(file)
		state := text[bytes.LastIndexByte(text, ')')+1:]
		return err == nil && !bytes.HasPrefix(state, []byte(" T"))
	})
}

// TestStoppedProcesses: a process of any role that stands still is killed and started again. Requests
// under way get their answers, but for those of a frontend.
func TestStoppedProcesses(t *testing.T) {
	p := lives(t, "")
	p.within("ready", p.ready)
	for _, role := range []string{"executor", "scheduler", "frontend"} {
		p.answers("before the " + role + " is stopped")
		stopped := time.Now()
		p.strike(role, syscall.SIGSTOP)
		p.answers("after the " + role + " was stopped")
		t.Logf("%s: answered %v after it was stopped", role, time.Since(stopped).Round(time.Millisecond))
	}
	if n := strings.Count(p.logged(), "gives no sign of life"); n != 3 {
		t.Errorf("%d processes were killed for their silence, want 3", n)
	}
}

// TestRequestsOutliveAStoppedProcess: requests that wait in an executor or a scheduler that stands still
// are answered by its successor.
func TestRequestsOutliveAStoppedProcess(t *testing.T) {
	p := lives(t, "")
	p.within("ready", p.ready)
	for _, role := range []string{"executor", "scheduler"} {
		old := p.halt(role)
		answers := make(chan string, 8)
		for i := range cap(answers) {
			go func() {
				status, text, err := p.complete(http.DefaultClient, fmt.Sprint("user ", i), 1)
				answers <- fmt.Sprint(status, err, text)
			}()
		}
		for range cap(answers) {
			if got := <-answers; !strings.HasPrefix(got, "200 <nil>") {
				t.Errorf("a request while the %s was stopped got %s", role, got)
			}
		}
		if p.child(role) == old {
			t.Errorf("the stopped %s goes on", role)
		}
	}
}

// TestStuckExecutor: a pass that never returns, in a process whose other threads go on, ends its executor.
func TestStuckExecutor(t *testing.T) {
	p := lives(t, "hang")
	p.within("ready", p.ready)
	response, err := http.Post(p.base+"/v1/completions", "application/json", poisonedRequest())
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, response); response.StatusCode != 500 || !strings.Contains(text, "2 executors died") {
		t.Errorf("the request whose pass never returns got %d %s", response.StatusCode, text)
	}
	p.answers("after two hung passes")
}

// TestLongPass: a pass that computes for longer than a process may be silent is no hang.
func TestLongPass(t *testing.T) {
	p := lives(t, "compute")
	p.within("ready", p.ready)
	response, err := http.Post(p.base+"/v1/completions", "application/json", poisonedRequest())
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, response); response.StatusCode != 200 || strings.Contains(p.logged(), "is started again") {
		t.Errorf("a pass of %v beside a limit of %v got %d %s", computing, hangTimeout, response.StatusCode, text)
	}
}

// TestLoading: an executor that hangs while it loads is started again, one that loads slowly is let.
func TestLoading(t *testing.T) {
	for harm, restarts := range map[string]int{"hang loading": 1, "slow loading": 0} {
		t.Run(harm, func(t *testing.T) {
			t.Parallel()
			p := lives(t, harm)
			p.within("ready", p.ready)
			if n := strings.Count(p.logged(), "is started again"); n != restarts {
				t.Errorf("%d restarts before the server was ready, want %d", n, restarts)
			}
		})
	}
}

// TestNotReadyBesideAStoppedScheduler: /ready tells within a few heartbeats that nobody schedules.
func TestNotReadyBesideAStoppedScheduler(t *testing.T) {
	p := start(t, nil, "--hang-timeout", "0", "--device", "null")
	p.within("ready", p.ready)
	stopped := p.halt("scheduler")
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		response, err := http.Get(p.base + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, response); response.StatusCode == 503 && strings.Contains(text, "scheduler has been silent") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("/ready still says 200")
		}
	}
	_ = syscall.Kill(stopped, syscall.SIGCONT)
	p.answers("after the scheduler goes on")
}
