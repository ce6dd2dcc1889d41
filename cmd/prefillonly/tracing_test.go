package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/procfs"
	"github.com/prefillonly/prefillonly/internal/tracing/tracingtest"
)

// askTraced asks the demo model in a trace of the caller's, and returns the status.
func (p *program) askTraced(trace string) int {
	p.Helper()
	r, err := http.NewRequest(http.MethodPost, p.base+"/v1/completions", strings.NewReader(`{"prompt":[1,2,3],"max_tokens":1}`))
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// TestTraces: the spans of requests reach a collector in their callers' traces, those of requests before and after
// SIGHUP, the last of them while the server ends. The collector's key is the frontends' alone, and in no argument or log.
func TestTraces(t *testing.T) {
	c := tracingtest.Start(t)
	const secret = "tell-nobody"
	p := serve(t, []string{"OTEL_EXPORTER_OTLP_HEADERS=x-key=" + secret, "OTEL_BSP_SCHEDULE_DELAY=600000"}, "--device", "null", "--otlp-traces-endpoint", c.GRPC)
	first, second := "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c"
	if status := p.askTraced(first); status != http.StatusOK {
		t.Fatal(status)
	}
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	p.eventually("the models are read anew", func() bool { return strings.Contains(p.logged(), "models read anew") })
	if status := p.askTraced(second); status != http.StatusOK {
		t.Fatal(status)
	}
	frontend := p.child("frontend")
	pids := []int{p.cmd.Process.Pid}
	for _, child := range procfs.Children(p.cmd.Process.Pid) {
		pids = append(pids, child.PID)
	}
	for _, pid := range pids {
		arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains(string(arguments), secret) {
			t.Errorf("process %d has the key among its arguments", pid)
		}
		if pid != frontend && pid != p.cmd.Process.Pid && strings.Contains(string(environment), secret) {
			t.Errorf("process %d, which is no frontend, has the key: %q", pid, arguments)
		}
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.wait(time.Minute); code != 0 {
		t.Errorf("exit code %d", code)
	}
	spans := map[string]int{}
	for _, s := range c.Spans(t, 8) {
		spans[fmt.Sprintf("%x %s", s.TraceId, s.Name)]++
	}
	for _, trace := range []string{first, second} {
		for _, name := range []string{"POST /v1/completions", "llm_request", "queue", "pass"} {
			if spans[trace+" "+name] != 1 {
				t.Errorf("the trace %s has %d spans %q", trace, spans[trace+" "+name], name)
			}
		}
	}
	if got := c.Header("x-key"); got != secret {
		t.Errorf("the collector was told the key %q", got)
	}
	if strings.Contains(p.logged(), secret) {
		t.Error("the log has the collector's key")
	}
}

// TestHungCollector: one that takes connections and never answers holds neither requests nor the end of the server.
func TestHungCollector(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	p := serve(t, []string{"OTEL_BSP_SCHEDULE_DELAY=1"}, "--device", "null", "--otlp-traces-endpoint", "http://"+hung.Addr().String())
	for range 20 {
		if status := p.askTraced("0af7651916cd43dd8448eb211c80319c"); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.wait(time.Minute); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(p.logged(), "spans were lost") {
		t.Error("the log does not say that spans were lost")
	}
}

// TestTracesRefused: a server does not start with credentials where they can be seen, and says where to put them.
func TestTracesRefused(t *testing.T) {
	out, err := command(nil, "serve", "--port", "0", "--device", "null", "--otlp-traces-endpoint", "http://me:tell-nobody@host:4317").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitConfig || !strings.Contains(string(out), "OTEL_EXPORTER_OTLP_HEADERS") || strings.Contains(string(out), "tell-nobody") {
		t.Errorf("%v: %s", err, out)
	}
}

// BenchmarkTraces compares servers that send no spans and spans of every request to a collector that drops them, in turns:
// requests a second of 64 connections, and the processor time that all processes of the server take for a request.
func BenchmarkTraces(b *testing.B) {
	drops := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer drops.Close()
	servers := []*program{
		serve(b, nil, "--device", "null"),
		serve(b, nil, "--device", "null", "--otlp-traces-endpoint", drops.URL+"/v1/traces"),
	}
	const body = `{"model":"prefillonly-demo","prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"max_tokens":1,"logprobs":5}`
	var wall, busy [2]time.Duration
	for range 10 {
		for i, p := range servers {
			before := p.processorTime()
			flood(b, p.base+"/v1/completions", body, 64, 0)
			wall[i] += b.Elapsed()
			busy[i] += p.processorTime() - before
		}
	}
	for i, name := range []string{"off", "on"} {
		b.ReportMetric(float64(10*b.N)/wall[i].Seconds(), name+"-requests/s")
		b.ReportMetric(float64(busy[i].Microseconds())/float64(10*b.N), name+"-cpu-us/request")
	}
	b.ReportMetric(busy[1].Seconds()/busy[0].Seconds(), "on/off-cpu")
}

// processorTime is what all processes of a server have used of processors.
func (p *program) processorTime() (sum time.Duration) {
	p.Helper()
	pids := []int{p.cmd.Process.Pid}
	for _, child := range procfs.Children(p.cmd.Process.Pid) {
		pids = append(pids, child.PID)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			p.Fatal(err)
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, ticks := range fields[11:13] {
			n, err := strconv.Atoi(ticks)
			if err != nil {
				p.Fatal(err)
			}
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}
