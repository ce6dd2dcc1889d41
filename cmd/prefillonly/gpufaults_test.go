package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/nvml/nvmltest"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/driver"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// simulatedEnv makes a program under test take simulated GPUs for the two of nvmltest. Its value is a
// directory: whoever creates the file FAULT-N there gives GPU N that fault, once.
const simulatedEnv = "SIMULATED_GPUS"

// The faults of simulated GPUs.
const (
	faultLost   = "lost"   // as after an uncorrectable memory error
	faultMemory = "memory" // an allocation fails
	faultHang   = "hang"   // a pass never ends
	faultSlow   = "slow"   // loading stops while the file is there
)

// faulty is a simulated GPU that fails on demand. It insists on being called from one thread.
type faulty struct {
	cuda.Device
	index  int
	dir    string
	thread int
	lost   bool

	uploads int
}

func (d *faulty) struck(fault string) bool {
	return os.Remove(filepath.Join(d.dir, fault+"-"+strconv.Itoa(d.index))) == nil
}

func (d *faulty) onThread() {
	if tid := syscall.Gettid(); tid != d.thread {
		panic(fmt.Sprintf("called on thread %d, opened on %d", tid, d.thread))
	}
}

func (d *faulty) Name() string { return fmt.Sprintf("cuda:%d (simulated)", d.index) }

func (d *faulty) Alloc(bytes int64) (cuda.Ptr, error) {
	d.onThread()
	return d.Device.Alloc(bytes)
}

func (d *faulty) Launch(kernel string, grid [2]int, threads int, args ...uint64) {
	d.onThread()
	d.Device.Launch(kernel, grid, threads, args...)
}

func (d *faulty) Gemm(g cuda.Gemm) {
	d.onThread()
	d.Device.Gemm(g)
}

func (d *faulty) Upload(dst cuda.Ptr, src []byte) {
	d.onThread()
	d.Device.Upload(dst, src)
}

func (d *faulty) UploadPinned(dst cuda.Ptr, src []byte) (done func()) {
	d.onThread()
	for d.uploads++; d.uploads > 3; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(d.dir, faultSlow+"-"+strconv.Itoa(d.index))); err != nil {
			break
		}
	}
	return d.Device.UploadPinned(dst, src)
}

func (d *faulty) Sync() error {
	d.onThread()
	err := d.Device.Sync()
	switch d.lost = d.lost || d.struck(faultLost); {
	case d.lost:
		return &cuda.LostError{Device: d.Name(), Err: errors.New("uncorrectable ECC error (CUDA error 214)")}
	case d.struck(faultMemory):
		return &cuda.MemoryError{Device: d.Name(), Wanted: 1 << 30, Free: 1 << 20, Total: 16 << 30}
	case d.struck(faultHang):
		select {}
	}
	return err
}

func (d *faulty) Close() {
	d.onThread()
	if d.lost {
		panic("the lost device was called again")
	}
	d.Device.Close()
	_ = os.WriteFile(filepath.Join(d.dir, "closed-"+strconv.Itoa(d.index)), nil, 0o600)
}

// injectGPUs is called by the program under test.
func injectGPUs() {
	dir := os.Getenv(simulatedEnv)
	if dir == "" {
		return
	}
	device.CUDA.BusIDs = func() ([]string, error) { return []string{"00000000:3B:00.0", "00000000:3C:00.0"}, nil }
	device.CUDA.Open = func(index int, _ driver.Options) (cuda.Device, error) {
		return &faulty{Device: simt.New(), index: index, dir: dir, thread: syscall.Gettid()}, nil
	}
}

// gpuServer is a server on two simulated GPUs under four clients.
type gpuServer struct {
	*program
	fake     *nvmltest.Fake
	dir      string
	answered [4]atomic.Int64 // by client
	refused  sync.Map        // statuses other than 200, with a body
	stop     func()
}

func serveGPUs(t *testing.T, args ...string) *gpuServer {
	t.Helper()
	s := &gpuServer{fake: nvmltest.New(t), dir: t.TempDir()}
	env := append(s.fake.Env(), simulatedEnv+"="+s.dir)
	s.program = serve(t, env, append([]string{"--device", "cuda", "--max-model-len", "256", "--prefill-chunk", "64", "--routing", "load"}, args...)...)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	s.stop = func() { cancel(); clients.Wait() }
	t.Cleanup(s.stop)
	for i := range s.answered {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ { // no prompt twice, so that no GPU is better for it
				status, text, err := s.complete(http.DefaultClient, fmt.Sprint(n, " user ", i), 1)
				if err != nil || status != http.StatusOK {
					s.refused.Store(status, fmt.Sprint(text, err))
				}
				s.answered[i].Add(1)
			}
		})
	}
	return s
}

