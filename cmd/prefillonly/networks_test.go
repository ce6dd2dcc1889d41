package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/mq"
)

// columns is how many numbers the rows of the tests' network have.
const columns = 64

// networkFile writes a network of two layers that differs with salt: y = tanh(x A) B.
func networkFile(t *testing.T, name string, salt uint64) string {
	t.Helper()
	random := rand.New(rand.NewPCG(salt, 3))
	layer := func(name string) onnxtest.Tensor {
		values := make([]float64, columns*columns)
		for i := range values {
			values[i] = random.NormFloat64() / 8
		}
		return onnxtest.Floats(name, []int{columns, columns}, values...)
	}
	g := onnxtest.Graph{
		Inputs:    []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: []any{"n", columns}}},
		Outputs:   []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: []any{"n", columns}}},
		Constants: []onnxtest.Tensor{layer("a"), layer("b")},
		Nodes: []onnxtest.Node{
			{Op: "MatMul", In: []string{"x", "a"}, Out: []string{"ax"}},
			{Op: "Tanh", In: []string{"ax"}, Out: []string{"h"}},
			{Op: "MatMul", In: []string{"h", "b"}, Out: []string{"y"}},
		},
	}
	file := filepath.Join(t.TempDir(), name+".onnx")
	if err := os.WriteFile(file, onnxtest.File(17, g), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// pooled is a server, and a client of its pool in this process.
type pooled struct {
	*program
	client *client.Client
}

// join makes a client of the pool of a server that was started with this endpoint.
func join(t *testing.T, p *program, endpoint string) pooled {
	t.Helper()
	cfg := config.Default()
	cfg.Endpoint = endpoint
	peer, err := mq.Dial(endpoint, mq.Options{Unauthenticated: true})
	if err != nil {
		t.Fatal(err)
	}
	tensors := roles.NewBlobs(&cfg, 0)
	c := client.New(client.Config{Name: "test", Heartbeat: 50 * time.Millisecond, Inputs: tensors, Outputs: tensors}, peer, zap.NewNop())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
		peer.Close()
		tensors.Close()
	})
	return pooled{p, c}
}

// row is one frame.
func row(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 7))
	var raw []byte
	for range columns {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(random.NormFloat64())))
	}
	return raw
}

// infer has a frame computed, and with gradient also how y's sum depends on it.
func (p pooled) infer(job engine.Job, frame []byte, gradient bool) ([][]byte, error) {
	ref := func(name string) engine.Ref {
		return engine.Ref{Name: name, Type: engine.FP32, Shape: []int{1, columns}}
	}
	work := &engine.Tensors{Inputs: []engine.Ref{ref("x")}, Outputs: []string{"y"}, Frames: 1}
	data := [][]byte{frame}
	if gradient {
		work.Grad, work.Frames = &engine.Grad{Seeds: []engine.Ref{ref("y")}, Inputs: []string{"x"}}, 2
		data = append(data, bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(1)), columns))
	}
	job.Work = work
	results := client.NewResults()
	j, err := p.client.NewTensors(job, data, time.Now(), results, 0)
	if err != nil {
		return nil, err
	}
	if err := p.client.Submit("", []*client.Job{j}); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(context.Background(), 60*time.Second)
	defer stop()
	got, err := results.Next(ctx, nil)
	switch {
	case err != nil:
		return nil, err
	case got[0].Result.Err != nil:
		return nil, got[0].Result.Err
	}
	return got[0].Outputs, nil
}

// must is infer of a frame that is answered.
func (p pooled) must(model string, seed uint64) string {
	p.Helper()
	out, err := p.infer(engine.Job{Model: model}, row(seed), true)
	if err != nil {
		p.Fatal(err)
	}
	return fmt.Sprintf("%x", out)
}

