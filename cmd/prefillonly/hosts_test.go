package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/internal/config"
)

// TestSeveralHosts runs each role alone, joined by tcp with CURVE keys made by keygen.
func TestSeveralHosts(t *testing.T) {
	dir := t.TempDir()
	var peers []byte
	for _, name := range []string{"scheduler", "web", "device"} {
		keygen := command(nil, "keygen", name)
		keygen.Dir = dir
		if out, err := keygen.CombinedOutput(); err != nil {
			t.Fatalf("keygen: %v\n%s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, name+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		if name != "scheduler" {
			peers = append(peers, text...)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "peers.pub"), peers, 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint, port := fmt.Sprintf("tcp://127.0.0.1:%d", freePort(t)), fmt.Sprint(freePort(t))
	start := func(key, others string, args ...string) {
		cmd := command(nil, append(args, "--scheduler-endpoint", endpoint, "--curve-key-file", key, "--curve-peers-file", others)...)
		cmd.Dir, cmd.Stderr = dir, t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	start("device.key", "scheduler.pub", "executor", "--device", "null", "--name", "null-7")
	start("web.key", "scheduler.pub", "frontend", "--port", port, "--access-log=false")
	start("scheduler.key", "peers.pub", "scheduler")

	p := &program{TB: t, base: "http://127.0.0.1:" + port}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if out, err := command(nil, "healthcheck", "--port", port).CombinedOutput(); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("unhealthy after 20 s: %s", out)
		}
	}
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

// TestModelRunner holds the demo model on the processor to the suite of runners.
func TestModelRunner(t *testing.T) {
	dir := demoDir(t)
	runnertest.Run(t, func(t *testing.T) executor.Runner {
		cfg := config.Default()
		cfg.Model, cfg.ServedModelName, cfg.CacheBytes, cfg.MaxModelLen = dir, []string{"demo"}, 16<<20, 2048
		r, err := openCPU(&cfg, &vitals{}, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}

func TestVersion(t *testing.T) {
	for _, c := range []struct{ args, want string }{{"version", "prefillonly "}, {"version --json", `"version":`}, {"config show", "port: 8000"}, {"serve --help=all", "--eviction"}} {
		out, err := command(nil, strings.Fields(c.args)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
}
