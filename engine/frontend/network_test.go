package frontend

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// blobs are those of a client and of an executor in one process.
type blobs struct {
	mu   sync.Mutex
	next int
	held map[string][]byte // guarded by mu
}

func (b *blobs) Put(data []byte) (string, error) { return b.PutFor("", data) }

func (b *blobs) PutFor(_ string, data []byte) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	b.held[strconv.Itoa(b.next)] = bytes.Clone(data)
	return strconv.Itoa(b.next), nil
}

func (b *blobs) Release(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, name)
}

func (b *blobs) Take(name string, dst []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if data, ok := b.held[name]; !ok || len(data) != len(dst) {
		return fmt.Errorf("blob %s has %d bytes, want %d", name, len(data), len(dst))
	}
	copy(dst, b.held[name])
	delete(b.held, name)
	return nil
}

// network is an executor of networks whose outputs are their inputs; the gradient of that is the seed.
type network struct {
	blobs
	*Frontend
	s *clienttest.Scheduler
}

// newNetwork serves "org/eye", which takes pictures of 4 x 6, "open", which takes any, "pair", of two inputs, and "reader", a pipeline, beside
// "demo", which takes text.
func newNetwork(t testing.TB, cfg Config) *network {
	n := &network{blobs: blobs{held: map[string][]byte{}}}
	n.s = clienttest.NewScheduler(n.answer)
	pool := client.New(client.Config{Inputs: n, Outputs: n}, n.s, zap.NewNop())
	f, err := New(cfg, []registry.Model{
		demo(byteTokenizer{}),
		{Name: "org/eye", Names: []string{"eye"}, Image: images.Options{BGR: true, Letterbox: true, Grey: 114, Mean: []float64{1}, Scale: []float64{2}}},
		{Name: "open"}, {Name: "wide"}, {Name: "detector", Image: images.Options{BGR: true, Letterbox: true, Grey: 114}}, {Name: "pair"}, {Name: "absent"},
		{Name: "reader", Pipeline: &registry.Pipeline{Kind: "ocr", Endpoint: "/v1/ocr", Networks: readerNetworks, Alphabet: func() ([]string, error) { return []string{"H", "i"}, nil }}},
	}, pool, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	n.Frontend = f
	n.s.Deliver = pool.Deliver
	w := welcome(1)
	served := func(name string, inputs, outputs []wire.TensorSpec) {
		w.Served = append(w.Served, wire.Served{Name: name, State: wire.ModelReady, Executors: 1, Loaded: 1, Tensors: &wire.TensorLimits{
			Inputs: inputs, Outputs: outputs, MaxPassItems: 8, Backward: 1.5,
		}})
	}
	spec := func(name string, t engine.DType, shape ...int) wire.TensorSpec {
		return wire.TensorSpec{Name: name, Type: t, Shape: shape}
	}
	served("org/eye", []wire.TensorSpec{spec("images", engine.FP32, -1, 3, 4, 6)}, []wire.TensorSpec{spec("y", engine.FP32, -1, 3, 4, 6)})
	served("open", []wire.TensorSpec{spec("x", engine.Uint8, -1, -1)}, []wire.TensorSpec{spec("y", engine.Uint8, -1, -1)})
	served("detector", []wire.TensorSpec{spec("images", engine.FP32, -1, 3, 416, 416)}, []wire.TensorSpec{spec("y", engine.FP32, -1, 3, 416, 416)})
	served("wide", []wire.TensorSpec{spec("x", engine.Uint8, -1, -1, -1)}, []wire.TensorSpec{spec("y", engine.Uint8, -1, -1, -1)})
	served("pair", []wire.TensorSpec{spec("a", engine.Int64, 2), spec("b", engine.FP16, -1)}, []wire.TensorSpec{spec("y", engine.Int64, 2), spec("z", engine.FP16, -1)})
	served("reader", []wire.TensorSpec{spec("x", engine.FP32, -1, 3, -1, -1)}, []wire.TensorSpec{spec("map", engine.FP32, -1, 1, -1, -1)})
	served("reader/direct", []wire.TensorSpec{spec("x", engine.FP32, -1, 3, -1, -1)}, []wire.TensorSpec{spec("turned", engine.FP32, -1, 2)})
	served("reader/recognize", []wire.TensorSpec{spec("x", engine.FP32, -1, 3, 48, -1)}, []wire.TensorSpec{spec("all", engine.FP32, -1, -1, 4), spec("best", engine.Int64, -1, -1), spec("score", engine.FP32, -1, -1)})
	w.Served = append(w.Served, wire.Served{Name: "absent", State: wire.ModelAbsent, Executors: 1, Tensors: &wire.TensorLimits{}})
	w.Stats = []wire.ModelStats{{Model: "open", Passes: 7}}
	pool.Deliver(w)
	return n
}

func (n *network) answer(s *wire.Submit) []*wire.Result {
	work := s.Work.(*engine.Tensors)
	out := &engine.TensorOutput{}
	add := func(name string, from engine.Ref) {
		size, _ := from.Bytes()
		data := make([]byte, size)
		n.mu.Lock()
		copy(data, n.held[from.Blob])
		n.mu.Unlock()
		blob, _ := n.Put(data)
		out.Outputs = append(out.Outputs, engine.Ref{Name: name, Type: from.Type, Shape: from.Shape, Blob: blob})
	}
	if strings.HasPrefix(s.Model, "reader") {
		return []*wire.Result{{Job: s.ID, Output: n.readerOutput(s.Model, work), Timing: engine.Timing{Queued: time.Millisecond, Running: 2 * time.Millisecond}}}
	}
	wanted := work.Outputs
	if len(wanted) == 0 && work.Grad == nil {
		wanted = []string{"y", "z"}
	}
	for _, name := range wanted {
		if i := map[string]int{"y": 0, "z": 1}[name]; i < len(work.Inputs) {
			add(name, work.Inputs[i])
		}
	}
	if work.Grad != nil {
		for i, name := range work.Grad.Inputs {
			add(name, work.Grad.Seeds[i])
		}
	}
	return []*wire.Result{{Job: s.ID, Output: out, Timing: engine.Timing{Queued: time.Millisecond, Running: 2 * time.Millisecond}}}
}

// work is the last job's.
func (n *network) work() (*wire.Submit, *engine.Tensors) {
	submits, _ := n.s.Seen()
	last := submits[len(submits)-1]
	return last, last.Work.(*engine.Tensors)
}
