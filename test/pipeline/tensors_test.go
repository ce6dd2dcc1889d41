package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/blob"
	pool "github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/scheduler"
)

// faces is the model that tests of tensors ask.
var faces = runnertest.Perceptron{Name: "faces", In: 50, Hidden: 40, Out: 7, A: 4, B: 5}

// tensors is a client, a scheduler and an executor of tensors joined by sockets, each with the blobs of a process
// of its own.
type tensors struct {
	*testing.T
	endpoint string
	inputs   *blob.Store // the client's
	client   *pool.Client

	scheduler, executor func() // stop them

	mu   sync.Mutex
	read []string // guarded by mu; blobs that executors have read, and how large
	size []int
	hold func() // called before an executor reads; guarded by mu
}

// storeOf opens a store where peers of this endpoint find it.
func (p *tensors) storeOf(cfg blob.Config) *blob.Store {
	cfg.Limit = 8 << 20
	if cfg.Listen = "127.0.0.1:0"; p.dir() != "" {
		cfg.Dir = p.dir()
	}
	s, err := blob.NewStore(cfg)
	if err != nil {
		p.Fatal(err)
	}
	return s
}

// dir is where blobs are found, on one host; empty where the endpoint is one of several.
func (p *tensors) dir() string {
	if path, ok := bytes.CutPrefix([]byte(p.endpoint), []byte("ipc://")); ok {
		return filepath.Dir(string(path))
	}
	return ""
}

func newTensors(t *testing.T, endpoint string) *tensors {
	p := &tensors{T: t, endpoint: endpoint}
	p.startScheduler()
	p.startExecutor()
	conn := p.dial()
	p.inputs = p.storeOf(blob.Config{})
	outputs := blob.NewReader(p.dir())
	p.client = pool.New(pool.Config{Name: "client", Heartbeat: 20 * time.Millisecond, Inputs: p.inputs, Outputs: outputs}, conn, zap.NewNop())
	stop := background(t, p.client.Run)
	t.Cleanup(func() {
		stop()
		p.executor()
		p.scheduler()
		conn.Close()
		p.inputs.Close()
		outputs.Close()
	})
	if _, err := p.client.Model(t.Context(), faces.Name); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *tensors) dial() *mq.Peer {
	conn, err := mq.Dial(p.endpoint, mq.Options{Unauthenticated: true})
	if err != nil {
		p.Fatal(err)
	}
	return conn
}

func (p *tensors) startScheduler() {
	listener, err := mq.Listen(p.endpoint, mq.Options{Unauthenticated: true})
	if err != nil {
		p.Fatal(err)
	}
	p.endpoint = listener.Endpoint()
	begun := time.Now()
	s, err := scheduler.NewServer(scheduler.DefaultConfig(), rand.Uint64()>>1, func() time.Duration { return time.Since(begun) })
	if err != nil {
		p.Fatal(err)
	}
	stop := background(p, func(ctx context.Context) error { return s.Run(ctx, listener) })
	p.scheduler = func() { stop(); listener.Close() }
}

// watched are the blobs of an executor, whose reads are noted.
type watched struct {
	*blob.Store
	*blob.Reader
	p *tensors
}

func (w *watched) Read(name string, dst []byte) error {
	w.p.mu.Lock()
	hold := w.p.hold
	w.p.mu.Unlock()
	if hold != nil {
		hold()
	}
	err := w.Reader.Read(name, dst)
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.read, w.p.size = append(w.p.read, name), append(w.p.size, len(dst))
	return err
}

func (p *tensors) startExecutor() {
	conn := p.dial()
	blobs := &watched{p.storeOf(blob.Config{Hold: time.Minute}), blob.NewReader(p.dir()), p}
	stop := background(p, func(ctx context.Context) error {
		cfg := executor.Config{Name: "perceptrons-0", Heartbeat: 20 * time.Millisecond, Log: zap.NewNop()}
		return executor.Run(ctx, cfg, conn, func() (executor.Runner, error) { return runnertest.NewPerceptrons(blobs, faces), nil })
	})
	p.executor = func() { stop(); conn.Close(); blobs.Store.Close(); blobs.Reader.Close() }
}

// values are those of a frame.
func values(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 7))
	raw := make([]byte, 4*faces.In)
	for i := range faces.In {
		putFloat(raw[4*i:], float32(random.NormFloat64()))
	}
	return raw
}

func putFloat(b []byte, v float32) {
	for i := range 4 {
		b[i] = byte(math.Float32bits(v) >> (8 * i))
	}
}

