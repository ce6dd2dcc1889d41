package kerneltest

import (
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// pickChoice is an element of choices for every n.
func pickChoice[T any](choices []T, n uint8) T { return choices[int(n)%len(choices)] }

// FuzzAttention compares StoreKV and Attention of random shapes with the oracle: two sequences, one of
// which has tokens in the cache.
func FuzzAttention(f *testing.F, open Open, tol Tolerance) {
	f.Add(uint64(1), uint8(3), uint8(6), uint8(1), uint8(1), uint16(0), uint16(250), uint8(20), uint8(1))
	f.Add(uint64(2), uint8(6), uint8(7), uint8(0), uint8(0), uint16(17), uint16(31), uint8(2), uint8(40))
	f.Add(uint64(3), uint8(0), uint8(0), uint8(2), uint8(2), uint16(300), uint16(513), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, dim, group, kv, block uint8, window, cached uint16, rows, other uint8) {
		heads := kernels.Heads{KV: int(kv%3) + 1, Dim: pickChoice([]int{16, 24, 32, 48, 64, 80, 96, 128, 256}, dim)}
		heads.Q = heads.KV * (int(group%9) + 1)
		c := attentionCase{
			heads:       heads,
			blockTokens: pickChoice([]int{16, 32, 64, 48}, block),
			window:      int(window % 400),
			norm:        seed%2 == 1,
			deviation:   1,
			segs:        []span{{int(cached % 600), int(rows%50) + 1}},
		}
		if other%40 > 0 {
			c.segs = append(c.segs, span{0, int(other % 40)})
		}
		s := suite{open: open, tol: tol}
		d := newFixture(t, s.open(t))
		d.Random = rand.New(rand.NewPCG(seed, 2))
		s.compareAttention(newAttentionRun(d, c))
	})
}

// FuzzLinear compares NormLinear and AddLinear of random shapes with the oracle.
func FuzzLinear(f *testing.F, open Open, tol Tolerance) {
	f.Add(uint64(1), uint16(1), uint16(48), uint16(48), uint8(0))
	f.Add(uint64(2), uint16(65), uint16(129), uint16(33), uint8(1))
	f.Add(uint64(3), uint16(15), uint16(1), uint16(1), uint8(2))
	f.Fuzz(func(t *testing.T, seed uint64, rows, in, out uint16, typ uint8) {
		c := linearCase{
			rows: int(rows%100) + 1,
			in:   int(in%300) + 8,          // enough for a sum that is not lost in what it is added to
			out:  []int{int(out%300) + 24}, // enough for a root mean square
			bias: seed%2 == 1,
			typ:  pickChoice([]kernels.DType{kernels.BF16, kernels.F16, kernels.F32, kernels.F8E4M3}, typ),
		}
		s := suite{open: open, tol: tol}
		d := newFixture(t, s.open(t))
		d.Random = rand.New(rand.NewPCG(seed, 3))
		s.compareNormLinear(d, c)
		s.compareAddLinear(d, c)
	})
}
