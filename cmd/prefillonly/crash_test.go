package main

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// fatal are the signals of a crash: memory faults, an abort in a library, and Go's own way to end with
// its stacks, as which panics count too.
var fatal = []syscall.Signal{syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGQUIT}

// TestCrashedProcesses: a process of any role that crashes, by whatever signal or by a panic, is started
// again like one that was killed.
func TestCrashedProcesses(t *testing.T) {
	p := serve(t, nil, "--device", "null")
	for _, role := range []string{"executor", "scheduler", "frontend"} {
		for _, sig := range fatal {
			p.strike(role, sig)
			p.answers(fmt.Sprintf("after %v in the %s", sig, role))
		}
	}
}

// answers waits until a request is answered as it should be.
func (p *program) answers(when string) {
	p.Helper()
	client := &http.Client{Timeout: 60 * time.Second}
	defer client.CloseIdleConnections()
	if status, text, err := p.complete(client, "Hello", 1); err != nil || status != 200 {
		p.Fatalf("%s: %d %s %v, want 200", when, status, text, err)
	}
}

// TestPanickingExecutor: a panic outside a pass ends the process, and that alone.
func TestPanickingExecutor(t *testing.T) {
	p := serve(t, []string{poisonEnv + "=panic"}, "--device", "null")
	response, err := http.Post(p.base+"/v1/completions", "application/json", poisonedRequest())
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, response); response.StatusCode != 500 {
		t.Errorf("the request that panics got %d %s, want 500", response.StatusCode, text)
	}
	p.answers("after two panics")
}