// serveBoth serves the demo model and a network, and joins their pool.
func serveBoth(t *testing.T, endpoint string, more ...string) (pooled, string) {
	t.Helper()
	file := networkFile(t, "rows", 1)
	args := append([]string{"llm=" + demoDir(t), file, "--scheduler-endpoint", endpoint}, more...)
	p := join(t, serve(t, []string{"CACHE_DIRECTORY=" + t.TempDir()}, args...), endpoint)
	if _, err := p.client.Model(t.Context(), "rows"); err != nil {
		t.Fatal(err)
	}
	return p, file
}

// TestNetworkBesideLLM: both answer, on one host by shared memory and over TCP; a request for the wrong kind is told so,
// and /v1/models lists both.
func TestNetworkBesideLLM(t *testing.T) {
	for _, endpoint := range []string{"ipc://" + filepath.Join(t.TempDir(), "s"), fmt.Sprintf("tcp://127.0.0.1:%d", freePort(t))} {
		var more []string
		if strings.HasPrefix(endpoint, "tcp") {
			more = []string{"--allow-unauthenticated-tcp"}
		}
		p, _ := serveBoth(t, endpoint, more...)
		if a, b := p.must("rows", 1), p.must("rows", 2); a == b || a != p.must("rows", 1) {
			t.Errorf("%s: two frames give %s and %s", endpoint, a, b)
		}
		if status, answer := p.askModel("llm"); status != 200 {
			t.Errorf("the LLM: %d %s", status, answer)
		}
		if status, answer := p.askModel("rows"); status != 400 || !strings.Contains(answer, "takes tensors, not text") {
			t.Errorf("text for the network: %d %s", status, answer)
		}
		_, err := p.infer(engine.Job{Model: "llm"}, row(1), false)
		if refused := (*engine.Error)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "takes tokens") {
			t.Errorf("tensors for the LLM: %v", err)
		}
		p.wantStates(map[string]string{"llm": "ready", "rows": "ready"})
		if m := p.client.State().Models["rows"]; m.Cost.Unit <= 0 || m.Step <= 0 || m.Tensors.Backward <= 0 {
			t.Errorf("the network is ready, and its cost is %+v, %v, %v", m.Cost, m.Step, m.Tensors.Backward)
		}
	}
}

// TestExecutorKilledAmidFrames: every frame is answered with the same bits, whatever of its work was lost.
func TestExecutorKilledAmidFrames(t *testing.T) {
	p, _ := serveBoth(t, "ipc://"+filepath.Join(t.TempDir(), "s"))
	want := map[uint64]string{}
	for seed := range uint64(8) {
		want[seed] = p.must("rows", seed)
	}
	var over atomic.Bool
	var answered atomic.Int64
	var group sync.WaitGroup
	for worker := range uint64(4) {
		group.Go(func() {
			for n := worker; !over.Load(); n++ {
				out, err := p.infer(engine.Job{Model: "rows"}, row(n%8), true)
				if got := fmt.Sprintf("%x", out); err != nil || got != want[n%8] {
					t.Errorf("frame %d: %v, %s, want %s", n%8, err, got, want[n%8])
					return
				}
				answered.Add(1)
			}
		})
	}
	for _, role := range []string{"executor", "scheduler", "executor"} {
		before := answered.Load()
		p.until("answering", func() bool { return answered.Load() > before+20 || t.Failed() })
		p.strike(role, syscall.SIGKILL)
	}
	before := answered.Load()
	p.until("answering again", func() bool { return answered.Load() > before+20 || t.Failed() })
	over.Store(true)
	group.Wait()
}

