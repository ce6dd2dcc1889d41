package kerneltest

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// MemoryWatch compares what a device has left after rounds of the same work.
type MemoryWatch struct {
	rounds int
	first  int64
}

// EndRound notes what the device of a backend that can tell has left, and fails a test when it is not what it had after the first round.
func (w *MemoryWatch) EndRound(t *testing.T, backend any) {
	t.Helper()
	m, ok := backend.(interface {
		Memory() (free, total int64, err error)
	})
	if !ok {
		return
	}
	left, _, err := m.Memory()
	if err != nil {
		t.Fatal(err)
	}
	if w.rounds == 0 {
		w.first = left
	}
	if left != w.first {
		t.Errorf("the device has %d bytes left after round %d, %d after the first", left, w.rounds, w.first)
	}
	w.rounds++
}

// testFree makes everything that a backend holds, several times over, and frees it: the device has then what
// it had after the first time, when a driver may have taken memory for good.
func (s suite) testFree(t *testing.T) {
	d := newFixture(t, s.open(t))
	var memory MemoryWatch
	for range 4 {
		held := oneOfEach(d)
		for kind, h := range held {
			if h.Bytes() <= 0 && kind != "table" {
				t.Errorf("a %s holds %d bytes", kind, h.Bytes())
			}
		}
		for _, h := range held {
			h.Free()
		}
		d.MustSync()
		memory.EndRound(t, d.Backend)
	}
}

// oneOfEach is one of everything that the backend can hold for a model, by its kind.
func oneOfEach(d *fixture) map[string]kernels.Held {
	d.T.Helper()
	matrix := []kernels.HostTensor{d.Weight("matrix", kernels.BF16, 64, 96, 1).Tensor}
	codes := []kernels.HostTensor{d.Weight("codes", kernels.F8E4M3, 64, 96, 1).Tensor}
	bias := []kernels.HostTensor{{Name: "bias", Type: kernels.BF16, Rows: 1, Cols: 64, Data: Encode(kernels.BF16, d.Normal(64, 1))}}
	held := map[string]kernels.Held{}
	for kind, hold := range map[string]func() (kernels.Held, error){
		"linear":        func() (kernels.Held, error) { return d.NewLinear(matrix, bias) },
		"output linear": func() (kernels.Held, error) { return kernels.NewOutputLinear(d.Backend, matrix, nil) },
		"FP8 linear":    func() (kernels.Held, error) { return d.NewLinear(codes, nil) },
		"gated linear":  func() (kernels.Held, error) { return d.NewGatedLinear(matrix[0], matrix[0]) },
		"table":         func() (kernels.Held, error) { return d.NewTable(d.Weight("table", kernels.F32, 64, 96, 1).Tensor) },
		"vector":        func() (kernels.Held, error) { return d.NewVector(bias[0]) },
		"rope":          func() (kernels.Held, error) { return d.NewRope([]float32{1, 0.5, 0.25}, 1, 100) },
	} {
		var err error
		if held[kind], err = hold(); err != nil {
			d.T.Fatalf("%s: %v", kind, err)
		}
	}
	return held
}
