package kerneltest

import (
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// testAttentionExtremes covers scores that single out one key, all-equal scores and scores of zero.
func (s suite) testAttentionExtremes(t *testing.T) {
	heads := kernels.Heads{Q: 6, KV: 2, Dim: 64}
	c := attentionCase{heads, 16, 0, false, 1, []span{{0, 70}}}
	fill := func(name string, change func(q, k []float64)) {
		t.Run(name, func(t *testing.T) {
			r := newAttentionRun(newFixture(t, s.open(t)), c)
			r.setRotation(make([]float32, heads.Dim/2), 1) // by nothing, so that equal stays equal
			seq := r.drawSequence(70)
			for pos := range seq.tokens {
				row := seq.qkv[pos*heads.QKVCols():]
				change(row[:heads.Q*heads.Dim], row[heads.Q*heads.Dim:(heads.Q+heads.KV)*heads.Dim])
			}
			seq.qkv = Rounded(r.ActType(), seq.qkv)
			p := part{seq, 0, seq.tokens}
			_, want := r.expectedOutput(p)
			_, dst := r.runAttention(true, p)
			// A float32 sum of size 10^4 is off by 10^-3, and so is then each probability.
			tol := Tolerance{Max: s.tol.Max + 2e-3, RMS: s.tol.RMS + 1e-4}
			checkValues(r.T, "attention", tol, r.Values(dst), want)
		})
	}
	scale := func(factor float64) func(v []float64) {
		return func(v []float64) {
			for i := range v {
				v[i] *= factor
			}
		}
	}
	set := func(value float64) func(v []float64) {
		return func(v []float64) {
			for i := range v {
				v[i] = value
			}
		}
	}
	fill("one key takes all", func(q, k []float64) { scale(64)(q); scale(64)(k) })
	fill("very large", func(q, k []float64) { scale(0x1p30)(q); scale(0x1p30)(k) })
	fill("equal and large", func(q, k []float64) { set(1024)(q); set(1024)(k) })
	fill("equal and very negative", func(q, k []float64) { set(-1024)(q); set(1024)(k) })
	fill("zero", func(q, k []float64) { set(0)(q); set(0)(k) })
	fill("tiny", func(q, k []float64) { scale(0x1p-60)(q); scale(0x1p-60)(k) })
}

// testNormExtremes covers rows of zeros, of tiny values, where eps decides, and of large ones.
func (s suite) testNormExtremes(t *testing.T) {
	d := newFixture(t, s.open(t))
	const in, out = 64, 48
	l, w, bias := d.Linear(kernels.BF16, in, true, out)
	norm, normValues := d.NormWeight(in)
	for _, factor := range []float64{0, 1e-20, 1e-3, 1e4, 1e12} {
		values := d.Normal(3*in, factor)
		for i := in; i < 2*in; i++ {
			values[i] = 0 // a row of zeros between others
		}
		values = Rounded(kernels.F32, values)
		x, dst := d.Mat(kernels.F32, 3, in, values), d.Mat(d.ActType(), 3, out, nil)
		d.NormLinear(dst, x, rootMean(norm), l)
		want := NewMatrix(3, in, values).RMSNorm(normValues, normEps).TimesTransposed(w, bias)
		checkValues(d.T, "norm", s.tol, d.Values(dst), want.V)
	}

	// Gates far out on both sides must give neither NaN nor infinity.
	gate, up := d.Weight("gate", kernels.F32, 32, in, 100), d.Weight("up", kernels.F32, 32, in, 1)
	gated, err := d.NewGatedLinear(gate.Tensor, up.Tensor)
	if err != nil {
		t.Fatal(err)
	}
	defer gated.Free()
	down, _, _ := d.OutputLinear(kernels.F32, 32, false, in)
	x := d.Mat(kernels.F32, 4, in, d.Normal(4*in, 1))
	d.MLP(x, rootMean(norm), kernels.SiLU, gated, down)
	for i, v := range d.Values(x) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("element %d of MLP with large gates is %v", i, v)
		}
	}
}