// strike gives a GPU a fault and waits until it has had it.
func (s *gpuServer) strike(fault string, gpu int) {
	s.Helper()
	file := filepath.Join(s.dir, fault+"-"+strconv.Itoa(gpu))
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		s.Fatal(err)
	}
	s.until("the fault "+fault, func() bool { _, err := os.Stat(file); return err != nil })
}

func (s *gpuServer) until(what string, ok func() bool) {
	s.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s did not come", what)
		}
	}
}

// goesOn waits until every client has had two more answers, so that none waits for a job that a fault has
// met, and until there are so many executors.
func (s *gpuServer) goesOn(executors int) {
	s.Helper()
	for i := range s.answered {
		before := s.answered[i].Load()
		s.until(fmt.Sprint("answers for client ", i), func() bool { return s.answered[i].Load() >= before+2 })
	}
	s.until(fmt.Sprint(executors, " executors"), func() bool {
		response, err := http.Get(s.base + "/ready")
		return err == nil && strings.Contains(readAll(s, response), fmt.Sprintf(`"executors":%d`, executors))
	})
}

// wantRefused checks that no request ended otherwise than with 200, or one of these.
func (s *gpuServer) wantRefused(statuses ...int) {
	s.Helper()
	s.stop()
	s.refused.Range(func(status, text any) bool {
		if !slices.Contains(statuses, status.(int)) {
			s.Errorf("a request ended with %v: %v", status, text)
		}
		return true
	})
}

