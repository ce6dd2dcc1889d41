package pooling

import (
	"math"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kernels"
)

// TestPool: each kind by hand.
func TestPool(t *testing.T) {
	states := [][]float32{{1, -4}, {2, 8}, {6, -1}}
	root := float32(math.Sqrt(3))
	for kind, want := range map[engine.Pool][]float32{
		engine.PoolLast: {6, -1}, engine.PoolFirst: {1, -4}, engine.PoolMean: {3, 1}, engine.PoolMax: {6, 8},
		engine.PoolRoot: {9 / root, 3 / root}, engine.PoolWeighted: {23. / 6, 1.5}, engine.PoolAll: {1, -4, 2, 8, 6, -1},
	} {
		p, state := New(kind, 2), make([]float32, 2)
		for _, s := range states {
			copy(state, s) // the caller's, and overwritten
			p.Add(state)
		}
		state[0], state[1] = 99, 99
		for i, v := range p.Vector() {
			if math.Abs(float64(v-want[i])) > 1e-6 {
				t.Errorf("pooling %d: %v, want %v", kind, p.Vector(), want)
				break
			}
		}
	}
}

// TestHead: two layers with an activation between, over two vectors.
func TestHead(t *testing.T) {
	h := Head{
		{Weight: &Matrix{2, 2, []float32{1, 2, -1, 0}}, Bias: &Matrix{1, 2, []float32{0.5, 0}}, After: ReLU},
		{Weight: &Matrix{1, 2, []float32{1, 10}}},
	}
	if got := h.Apply([]float32{1, 1, -2, 0}); !slices.Equal(got, []float32{3.5, 20}) {
		t.Errorf("the head says %v, want [3.5 20]", got)
	}
}

// TestMatrix: numbers of all types are read, and quantised ones refused.
func TestMatrix(t *testing.T) {
	for typ, raw := range map[kernels.DType][]byte{kernels.F32: {0, 0, 0xc0, 0x3f}, kernels.BF16: {0xc0, 0x3f}, kernels.F16: {0, 0x3e}} {
		m, err := NewMatrix(kernels.HostTensor{Name: "x", Type: typ, Rows: 1, Cols: 1, Data: raw})
		if err != nil || m.Data[0] != 1.5 {
			t.Errorf("%v: %v, %v; want 1.5", typ, m, err)
		}
	}
	if _, err := NewMatrix(kernels.HostTensor{Name: "x", Type: kernels.F8E4M3, Rows: 1, Cols: 1, Data: []byte{0}, Scale: []float32{1}}); err == nil {
		t.Error("a quantised head is taken")
	}
}

// TestLayerNorm: (1, 2, 3, 6) has the mean 3 and the variance 3.5.
func TestLayerNorm(t *testing.T) {
	for _, bias := range [][]float32{nil, {1, 0, 0, -1}} {
		x := []float32{1, 2, 3, 6}
		LayerNorm(x, []float32{1, 2, 3, 4}, bias, 0.5)
		want := []float32{-1, -1, 0, 6}
		for i := range bias {
			want[i] += bias[i]
		}
		if !slices.Equal(x, want) {
			t.Errorf("with biases %v: %v, want %v", bias, x, want)
		}
	}
}
