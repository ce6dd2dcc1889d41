package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/procfs"
)

// TestDrain: SIGTERM lets an open request finish. For the grace period probes and new requests are told of it,
// then connections are refused, and serve exits 0 with no process left.
func TestDrain(t *testing.T) {
	p := serve(t, nil, "--drain-timeout", "60s", "--drain-grace-period", "3s")
	kids := procfs.Children(p.cmd.Process.Pid)
	answer := p.begin(4000)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	p.eventually("/ready says 503", func() bool {
		response, err := fresh.Get(p.base + "/ready")
		return err == nil && strings.Contains(readAll(p, response), "shutting down") && response.StatusCode == http.StatusServiceUnavailable
	})
	response, err := fresh.Post(p.base+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"Hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	text := readAll(t, response)
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" || !response.Close || !strings.Contains(text, "shutting_down") {
		t.Errorf("a new request got %d %v %s", response.StatusCode, response.Header, text)
	}
	p.eventually("connections are refused", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if got := <-answer; !strings.HasPrefix(got, "200 <nil>") || !strings.Contains(got, `"completion_tokens":4000`) {
		t.Errorf("the open request got %s", got)
	}
	if code := p.wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d after a drain, want 0", code)
	}
	wantGone(t, kids)
}

// TestDrainCutOff: a request that outlasts the drain gets a 503 that says so, and serve's exit code tells.
func TestDrainCutOff(t *testing.T) {
	p := serve(t, nil, "--drain-timeout", "100ms")
	answer := p.begin(8000)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if got := <-answer; !strings.HasPrefix(got, "503 <nil>") || !strings.Contains(got, `"code":"shutting_down"`) {
		t.Errorf("the open request got %s", got)
	}
	if code := p.wait(20 * time.Second); code != cli.ExitFailure {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailure)
	}
}

// TestHalfSentDrain: requests that are half sent neither stretch a drain nor fail it.
func TestHalfSentDrain(t *testing.T) {
	p := serve(t, nil, "--device", "null", "--drain-timeout", "60s")
	for _, text := range []string{
		"", "POST /v1/comp", "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
	}
	p.waitLoad()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// begin starts a request of n tokens, waits until it is being served, and returns its status, error
// and body to come.
func (p *program) begin(n int) <-chan string {
	p.Helper()
	answer := make(chan string, 1)
	go func() {
		status, text, err := p.complete(http.DefaultClient, "Once", n)
		answer <- fmt.Sprint(status, " ", err, " ", text)
	}()
	p.waitLoad()
	return answer
}

func (p *program) eventually(what string, is func() bool) {
	p.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("after 20 s it is not so that %s", what)
		}
	}
}