// TestLostGPUs: --device cuda makes an executor on each GPU. One whose GPU fails ends alone, with the
// code that says so, and is started again; no request fails.
func TestLostGPUs(t *testing.T) {
	s := serveGPUs(t)
	s.goesOn(2)
	response, err := http.Get(s.base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	page := readAll(t, response)
	for i := range 2 {
		if want := fmt.Sprintf(`DCGM_FI_DEV_GPU_TEMP{UUID="%s",executor="cuda-%d",modelName="Fake GPU"} 40`, nvmltest.UUID(i), i); !strings.Contains(page, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	for gpu := range 2 {
		s.strike(faultLost, gpu)
		s.until("the restart", func() bool { return strings.Count(s.logged(), "exit status 75") == gpu+1 })
		s.goesOn(2)
	}
	if text := s.logged(); !strings.Contains(text, "uncorrectable ECC error (CUDA error 214)") {
		t.Error("the cause is not told")
	}
	s.wantRefused()
}

// TestGPUFallsOffTheBus: the driver reports Xid 79 while a pass waits for the GPU in vain. The
// executor ends by force; it comes back when the GPU does, and the other one serves meanwhile.
func TestGPUFallsOffTheBus(t *testing.T) {
	s := serveGPUs(t)
	s.goesOn(2)
	s.strike(faultHang, 1)
	s.fake.Set("xid1 79", "lost 2")
	s.until("the end of the executor", func() bool { return strings.Contains(s.logged(), "exit status 75") })
	s.until("a start without the GPU", func() bool { return strings.Contains(s.logged(), "exit status 69") })
	s.goesOn(1)
	s.fake.Set()
	s.goesOn(2)
	if text := s.logged(); !strings.Contains(text, "Xid 79 (fell off the bus)") || !strings.Contains(text, nvmltest.UUID(1)+" is wanted, but there is") {
		t.Error("the cause is not told")
	}
	s.wantRefused()
}

// TestGPUOutOfMemory: an allocation that fails in the middle costs the pass that needed it, and not
// the executor. Its jobs are run again alone if there were several.
func TestGPUOutOfMemory(t *testing.T) {
	s := serveGPUs(t)
	s.goesOn(2)
	s.strike(faultMemory, 0)
	s.goesOn(2)
	if text := s.logged(); strings.Contains(text, "started again") || !strings.Contains(text, "1024 MiB wanted, 1 of 16384 MiB are free") {
		t.Error("want the cause in the log, and no restart")
	}
	s.wantRefused(http.StatusInternalServerError)
}

// TestModelsOnDevices: each GPU runs the models that are for it, of which one may have none, or only one that is
// broken; SIGHUP moves them.
func TestModelsOnDevices(t *testing.T) {
	a, b, broken := demoDir(t), variantDir(t, "b"), variantDir(t, "broken")
	if err := os.Truncate(filepath.Join(broken, "model.safetensors"), 5000); err != nil {
		t.Fatal(err)
	}
	list := func(models ...string) string {
		text := "models:\n"
		for _, m := range models {
			words := strings.Fields(m)
			text += fmt.Sprintf("- {name: %s, path: %s, devices: \"%s\"}\n", words[0], words[1], words[2])
		}
		return text
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(list("a "+a+" cuda:0", "b "+b+" cuda:1", "both "+a+" cuda")), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(nvmltest.New(t).Env(), simulatedEnv+"="+t.TempDir())
	c := filed{serve(t, env, "--config", file, "--device", "cuda", "--max-model-len", "256", "--prefill-chunk", "64"), file}
	serving := func(want map[string]int) {
		t.Helper()
		c.until(fmt.Sprint(want), func() bool {
			for model, executors := range want {
				status, answer := c.askModel(model)
				if executors == 0 && (status != 503 || !strings.Contains(answer, "model.safetensors")) || executors > 0 && status != 200 {
					return false
				}
				if n := strings.Count(c.logged(), fmt.Sprintf(`"msg":"executors","model":"%s","serving":%d`, model, executors)); n == 0 {
					return false
				}
			}
			return true
		})
	}
	serving(map[string]int{"a": 1, "b": 1, "both": 2})
	const told = "models read anew"
	c.reread(list("a "+a+" cuda:0"), told) // nothing is for the second one
	serving(map[string]int{"a": 1})
	c.strike("cuda-1", syscall.SIGKILL)
	c.reread(list("a "+a+" cuda:0", "broken "+broken+" cuda:1"), told)
	serving(map[string]int{"a": 1})
	c.until("the broken model is refused with the cause", func() bool {
		status, answer := c.askModel("broken")
		return status == 503 && strings.Contains(answer, "model.safetensors")
	})
	c.strike("cuda-1", syscall.SIGKILL) // it starts with the broken one alone
	c.until("the broken model is still refused with the cause", func() bool {
		status, answer := c.askModel("broken")
		return status == 503 && strings.Contains(answer, "model.safetensors")
	})
	c.reread(list("a "+a+" cuda:1", "b "+b+" cuda:0"), told)
	serving(map[string]int{"a": 1, "b": 1})
}

// TestGPULoading: a server that is still loading answers /ready with how far it is.
func TestGPULoading(t *testing.T) {
	fake, dir := nvmltest.New(t), t.TempDir()
	file := filepath.Join(dir, faultSlow+"-0")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &gpuServer{program: start(t, append(fake.Env(), simulatedEnv+"="+dir), "--device", "cuda:0", "--max-model-len", "256")}
	s.until("news of loading", func() bool {
		response, err := http.Get(s.base + "/ready")
		if err != nil {
			return false
		}
		text := readAll(t, response)
		return response.StatusCode == http.StatusServiceUnavailable && strings.Contains(text, "cuda-0 has loaded 0.0 of 0.0 GB")
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.within("ready", s.ready)
}

// TestGPUClosed: the device is closed on the way out.
func TestGPUClosed(t *testing.T) {
	s := serveGPUs(t)
	s.goesOn(2)
	s.stop()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for i := range 2 {
		if _, err := os.Stat(filepath.Join(s.dir, "closed-"+strconv.Itoa(i))); err != nil {
			t.Error(err)
		}
	}
}

// TestGPURefusals: what is wrong with the GPUs at the start ends the server with a text that says what
// was wanted and what is there.
func TestGPURefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts []string
		env   []string
		args  []string
		code  int
		want  []string
	}{
		{"old driver", []string{"driver 535.104.05"}, nil, nil, cli.ExitDevice, []string{"the NVIDIA driver 535.104.05 is too old, 580 or newer is wanted"}},
		{"no such GPU", nil, nil, []string{"--device", "cuda:0,7"}, cli.ExitDevice, []string{"cuda:7 is wanted, but there are cuda:0 (Fake GPU, " + nvmltest.UUID(0)}},
		{"named twice", nil, nil, []string{"--device", "cuda:1," + nvmltest.UUID(1)}, cli.ExitDevice, []string{"named before"}},
		{"none visible", nil, []string{"CUDA_VISIBLE_DEVICES=5"}, nil, cli.ExitDevice, []string{"2 answer", `CUDA_VISIBLE_DEVICES="5"`, "--device cpu"}},
		{"memory held", []string{"pid 1", "used 15032385536"}, nil, []string{"--device", "cuda:0", "--gpu-memory-utilization", "0.001"}, cli.ExitMemory,
			[]string{"cuda:0 (simulated)", "of its 16384 MiB", "--gpu-memory-utilization", "other processes hold memory of it: pid 1 ", "14336 MiB"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := nvmltest.New(t)
			fake.Set(c.facts...)
			env := append(fake.Env(), append(c.env, simulatedEnv+"="+t.TempDir())...)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			serve := commandContext(ctx, env, append([]string{"serve", "--port", "0", "--device", "cuda", "--max-model-len", "256", "--kv-cache-memory-bytes", "16MiB"}, c.args...)...)
			out, _ := serve.CombinedOutput()
			if code := serve.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the log lacks %q", want)
				}
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}
