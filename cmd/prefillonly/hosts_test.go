package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/mq"
)

// hosts are processes of each role, joined by tcp with keys made by keygen.
type hosts struct {
	program
	dir, endpoint string
}

// newHosts starts one process of each role, with a second frontend's key that the scheduler also knows.
func newHosts(t *testing.T) *hosts {
	t.Helper()
	port := fmt.Sprint(freePort(t))
	h := &hosts{program: program{TB: t, base: "http://127.0.0.1:" + port}, dir: t.TempDir(), endpoint: fmt.Sprintf("tcp://127.0.0.1:%d", freePort(t))}
	var peers []byte
	for name, role := range map[string]string{"main": "scheduler", "web": "frontend", "other": "frontend", "device": "executor"} {
		keygen := command(nil, "keygen", role, name)
		keygen.Dir = h.dir
		if out, err := keygen.CombinedOutput(); err != nil {
			t.Fatalf("keygen: %v\n%s", err, out)
		}
		text, err := os.ReadFile(h.file(name + ".pub"))
		if err != nil {
			t.Fatal(err)
		}
		if role != "scheduler" {
			peers = append(peers, text...)
		}
	}
	if err := os.WriteFile(h.file("peers.pub"), peers, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{
		h.command("device", "main.pub", "executor", "--device", "null", "--name", "null-7"),
		h.command("web", "main.pub", "frontend", "--port", port, "--access-log=false"),
		h.command("main", "peers.pub", "scheduler"),
	} {
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if out, err := command(nil, "healthcheck", "--port", port).CombinedOutput(); err == nil {
			return h
		} else if time.Now().After(deadline) {
			t.Fatalf("unhealthy after 20 s: %s", out)
		}
	}
}

func (h *hosts) file(name string) string { return filepath.Join(h.dir, name) }

// command is a process that joins the others with a key.
func (h *hosts) command(key, others string, args ...string) *exec.Cmd {
	cmd := command(nil, append(args, "--scheduler-endpoint", h.endpoint, "--curve-key-file", key+".key", "--curve-peers-file", others)...)
	cmd.Dir = h.dir
	return cmd
}

func TestSeveralHosts(t *testing.T) {
	h := newHosts(t)
	if status, text, err := h.complete(http.DefaultClient, "Hello", 1); err != nil || status != 200 {
		t.Errorf("%d %s %v", status, text, err)
	}
}

// TestFrontendsKeyRunsNothing: who has a frontend's key can neither be an executor, which would read
// everybody's prompts, nor take another frontend's name, which would read its answers.
func TestFrontendsKeyRunsNothing(t *testing.T) {
	h := newHosts(t)
	out, err := h.command("other", "main.pub", "executor", "--device", "null", "--name", "null-8").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != cli.ExitConfig || !strings.Contains(string(out), "other.key is the key of one frontend, this is the executor") {
		t.Errorf("an executor with a frontend's key: %v\n%s", err, out)
	}
	curve, err := mq.LoadCurve(wire.RoleFrontend, h.file("other.key"), h.file("main.pub"))
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan wire.Message, 1)
	for _, hello := range []wire.Hello{
		{Role: wire.RoleExecutor, Name: "null-7", Epoch: 1},
		{Role: wire.RoleExecutor, Name: "null-8", Epoch: 1},
		{Role: wire.RoleFrontend, Name: roles.DefaultName("frontend"), Epoch: 1},
	} {
		hello.Executor = &wire.ExecutorInfo{Device: "null", Models: []wire.ModelInfo{{
			Name: "prefillonly-demo", Fingerprint: "null", Tokens: &wire.TokenLimits{VocabSize: 4096, MaxModelLen: 4096, BlockTokens: 64, NumBlocks: 64, MaxPassRows: 4096},
		}}}
		thief, err := mq.Dial(h.endpoint, mq.Options{Curve: curve})
		if err != nil {
			t.Fatal(err)
		}
		defer thief.Close()
		for deadline := time.Now().Add(10 * time.Second); thief.Send(&hello) != nil && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		go func() { // ended by Close
			if m, err := thief.Recv(context.Background()); err == nil {
				heard <- m
			}
		}()
	}
	client := &http.Client{Timeout: 20 * time.Second} // a thief answers nothing
	for i := range 30 {
		if status, text, err := h.complete(client, fmt.Sprintf("a secret %d", i), 1); err != nil || status != 200 {
			t.Fatalf("%d %s %v", status, text, err)
		}
	}
	select {
	case m := <-heard:
		t.Errorf("the thief gets %T", m)
	default:
	}
}

// TestLoopbackWithoutKeys: it works where it was asked for; TestServeRefusesWhatCannotWork has the rest.
func TestLoopbackWithoutKeys(t *testing.T) {
	p := serve(t, nil, "--device", "null", "--scheduler-endpoint", fmt.Sprintf("tcp://127.0.0.1:%d", freePort(t)), "--allow-unauthenticated-tcp")
	if status, text, err := p.complete(http.DefaultClient, "Hello", 1); err != nil || status != 200 {
		t.Errorf("%d %s %v", status, text, err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestVersion(t *testing.T) {
	for _, c := range []struct{ args, want string }{{"version", "prefillonly "}, {"version --json", `"version":`}, {"config show", "port: 8000"}, {"serve --help=all", "--eviction"}} {
		out, err := command(nil, strings.Fields(c.args)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
}
