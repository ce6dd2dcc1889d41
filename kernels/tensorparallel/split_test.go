package tensorparallel_test

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// TestCheck: published shapes, and the largest number of ranks for each.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		model string
		heads kernels.Heads
		inter int
		most  int
	}{
		{"Llama-3.3-70B", kernels.Heads{Q: 64, KV: 8}, 28672, 8},
		{"Qwen2.5-32B", kernels.Heads{Q: 40, KV: 8}, 27648, 8},
		{"Qwen2.5-7B", kernels.Heads{Q: 28, KV: 4}, 18944, 4},
		{"Qwen2.5-0.5B", kernels.Heads{Q: 14, KV: 2}, 4864, 2},
		{"one key-value head", kernels.Heads{Q: 8, KV: 1}, 1024, 1},
	} {
		if err := tensorparallel.Check(c.most, c.heads, c.inter); err != nil {
			t.Errorf("%s: %v", c.model, err)
		}
		for _, ranks := range []int{2 * c.most, c.most + 1} {
			err := tensorparallel.Check(ranks, c.heads, c.inter)
			if err == nil {
				t.Errorf("%s: %d ranks are not refused", c.model, ranks)
			} else if want := "at most " + string(rune('0'+c.most)); !strings.Contains(err.Error(), want) {
				t.Errorf("%s by %d: %v, want it to hold %q", c.model, ranks, err, want)
			}
		}
	}
}

// TestMatricesAreNotMixedUp: a matrix that is cut for the other side of a layer is refused.
func TestMatricesAreNotMixedUp(t *testing.T) {
	b := ranks(2, openRef)(t)
	p := newPass(t, b)
	weights := kernels.HostTensor{Name: "zeros", Rows: passCols, Cols: passCols, Data: make([]byte, 4*passCols*passCols)}
	in, err := b.NewLinear([]kernels.HostTensor{weights}, nil)
	if err != nil {
		t.Fatal(err)
	}
	norm, err := b.NewVector(kernels.HostTensor{Name: "norm", Rows: 1, Cols: passCols, Data: make([]byte, 4*passCols)})
	if err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func(){
		"AddLinear":  func() { b.AddLinear(p.x, p.src, in) },
		"NormLinear": func() { b.NormLinear(p.src, p.x, kernels.Norm{Weight: norm, Eps: 1e-5}, p.l) },
		"MLP":        func() { b.MLP(p.x, kernels.Norm{Weight: norm, Eps: 1e-5}, kernels.SiLU, in, in) },
	} {
		call()
		if err := b.Sync(); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "NewOutputLinear") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	p.wantSum(t, 2)
}