// TestFrameNestsIntoPrompt: frames with a promised deadline are computed inside of passes of long prompts.
func TestFrameNestsIntoPrompt(t *testing.T) {
	p, _ := serveBoth(t, "ipc://"+filepath.Join(t.TempDir(), "s"), "--threads", "2")
	p.must("rows", 1)
	want, err := p.infer(engine.Job{Model: "rows"}, row(1), false)
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; !over.Load(); i++ {
			body := fmt.Sprintf(`{"model":"llm","prompt":%q,"max_tokens":1,"temperature":0}`, fmt.Sprint(i)+strings.Repeat(" Sailing and Finance", 700))
			if status, answer := p.post("/v1/completions", "", body); status != 200 {
				t.Errorf("a long prompt: %d %s", status, answer)
				return
			}
		}
	})
	frames, late := 0, 0
	var last error
	period := time.NewTicker(30 * time.Millisecond) // a stream that sends as fast as it is answered asks for all of the device, and is refused
	defer period.Stop()
	defer func() {
		t.Logf("%d of %d frames were late or refused, at last with %v; %+v", late, frames, last, p.client.State().Pool)
	}()
	p.until("nested", func() bool {
		<-period.C
		job := engine.Job{Model: "rows", Stream: "camera", Promised: true, Deadline: 60 * time.Millisecond}
		out, err := p.infer(job, row(1), false)
		if frames++; err != nil {
			late++
			last = err
			// A frame for which the machine stood still makes the next ones seem too long to promise, until others have been as
			// short as they are.
			if _, err := p.infer(engine.Job{Model: "rows"}, row(1), false); err != nil {
				t.Error(err)
			}
		} else if !bytes.Equal(out[0], want[0]) {
			t.Errorf("a nested frame gives %x, and %x alone", out, want)
		}
		return p.client.State().Pool.Nested >= 3 || t.Failed()
	})
	over.Store(true)
	group.Wait()
}

// TestNetworkFiles: a broken file names its cause and leaves the others serving; one that changes is served anew when
// the models are read again; one that goes is gone.
func TestNetworkFiles(t *testing.T) {
	endpoint := "ipc://" + filepath.Join(t.TempDir(), "s")
	file, broken := networkFile(t, "rows", 1), filepath.Join(t.TempDir(), "broken.onnx")
	if err := os.WriteFile(broken, []byte("no network"), 0o600); err != nil {
		t.Fatal(err)
	}
	llm := "models:\n- {name: llm, path: " + demoDir(t) + "}\n"
	both := llm + "- {path: " + file + "}\n"
	c := serveFile(t, both+"- {path: "+broken+"}\n", "--scheduler-endpoint", endpoint)
	p := join(t, c.program, endpoint)
	if !strings.Contains(c.logged(), "broken.onnx") {
		t.Error("the broken file is not named in the log")
	}
	p.until("failed", func() bool { return c.states()["broken"] == "failed" })
	if _, err := p.client.Model(t.Context(), "rows"); err != nil {
		t.Fatal(err)
	}
	before := p.must("rows", 1)
	raw, err := os.ReadFile(networkFile(t, "other", 2))
	if err == nil {
		err = errors.Join(os.WriteFile(file+".new", raw, 0o600), os.Rename(file+".new", file))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.reread(both, "models read anew")
	p.until("another network", func() bool {
		out, err := p.infer(engine.Job{Model: "rows"}, row(1), true)
		return err == nil && fmt.Sprintf("%x", out) != before
	})
	c.reread(llm, "models read anew")
	p.until("gone", func() bool { return p.client.State().Models["rows"].Executors == 0 })
	if status, answer := c.askModel("llm"); status != 200 {
		t.Errorf("the LLM: %d %s", status, answer)
	}
}

// TestProfileNetwork: the command measures a network anew, and stores that where an executor finds it.
func TestProfileNetwork(t *testing.T) {
	dir, file := t.TempDir(), networkFile(t, "rows", 1)
	for range 2 {
		out, err := command([]string{"CACHE_DIRECTORY=" + dir}, "profile", file).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "a frame") || !strings.Contains(string(out), "measured") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "profile-*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v: %q", err, found)
	}
	p := serve(t, []string{"CACHE_DIRECTORY=" + dir}, file)
	p.until("ready", func() bool { return p.states()["rows"] == "ready" })
	if log := p.logged(); !strings.Contains(log, "profile loaded") || strings.Contains(log, `"measured"`) {
		t.Errorf("the profile was not taken:\n%s", log)
	}
}