// ask has a frame computed, and its gradient.
func (p *tensors) ask(ctx context.Context, seed uint64) ([][]byte, error) {
	ones := make([]byte, 4*faces.Out)
	for i := range faces.Out {
		putFloat(ones[4*i:], 1)
	}
	work := &engine.Tensors{
		Inputs: []engine.Ref{{Name: "x", Type: engine.FP32, Shape: []int{1, faces.In}}}, Outputs: []string{"y"}, Frames: 2,
		Grad: &engine.Grad{Seeds: []engine.Ref{{Name: "y", Type: engine.FP32, Shape: []int{1, faces.Out}}}, Inputs: []string{"x"}},
	}
	results := pool.NewResults()
	j, err := p.client.NewTensors(engine.Job{Model: faces.Name, Work: work}, [][]byte{values(seed), ones}, time.Now(), results, 0)
	if err != nil {
		return nil, err
	}
	if err := p.client.Submit("", []*pool.Job{j}); err != nil {
		return nil, err
	}
	got, err := results.Next(ctx, nil)
	switch {
	case err != nil:
		return nil, err
	case got[0].Result.Err != nil:
		return nil, got[0].Result.Err
	}
	return got[0].Outputs, nil
}

// gone holds that no blob that an executor has read is held any more.
func (p *tensors) gone() {
	p.Helper()
	r := blob.NewReader(p.dir())
	defer r.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, name := range p.read {
		if err := r.Read(name, make([]byte, p.size[i])); !errors.Is(err, blob.ErrGone) {
			p.Errorf("blob %d of %d, of a job that has ended: %v", i, len(p.read), err)
			return
		}
	}
}

// endpoints runs a test on one host by shared memory, and by TCP and TLS as between hosts.
func endpoints(t *testing.T, test func(t *testing.T, p *tensors)) {
	t.Run("ipc", func(t *testing.T) { test(t, newTensors(t, "ipc://"+filepath.Join(t.TempDir(), "s"))) })
	t.Run("tcp", func(t *testing.T) { test(t, newTensors(t, "tcp://127.0.0.1:0")) })
}

// TestTensorsReplayed holds that a job whose inputs an executor has read when the scheduler dies is run again
// from the client's copy, with the same bits.
func TestTensorsReplayed(t *testing.T) {
	endpoints(t, func(t *testing.T, p *tensors) {
		want, err := p.ask(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		reading, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		p.mu.Lock()
		p.hold = func() { once.Do(func() { close(reading); <-goOn }) }
		before := len(p.read)
		p.mu.Unlock()
		var got [][]byte
		answered := make(chan error, 1)
		go func() { // ends with the answer
			var err error
			got, err = p.ask(t.Context(), 1)
			answered <- err
		}()
		<-reading
		p.scheduler()
		p.startScheduler()
		close(goOn)
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || !bytes.Equal(got[0], want[0]) || !bytes.Equal(got[1], want[1]) {
			t.Errorf("got %x, want %x", got, want)
		}
		p.mu.Lock()
		again := p.read[before:]
		p.mu.Unlock()
		if len(again) != 4 || again[0] != again[2] || again[1] != again[3] {
			t.Errorf("%d blobs were read of a job of two that was run twice", len(again))
		}
		p.gone()
	})
}

// TestEveryTensorJobIsAnswered restarts executor and scheduler in turn under four clients' goroutines.
func TestEveryTensorJobIsAnswered(t *testing.T) {
	endpoints(t, func(t *testing.T, p *tensors) {
		want := make([][][]byte, 8)
		for i := range want {
			var err error
			if want[i], err = p.ask(t.Context(), uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		var over atomic.Bool
		var served atomic.Int64
		var group sync.WaitGroup
		for k := range 4 {
			group.Go(func() {
				for n := k; !over.Load(); n++ {
					got, err := p.ask(t.Context(), uint64(n%len(want)))
					if err == nil && fmt.Sprint(got) != fmt.Sprint(want[n%len(want)]) {
						err = fmt.Errorf("frame %d: got %x, want %x", n, got, want[n%len(want)])
					}
					if err != nil {
						t.Error(err)
						return
					}
					served.Add(1)
				}
			})
		}
		for range 3 {
			time.Sleep(100 * time.Millisecond)
			p.executor()
			p.startExecutor()
			time.Sleep(100 * time.Millisecond)
			p.scheduler()
			p.startScheduler()
		}
		time.Sleep(100 * time.Millisecond)
		over.Store(true)
		group.Wait()
		if served.Load() < 20 {
			t.Errorf("only %d jobs were answered", served.Load())
		}
		p.gone()
	})
}
